package reliability

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// scene is a namespace in which a rollout takes place, a recommender and an updater for it, and a witness that sees all that they
// do. Its workloads are
//   - web, whose pods are to be evicted, at most half of them at a time,
//   - inplace, whose pods are to be resized in place,
//   - off and fitting, whose pods are to be left alone: for their mode, and because they have what is recommended,
//   - late, whose VPA comes last, without a checkpoint.
type scene struct {
	*witness
	t     *testing.T
	ns    string
	proxy *faults.Proxy // nil = nothing comes between

	recommender, updater *program
}

var (
	replicas = map[string]int{"web": 4, "inplace": 3, "off": 2, "fitting": 2, "late": 1}
	modes    = map[string]vpav1.UpdateMode{"web": vpav1.UpdateModeRecreate, "inplace": vpav1.UpdateModeInPlaceOrRecreate, "off": vpav1.UpdateModeOff, "fitting": vpav1.UpdateModeRecreate}
)

// newScene creates the workloads and their VPAs, all in mode Off, and waits until all have their recommendation.
func newScene(t *testing.T, ns string, proxy *faults.Proxy) *scene {
	t.Helper()
	s := newStage(t, ns, proxy)
	s.recommender, s.updater = s.start("recommender"), s.start("updater")
	s.haveRecommendations("web", "inplace", "off", "fitting")
	return s
}

// newStage is a scene without programs.
func newStage(t *testing.T, ns string, proxy *faults.Proxy) *scene {
	t.Helper()
	s := &scene{t: t, ns: ns, proxy: proxy}
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	for app, n := range replicas {
		requests := little
		if app == "fitting" {
			requests = recommended
		}
		create(t, deployment(ns, app, int32(n), requests))
	}
	for app := range modes {
		create(t, vpa(ns, app, vpav1.UpdateModeOff), harness.Checkpoint(ns, app, "app", history()))
	}
	for app, n := range replicas {
		hang.Eventually(t, "the pods of "+app, func(ctx context.Context) (bool, error) {
			pods, err := s.pods(ctx, app)
			up := 0
			for _, p := range pods {
				if p.Status.Phase == corev1.PodRunning {
					up++
				}
			}
			return up == n && len(pods) == n, err
		})
	}
	s.witness = newWitness(t, ns)
	return s
}

// pods are those of a workload that are not terminating.
func (s *scene) pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := cluster.List(ctx, &list, client.InNamespace(s.ns), client.MatchingLabels{"app": app})
	var out []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out, err
}

// begin starts the rollout: it gives the VPAs their modes, and creates the last one.
func (s *scene) begin() {
	s.t.Helper()
	for app, mode := range modes {
		s.patch(app, map[string]any{"updatePolicy": map[string]any{"updateMode": mode}})
	}
	create(s.t, vpa(s.ns, "late", vpav1.UpdateModeOff))
}

// patch changes the spec of a VPA.
func (s *scene) patch(name string, spec map[string]any) {
	s.t.Helper()
	text, err := json.Marshal(map[string]any{"spec": spec})
	require.NoError(s.t, err)
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	require.NoError(s.t, cluster.Patch(s.t.Context(), v, client.RawPatch(types.MergePatchType, text)))
}

// rollsOut waits until the rollout has started: a pod of web was evicted.
func (s *scene) rollsOut() {
	s.t.Helper()
	hang.Eventually(s.t, "an eviction", func(context.Context) (bool, error) { return s.fewest("web") < replicas["web"], nil })
}

// haveRecommendations waits until VPAs have the recommendation that the usage gives.
func (s *scene) haveRecommendations(names ...string) {
	s.t.Helper()
	for _, name := range names {
		hang.Eventually(s.t, "the recommendation of "+name, func(ctx context.Context) (bool, error) {
			var v vpav1.VerticalPodAutoscaler
			err := cluster.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: name}, &v)
			if got := targetOf(&v); err == nil && got != recommended {
				err = fmt.Errorf("its target is %q", got)
			}
			return err == nil, err
		})
	}
}

// ends waits for what would come of the rollout without any fault.
func (s *scene) ends() {
	s.t.Helper()
	s.haveRecommendations("web", "inplace", "off", "fitting", "late")
	for app, want := range map[string]string{"web": recommended, "inplace": recommended, "fitting": recommended, "off": said(amounts(little))} {
		hang.Eventually(s.t, "the pods of "+app+" to have "+want, func(ctx context.Context) (bool, error) {
			pods, err := s.pods(ctx, app)
			for _, p := range pods {
				if requestsOf(&p) != want || granted(&p) != want {
					return false, fmt.Errorf("%s requests %s and has %s", p.Name, requestsOf(&p), granted(&p))
				}
			}
			return len(pods) == replicas[app], err
		})
	}
	s.goOn()
}

// goOn requires that both programs are the ones that were started, ready, and in motion.
func (s *scene) goOn() {
	s.t.Helper()
	for component, p := range map[string]*program{"recommender": s.recommender, "updater": s.updater} {
		require.NoError(s.t, p.Alive(), component)
		hang.Eventually(s.t, "the "+component+" to be ready", func(ctx context.Context) (bool, error) {
			_, err := harness.Get(ctx, "http://"+p.Address+"/readyz")
			return err == nil, err
		})
		s.moreCycles(p, component, 2)
		require.False(s.t, p.Says("please report this"), "%s panicked; see %s", component, p.LogFile)
	}
}

// losesNothing requires that no pod was disrupted that should not have been, neither by what the witness saw nor by the audit log,
// and that no recommendation and no history was lost.
func (s *scene) losesNothing() {
	s.t.Helper()
	s.withinBudget()
	evicted, resized := s.audited()
	for pod, times := range evicted {
		require.Equal(s.t, "web", s.appOf(pod), "pod %s was evicted", pod)
		require.Equal(s.t, 1, times, "pod %s was evicted more than once", pod)
		require.Equal(s.t, said(amounts(little)), s.firstSize(pod), "pod %s was evicted", pod)
	}
	// An eviction whose answer came too late for its cycle is none in the audit log. That all pods of web are new ones, ends has seen.
	require.NotEmpty(s.t, evicted)
	for pod := range resized {
		require.Equal(s.t, "inplace", s.appOf(pod), "pod %s was resized", pod)
	}
}

// withinBudget requires what must hold however often recommendations change.
func (s *scene) withinBudget() {
	s.t.Helper()
	s.witness.mu.Lock()
	lost := s.lost
	s.witness.mu.Unlock()
	require.Empty(s.t, lost)
	require.GreaterOrEqual(s.t, s.fewest("web"), replicas["web"]/2, "at most half of the pods may be missing")
	for _, app := range []string{"inplace", "off", "fitting"} {
		require.Equal(s.t, replicas[app], s.fewest(app), app)
	}
}

// audited is how often each pod was evicted, and resized, with success, by the audit log of the API server.
func (s *scene) audited() (evicted, resized map[string]int) {
	s.t.Helper()
	evicted, resized = map[string]int{}, map[string]int{}
	require.NoError(s.t, harness.AuditEvents(lab.Kubeconfig, users["updater"].User(), func(e harness.AuditEvent) {
		if e.ObjectRef == nil || e.ObjectRef.Namespace != s.ns || e.ResponseStatus == nil || e.ResponseStatus.Code >= 300 {
			return
		}
		switch e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource {
		case "pods/eviction":
			evicted[e.ObjectRef.Name]++
		case "pods/resize":
			resized[e.ObjectRef.Name]++
		}
	}))
	return evicted, resized
}
