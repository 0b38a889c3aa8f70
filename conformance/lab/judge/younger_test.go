package judge

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/celvpa/celvpa/conformance/workloads"
	"github.com/celvpa/celvpa/controllers/poddefaults"
)

// fewer is how many workloads the tests beside TestAValidPodStaysValid try.
const fewer = 4000

// TestNoPodIsEvictedForOneThatIsRefused where LimitRanges are younger than the pod: those of another
// workload, which may contradict each other. The updater waits until somebody changes them.
func TestNoPodIsEvictedForOneThatIsRefused(t *testing.T) {
	all := clusters(t)
	evicted, forRefused := 0, []finding(nil)
	for i := range fewer {
		r := workloads.New(3, uint64(i))
		w := r.Workload()
		alone := copied(w)
		alone.LimitRanges = nil
		before, why := valid(all[0], alone)
		if why != "" {
			continue
		}
		w.LimitRanges = r.Workload().LimitRanges
		after, err := NewNamespace(w.LimitRanges)
		if err != nil {
			continue
		}
		pod, refused := before.Create(w.Pod)
		require.Nil(t, refused)
		c := all[i%len(all)]
		var v verdict
		v.refused = map[step]*Refusal{}
		c.admit(after, w, folded(after), &v)
		if !c.update(after, w, folded(after), pod, resized, &v) {
			continue
		}
		evicted++
		refusal := v.refused[created]
		if refusal == nil && v.refusedByRules == "" {
			continue
		}
		kind := "a rule of celvpa: " + v.refusedByRules
		if refusal != nil {
			kind = refusal.kind()
		}
		forRefused = append(forRefused, finding{Workload: w, on: c, step: created, kind: kind, number: i})
	}
	require.Greater(t, evicted, fewer/8, "too few are evicted to say so")
	for _, some := range byKind(forRefused) {
		t.Errorf("%d of %d evictions are for a pod that is refused: %s; the smallest is workload %d, with %s", len(some), evicted, some[0].kind, some[0].number, some[0].on.name)
	}
}

// TestOfflineCommandsFillInWhatAnAPIServerDoes: package poddefaults gives pods and LimitRanges the
// resources that Kubernetes gives them.
func TestOfflineCommandsFillInWhatAnAPIServerDoes(t *testing.T) {
	filled := 0
	for i := range fewer {
		w := workloads.New(2, uint64(i)).Workload()
		ns, err := NewNamespace(w.LimitRanges)
		if err != nil {
			continue
		}
		var ranges []corev1.LimitRange
		for j := range w.LimitRanges {
			stored := w.LimitRanges[j].DeepCopy()
			poddefaults.LimitRange(stored)
			ranges = append(ranges, *stored)
		}
		requireSame(t, ns.LimitRanges(), ranges, w)
		ours := w.Pod.DeepCopy()
		poddefaults.BeforeWebhooks(ours, ranges)
		requireSame(t, resourcesOf(ns.BeforeWebhooks(w.Pod)), resourcesOf(ours), w)
		stored, refused := ns.Create(w.Pod)
		if refused != nil {
			continue
		}
		ours = w.Pod.DeepCopy()
		poddefaults.Create(ours, ranges)
		requireSame(t, resourcesOf(stored), resourcesOf(ours), w)
		if !equality.Semantic.DeepEqual(resourcesOf(w.Pod), resourcesOf(ours)) {
			filled++
		}
	}
	require.Greater(t, filled, fewer/3, "too few are completed to say so")
}

func requireSame(t *testing.T, want, got any, w *workloads.Workload) {
	t.Helper()
	if !equality.Semantic.DeepEqual(want, got) {
		require.JSONEq(t, string(encoded(want)), string(encoded(got)), "of %s", encoded(w))
	}
}
