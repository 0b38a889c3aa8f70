package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// fuzzed are random VPAs and pods, tried with gates on and off.
type fuzzed struct {
	seed  uint64
	cases []fuzzedPod
}

type fuzzedPod struct {
	workload
	vpa    *vpav1.VerticalPodAutoscaler
	pod    *corev1.Pod // without its owner
	ranges []corev1.LimitRangeItem
}

// fuzzSize is the number of VPAs per namespace, and of pods per VPA.
func fuzzSize() (vpas, pods int) {
	if n, err := strconv.Atoi(os.Getenv("FUZZ_VPAS")); err == nil {
		return n, 5
	}
	if os.Getenv("LONG") != "" {
		return 100, 10
	}
	return 10, 5
}

// fuzzSeed is the same in each run, so that a change is judged by what it changed; with LONG=1 it is
// a new one, and FUZZ_SEED repeats that run.
func fuzzSeed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("FUZZ_SEED"), 10, 64); err == nil {
		return n
	}
	if os.Getenv("LONG") != "" {
		return uint64(time.Now().UnixNano())
	}
	return 1
}

// newFuzzed creates the VPAs before the webhook is registered, because it would refuse some.
func newFuzzed(t *testing.T, prefix string) *fuzzed {
	t.Helper()
	f := &fuzzed{seed: fuzzSeed()}
	t.Logf("FUZZ_SEED=%d does this run again", f.seed)
	vpas, pods := fuzzSize()
	var all [][]fuzzedPod
	for i, ranges := range fuzzedRanges {
		ns := namespace(t, fmt.Sprintf("%s-%d", prefix, i))
		var items []corev1.LimitRangeItem
		for j, one := range ranges {
			limitRange(t, ns, fmt.Sprintf("l%d", j), one)
			var some []corev1.LimitRangeItem
			require.NoError(t, yaml.UnmarshalStrict([]byte(one), &some))
			items = append(items, some...)
		}
		for j := range vpas {
			all = append(all, make([]fuzzedPod, pods))
			all[len(all)-1][0] = fuzzedPod{workload: workload{ns: ns, name: fmt.Sprintf("w%d", j)}, ranges: items}
		}
	}
	each(len(all), func(i int) {
		r := random{rand.New(rand.NewPCG(f.seed, uint64(i)))}
		first := all[i][0]
		w := newOwner(t, first.ns, first.name)
		var v *vpav1.VerticalPodAutoscaler
		for {
			v = r.vpa(first.ns, first.name)
			rec := v.Status.Recommendation
			if err := cluster.Create(t.Context(), v); apierrors.IsInvalid(err) { // by the CRD
				continue
			} else if err != nil {
				t.Errorf("creating a VPA: %v", err)
				return
			}
			v.Status.Recommendation = rec
			if err := cluster.Status().Update(t.Context(), v); err != nil {
				t.Errorf("writing its status: %v", err)
				return
			}
			break
		}
		for j := range all[i] {
			all[i][j] = fuzzedPod{workload: w, vpa: v, ranges: first.ranges, pod: r.pod(first.ranges)}
		}
	})
	for _, some := range all {
		f.cases = append(f.cases, some...)
	}
	return f
}

