package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/poddefaults"
)

// offlineCommandsFillInWhatTheAPIServerDoes: package poddefaults defaults generated pods and
// LimitRanges exactly as the API server does when they are created.
func offlineCommandsFillInWhatTheAPIServerDoes(t *testing.T) {
	const pods = 60 // in each namespace; some are refused
	for i, items := range fuzzedRanges {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			ns := namespace(t, fmt.Sprintf("it-defaults-%d", i))
			r := random{rand.New(rand.NewPCG(uint64(i), 37))}
			ranges := storedRanges(t, ns, items)
			var fits []corev1.LimitRangeItem
			for j := range ranges {
				fits = append(fits, ranges[j].Spec.Limits...)
			}
			taken, filled := 0, 0
			for j := range pods {
				pod := r.pod(fits)
				pod.Namespace, pod.Name = ns, fmt.Sprintf("p%d", j)
				for k := range pod.Spec.InitContainers {
					pod.Spec.InitContainers[k].Image = "a"
				}
				for k := range pod.Spec.Containers {
					pod.Spec.Containers[k].Image = "a"
					if r.in(5) {
						pages := corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi"), "memory": resource.MustParse("64Mi")}
						pod.Spec.Containers[k].Resources = corev1.ResourceRequirements{Limits: pages}
					}
				}
				want := pod.DeepCopy()
				poddefaults.Create(want, ranges)
				if live, ok := requireDefaulted(t, pod, want); ok {
					taken++
					if !equality.Semantic.DeepEqual(pod.Spec.Resources, live.Spec.Resources) {
						filled++
					}
				}
			}
			t.Logf("%d of %d pods were taken, and %d of them completed at pod level", taken, pods, filled)
			require.GreaterOrEqual(t, taken, 3, "else nothing is compared")
			require.Positive(t, filled)
		})
	}
}

// storedRanges creates LimitRanges, compares celvpa's defaulting with the API server's, and returns
// celvpa's result.
func storedRanges(t *testing.T, ns string, items []string) (out []corev1.LimitRange) {
	t.Helper()
	for i, one := range items {
		name := fmt.Sprintf("l%d", i)
		limitRange(t, ns, name, one)
		var live corev1.LimitRange
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &live))
		ours := decodedRange(t, name, one)
		poddefaults.LimitRange(&ours)
		require.True(t, equality.Semantic.DeepEqual(ours.Spec, live.Spec), "LimitRange %s\nours: %+v\nlive: %+v", one, ours.Spec, live.Spec)
		out = append(out, ours)
	}
	return out
}

// requireDefaulted compares a pod with what the API server would store; ok is false if it refuses
// the pod.
func requireDefaulted(t *testing.T, pod, want *corev1.Pod) (live *corev1.Pod, ok bool) {
	t.Helper()
	// Poll until the API server has cached the LimitRanges; a lasting difference is reported below.
	same := func(ctx context.Context) (bool, error) {
		live = pod.DeepCopy()
		err := cluster.Create(ctx, live, client.DryRunAll)
		if ok = err == nil; !ok {
			if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
				err = nil
			}
			return err == nil, err
		}
		return sameResources(want, live), nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, hang.Limit, true, same); !wait.Interrupted(err) {
		require.NoError(t, err)
	}
	if ok {
		require.True(t, sameResources(want, live), "pod %v\nours: %v\nlive: %v", resourcesOf(pod), resourcesOf(want), resourcesOf(live))
	}
	return live, ok
}

func sameResources(a, b *corev1.Pod) bool {
	same := equality.Semantic.DeepEqual(a.Spec.Resources, b.Spec.Resources)
	for i := range a.Spec.InitContainers {
		same = same && equality.Semantic.DeepEqual(a.Spec.InitContainers[i].Resources, b.Spec.InitContainers[i].Resources)
	}
	for i := range a.Spec.Containers {
		same = same && equality.Semantic.DeepEqual(a.Spec.Containers[i].Resources, b.Spec.Containers[i].Resources)
	}
	return same
}
