package reliability

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

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
