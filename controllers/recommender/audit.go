package recommender

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// audit records what audited overlays would recommend instead.
func (s *State) audit(w *Workload, view model.View, enforced Result) {
	if s.shadows == nil {
		return
	}
	defer policy.UntilPanic(s.log(w))
	for _, shadow := range w.Chosen.Shadows {
		tried := Recommend(shadow.Plan, w.VPA, view, false)
		s.shadows.Record(w.VPA, shadow, "the recommendation", append(differs(enforced.Recommendations, tried.Recommendations), podDiffers(enforced.Pod, tried.Pod)...))
	}
}

// differs lists the targets and bounds in which two recommendations differ, both sorted by
// container.
func differs(enforced, tried []vpav1.RecommendedContainerResources) []string {
	byName := map[string]vpav1.RecommendedContainerResources{}
	for _, c := range tried {
		byName[c.ContainerName] = c
	}
	var out []string
	for _, c := range enforced {
		other, ok := byName[c.ContainerName]
		delete(byName, c.ContainerName)
		if !ok {
			out = append(out, "container "+c.ContainerName+": no recommendation")
			continue
		}
		for _, bound := range []struct {
			name     string
			from, to corev1.ResourceList
		}{{"target", c.Target, other.Target}, {"lowerBound", c.LowerBound, other.LowerBound}, {"upperBound", c.UpperBound, other.UpperBound}} {
			for _, d := range facts.Differences(bound.from, bound.to) {
				out = append(out, "container "+c.ContainerName+" "+bound.name+" "+d)
			}
		}
	}
	for _, c := range tried {
		if _, added := byName[c.ContainerName]; added {
			out = append(out, "container "+c.ContainerName+": a recommendation")
		}
	}
	return out
}

// podDiffers lists the bounds in which two recommendations for a pod as a whole differ, either of
// which may be nil.
func podDiffers(enforced, tried *vpav1.RecommendedResources) []string {
	from, to := &vpav1.RecommendedResources{}, &vpav1.RecommendedResources{}
	if enforced != nil {
		from = enforced
	}
	if tried != nil {
		to = tried
	}
	var out []string
	for _, bound := range []struct {
		name     string
		from, to corev1.ResourceList
	}{{"target", from.Target, to.Target}, {"lowerBound", from.LowerBound, to.LowerBound}, {"upperBound", from.UpperBound, to.UpperBound}} {
		for _, d := range facts.Differences(bound.from, bound.to) {
			out = append(out, "pod "+bound.name+" "+d)
		}
	}
	return out
}
