package reliability

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
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

// witness watches a namespace by the API server itself, with no proxy between.
type witness struct {
	mu      sync.Mutex
	running map[string]map[types.UID]bool // pods that run, by workload
	least   map[string]int                // the fewest of them at a time
	seen    map[string]seenPod            // by name
	samples map[string]int                // in checkpoints, by name
	targets map[string]bool               // that VPAs may have
	had     map[types.UID]bool            // VPAs that had a recommendation
	behind  int                           // samples that one writer of a checkpoint may have fewer than another
	lost    []string
}

// seenPod is a pod as it was first seen.
type seenPod struct{ app, requests string }

// newWitness starts to watch until the test ends.
func newWitness(t *testing.T, ns string) *witness {
	t.Helper()
	w := &witness{running: map[string]map[types.UID]bool{}, least: map[string]int{}, seen: map[string]seenPod{}, samples: map[string]int{},
		targets: map[string]bool{recommended: true}, had: map[types.UID]bool{}}
	objects, err := cache.New(cluster.Config, cache.Options{Scheme: cluster.Scheme(), DefaultNamespaces: map[string]cache.Config{ns: {}}})
	require.NoError(t, err)
	go func() { _ = objects.Start(t.Context()) }()
	w.watchPods(t, ns)
	for _, kind := range []client.Object{&vpav1.VerticalPodAutoscaler{}, &vpav1.VerticalPodAutoscalerCheckpoint{}} {
		informer, err := objects.GetInformer(t.Context(), kind)
		require.NoError(t, err)
		registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { w.see(o, false) }, UpdateFunc: func(_, o any) { w.see(o, false) }, DeleteFunc: func(o any) { w.see(o, true) },
		})
		require.NoError(t, err)
		require.True(t, toolscache.WaitForCacheSync(t.Context().Done(), registered.HasSynced))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for app, pods := range w.running {
		w.least[app] = len(pods)
	}
	return w
}

func (w *witness) see(o any, gone bool) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := o.(type) {
	case *vpav1.VerticalPodAutoscaler:
		w.seeVPA(o)
	case *vpav1.VerticalPodAutoscalerCheckpoint:
		w.seeCheckpoint(o, gone)
	}
}

// sawPod notes a pod as it is now. Callers hold the lock.
func (w *witness) sawPod(p *corev1.Pod, gone bool) {
	app := p.Labels["app"]
	if w.running[app] == nil {
		w.running[app] = map[types.UID]bool{}
	}
	if gone || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
		delete(w.running[app], p.UID)
	} else {
		w.running[app][p.UID] = true
	}
	if _, known := w.seen[p.Name]; !known {
		w.seen[p.Name] = seenPod{app, requestsOf(p)}
	}
	if first := w.seen[p.Name]; (app == "off" || app == "fitting") && requestsOf(p) != first.requests {
		w.lost = append(w.lost, fmt.Sprintf("pod %s was resized from %s to %s", p.Name, first.requests, requestsOf(p)))
	}
}

// countPods notes how many pods of each workload run, once the first are known. Callers hold the lock.
func (w *witness) countPods() {
	for app, least := range w.least {
		w.least[app] = min(least, len(w.running[app]))
	}
}

func (w *witness) seeVPA(v *vpav1.VerticalPodAutoscaler) {
	target := targetOf(v)
	if target == "" && w.had[v.UID] {
		w.lost = append(w.lost, fmt.Sprintf("VPA %s lost its recommendation", v.Name))
	}
	// The memory of a pod that has just started is not known yet.
	if target != "" && v.Name != "late" && !w.targets[target] {
		w.lost = append(w.lost, fmt.Sprintf("VPA %s has target %s", v.Name, target))
	}
	w.had[v.UID] = w.had[v.UID] || target != ""
}

func (w *witness) seeCheckpoint(c *vpav1.VerticalPodAutoscalerCheckpoint, gone bool) {
	if before := w.samples[c.Name]; gone || c.Status.TotalSamplesCount < before-w.behind {
		w.lost = append(w.lost, fmt.Sprintf("checkpoint %s went from %d samples to %d (deleted: %v)", c.Name, before, c.Status.TotalSamplesCount, gone))
	}
	w.samples[c.Name] = c.Status.TotalSamplesCount
}

// fewest is how many pods of a workload ran at least.
func (w *witness) fewest(app string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.least[app]
}

// mayBecome allows VPAs another target.
func (w *witness) mayBecome(target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.targets[target] = true
}

// mayBeBehind allows checkpoints to go back by some samples, because several write them.
func (w *witness) mayBeBehind(samples int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behind = samples
}

// appOf is the workload of a pod.
func (w *witness) appOf(pod string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[pod].app
}

// firstSize is what a pod requested when it was created.
func (w *witness) firstSize(pod string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[pod].requests
}
