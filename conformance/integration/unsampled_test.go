package integration

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// UPSTREAM.md Appendix B 11: containers without samples get no recommendation. The first metrics of a
// pod arrive some time after its start: here once the VPA says that nothing is known.

// unmeasured hides the usage of the pods of a Deployment, until measured.
func unmeasured(d *appsv1.Deployment) *appsv1.Deployment {
	metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, harness.Unknown, "true")
	return d
}

// measured shows the usage of the pods of a namespace.
func measured(t *testing.T, ns string) {
	t.Helper()
	for _, p := range pods(t, ns) {
		shown := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+harness.Unknown+`":null}}}`))
		require.NoError(t, client.IgnoreNotFound(cluster.Patch(t.Context(), &p, shown)))
	}
}

// metricsThatBeginLateStarveNobody: pods of a new workload keep their requests until their usage is
// known.
func metricsThatBeginLateStarveNobody(t *testing.T) {
	ns := namespace(t, "it-late-metrics")
	seen := requestsOf(t, ns)
	create(t, vpa(ns, "web", vpav1.UpdateModeInPlaceOrRecreate), unmeasured(steady(ns, "web", 2)))
	running(t, ns, 2)
	nothingKnown(t, ns, "web", "app")
	measured(t, ns)
	resizedTo(t, ns, "app", 2)
	seen.neverBelowTheirOwn(t, "app")
}

// aNewDeploymentUnderAnOldVPAStarvesNobody: the VPA's history of the old containers does not apply
// to the new ones.
func aNewDeploymentUnderAnOldVPAStarvesNobody(t *testing.T) {
	ns := namespace(t, "it-new-deployment")
	old := steady(ns, "web", 2)
	create(t, vpa(ns, "web", vpav1.UpdateModeInPlaceOrRecreate), old)
	running(t, ns, 2)
	recommended(t, ns, "web")
	require.NoError(t, cluster.Delete(t.Context(), old, client.PropagationPolicy("Foreground")))
	hang.Eventually(t, "the old Deployment and its pods to be gone", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, keyOf(old), old)
		return err != nil && len(pods(t, ns)) == 0, client.IgnoreNotFound(err)
	})

	seen := requestsOf(t, ns)
	next := unmeasured(using(steady(ns, "web", 2), "server"))
	next.Spec.Template.Spec.Containers[0].Name = "server"
	create(t, next)
	running(t, ns, 2)
	nothingKnown(t, ns, "web", "server")
	measured(t, ns)
	resizedTo(t, ns, "server", 2)
	seen.neverBelowTheirOwn(t, "server")
}

// aContainerThatIsAddedIsNotStarved: admission applies the recommendation of the old container; the
// new one keeps its requests until its usage is known.
func aContainerThatIsAddedIsNotStarved(t *testing.T) {
	ns := namespace(t, "it-added-container")
	web := steady(ns, "web", 2)
	create(t, vpa(ns, "web", vpav1.UpdateModeInPlaceOrRecreate), web)
	running(t, ns, 2)
	recommended(t, ns, "web")

	seen := requestsOf(t, ns)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := cluster.Get(t.Context(), keyOf(web), web); err != nil {
			return err
		}
		side := *web.Spec.Template.Spec.Containers[0].DeepCopy()
		side.Name = "side"
		unmeasured(using(web, "side")).Spec.Template.Spec.Containers = append(web.Spec.Template.Spec.Containers, side)
		return cluster.Update(t.Context(), web)
	}))
	hang.Eventually(t, "the VPA to report that nothing is known of side, and still what app needs", func(ctx context.Context) (bool, error) {
		var v vpav1.VerticalPodAutoscaler
		err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: "web"}, &v)
		c := condition(&v, vpav1.RecommendationProvided)
		return err == nil && c != nil && c.Status == corev1.ConditionTrue && c.Reason == "UsageUnknown" &&
			strings.Contains(c.Message, "of container side") && v.Status.Recommendation.ContainerRecommendations[0].Target.Cpu().Cmp(steadyCPU) == 0, err
	})
	hang.Eventually(t, "the rollout", func(context.Context) (bool, error) {
		for _, p := range pods(t, ns) {
			if len(p.Spec.Containers) != 2 || p.Status.Phase != corev1.PodRunning {
				return false, nil
			}
		}
		return len(pods(t, ns)) == 2, nil
	})
	measured(t, ns)
	resizedTo(t, ns, "side", 2)
	seen.neverBelowTheirOwn(t, "app", "side")
	require.Equal(t, "100m 128Mi", seen.first("side"))
	require.Equal(t, steadyCPU.String()+" "+steadyMemory.String(), seen.first("app"))
}

// using makes a container of a Deployment use what app does.
func using(d *appsv1.Deployment, container string) *appsv1.Deployment {
	annotations := d.Spec.Template.Annotations
	for _, what := range []string{"cpu-low", "cpu-high", "memory-low", "memory-high"} {
		annotations[container+".usage/"+what] = annotations["app.usage/"+what]
	}
	return d
}

// resizedTo waits until a container of n pods has the recommendation for the usage of app.
func resizedTo(t *testing.T, ns, container string, count int) {
	t.Helper()
	hang.Eventually(t, "the recommendation in "+container, func(context.Context) (bool, error) {
		have := 0
		for _, p := range pods(t, ns) {
			for _, c := range p.Spec.Containers {
				if c.Name == container && c.Resources.Requests.Cpu().Cmp(steadyCPU) == 0 && c.Resources.Requests.Memory().Cmp(steadyMemory) == 0 {
					have++
				}
			}
		}
		return have == count, nil
	})
}

// requestsSeen are the requests of the containers of all pods of a namespace, as they appeared and
// changed.
type requestsSeen struct {
	mu   sync.Mutex
	seen map[string][]corev1.ResourceList // by container
}

// requestsOf records them from now on.
func requestsOf(t *testing.T, ns string) *requestsSeen {
	t.Helper()
	watching, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme()})
	require.NoError(t, err)
	w, err := watching.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(ns))
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	r := &requestsSeen{seen: map[string][]corev1.ResourceList{}}
	known := map[string]bool{}
	for _, p := range pods(t, ns) {
		known[p.Name] = true
	}
	go func() {
		for event := range w.ResultChan() {
			p, ok := event.Object.(*corev1.Pod)
			if !ok || event.Type == watch.Deleted || known[p.Name] {
				continue
			}
			r.mu.Lock()
			for _, c := range p.Spec.Containers {
				r.seen[c.Name] = append(r.seen[c.Name], c.Resources.Requests)
			}
			r.mu.Unlock()
		}
	}()
	return r
}

// first is what the first pod requested when it was created.
func (r *requestsSeen) first(container string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen[container]) == 0 {
		return "none"
	}
	list := r.seen[container][0]
	return list.Cpu().String() + " " + list.Memory().String()
}

// neverBelowTheirOwn: no pod ever requested less than its Deployment, 100m and 128Mi.
func (r *requestsSeen) neverBelowTheirOwn(t *testing.T, containers ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range containers {
		require.NotEmpty(t, r.seen[c])
		i := slices.IndexFunc(r.seen[c], func(list corev1.ResourceList) bool {
			return list.Cpu().MilliValue() < 100 || list.Memory().Value() < 128<<20
		})
		if i >= 0 {
			t.Fatalf("container %s requested %s and %s", c, r.seen[c][i].Cpu(), r.seen[c][i].Memory())
		}
	}
}