// each does n things, some in parallel.
func each(n int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// Why the API server refuses a patched pod whose original it would accept.
const (
	refusedInvalid = "the API server finds it invalid"
	refusedRange   = "a LimitRange refuses it"
)

// areAllAccepted creates each pod by dry run, with and without the owner reference that gives it a
// VPA.
func (f *fuzzed) areAllAccepted(t *testing.T) {
	api, err := harness.ConnectWith(kubeconfig, func(c *rest.Config) { c.QPS, c.Burst = 5000, 5000 })
	require.NoError(t, err)
	var mu sync.Mutex
	counts, shown := map[string]int{}, map[string]int{}
	begin := time.Now()
	each(len(f.cases), func(i int) {
		c := &f.cases[i]
		outcome, _ := c.try(t.Context(), api, c.pod)
		mu.Lock()
		counts[outcome]++
		show := (outcome == refusedInvalid || outcome == refusedRange) && shown[outcome] < 4
		if show {
			shown[outcome]++
		}
		mu.Unlock()
		if show {
			small, err := c.shrink(t.Context(), api, outcome)
			v := c.vpa.DeepCopy()
			v.ManagedFields = nil
			t.Errorf("%s: %v\nthe pod, the VPA, the recommendation, the LimitRange:\n%s", outcome, err,
				asYAML(small.Spec, v.Spec, v.Status.Recommendation, c.ranges))
		}
	})
	t.Logf("%d pods in %s: %v", len(f.cases), time.Since(begin).Round(100*time.Millisecond), counts)
	require.Zero(t, counts[refusedInvalid], "seed %d", f.seed)
	require.Zero(t, counts[refusedRange], "seed %d", f.seed)
	require.Greater(t, counts["patched"], len(f.cases)/3, "too few pods are tried for what they are")
}

// try returns the API server's answer for a pod.
func (c *fuzzedPod) try(ctx context.Context, api client.Client, pod *corev1.Pod) (string, error) {
	plain := c.own(pod.DeepCopy())
	plain.OwnerReferences = nil
	if err := api.Create(ctx, plain, client.DryRunAll); err != nil {
		return "refused without a patch, too", err
	}
	patched := c.own(pod.DeepCopy())
	err := api.Create(ctx, patched, client.DryRunAll)
	switch {
	case err == nil && patched.Annotations["vpaUpdates"] != "":
		return "patched", nil
	case err == nil:
		return "left alone", nil
	case apierrors.IsForbidden(err):
		return refusedRange, err
	}
	return refusedInvalid, err
}

// shrink removes from a pod whatever does not change its refusal.
func (c *fuzzedPod) shrink(ctx context.Context, api client.Client, outcome string) (small *corev1.Pod, err error) {
	small = c.pod.DeepCopy()
	for again := true; again; {
		again = false
		for _, less := range smaller(small) {
			if got, _ := c.try(ctx, api, less); got == outcome {
				small, again = less, true
				break
			}
		}
	}
	_, err = c.try(ctx, api, small)
	return small, err
}

// smaller are copies of a pod with one thing removed.
func smaller(p *corev1.Pod) (out []*corev1.Pod) {
	without := func(change func(s *corev1.PodSpec)) {
		less := p.DeepCopy()
		change(&less.Spec)
		out = append(out, less)
	}
	for i := range p.Spec.InitContainers {
		without(func(s *corev1.PodSpec) { s.InitContainers = slices.Delete(s.InitContainers, i, i+1) })
	}
	for i := range p.Spec.Containers {
		if len(p.Spec.Containers) > 1 {
			without(func(s *corev1.PodSpec) { s.Containers = slices.Delete(s.Containers, i, i+1) })
		}
	}
	lists := func(of func(s *corev1.PodSpec) *corev1.ResourceRequirements) {
		r := of(&p.Spec)
		if r == nil {
			return
		}
		for name := range r.Limits {
			without(func(s *corev1.PodSpec) { delete(of(s).Limits, name) })
		}
		for name := range r.Requests {
			without(func(s *corev1.PodSpec) { delete(of(s).Requests, name) })
			without(func(s *corev1.PodSpec) { delete(of(s).Requests, name); delete(of(s).Limits, name) })
		}
	}
	lists(func(s *corev1.PodSpec) *corev1.ResourceRequirements { return s.Resources })
	for i := range p.Spec.InitContainers {
		lists(func(s *corev1.PodSpec) *corev1.ResourceRequirements { return &s.InitContainers[i].Resources })
	}
	for i := range p.Spec.Containers {
		lists(func(s *corev1.PodSpec) *corev1.ResourceRequirements { return &s.Containers[i].Resources })
	}
	return out
}
