package recommender

import (
	"gopkg.in/inf.v0"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// tolerates reports whether two statuses whose targets and conditions are the same differ in bounds
// only, and by no more than the tolerance. The bounds of each VPA drift with every sample of its first
// weeks: without it, each status would be written each minute.
func (s *State) tolerates(before, after *vpav1.VerticalPodAutoscalerStatus) bool {
	if s.tolerance.IsZero() || before.Recommendation == nil || after.Recommendation == nil ||
		!equality.Semantic.DeepEqual(before.ObservedGeneration, after.ObservedGeneration) {
		return false
	}
	a, b := before.Recommendation, after.Recommendation
	if len(a.ContainerRecommendations) != len(b.ContainerRecommendations) || (a.PodRecommendation == nil) != (b.PodRecommendation == nil) {
		return false
	}
	for i := range a.ContainerRecommendations {
		x, y := &a.ContainerRecommendations[i], &b.ContainerRecommendations[i]
		if x.ContainerName != y.ContainerName || !s.near(x.LowerBound, y.LowerBound) || !s.near(x.UpperBound, y.UpperBound) || !s.near(x.UncappedTarget, y.UncappedTarget) {
			return false
		}
	}
	x, y := a.PodRecommendation, b.PodRecommendation
	return x == nil || s.near(x.LowerBound, y.LowerBound) && s.near(x.UpperBound, y.UpperBound) && s.near(x.UncappedTarget, y.UncappedTarget)
}

// near reports whether two lists have the same resources, and amounts within the tolerance.
func (s *State) near(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a {
		if y, ok := b[name]; !ok || !within(s.tolerance, x, y) {
			return false
		}
	}
	return true
}

// within reports whether an amount is off by at most a fraction of what it was: 2020m is 1% more than 2.
func within(fraction, was, is resource.Quantity) bool {
	before := was.AsDec()
	off := new(inf.Dec).Sub(is.AsDec(), before)
	may := new(inf.Dec).Mul(fraction.AsDec(), before)
	return off.Abs(off).Cmp(may.Abs(may)) <= 0
}
