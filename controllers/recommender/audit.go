package recommender

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// audit records what overlays that are not enforced would recommend otherwise.
func (r *Recommender) audit(v *vpav1.VerticalPodAutoscaler, shadows []engine.Shadow, containers map[string]*model.Aggregate, enforced Result) {
	defer policy.UntilPanic(r.Log.WithValues("namespace", v.Namespace, "vpa", v.Name))
	for _, shadow := range shadows {
		tried := Recommend(shadow.Plan, containers, v.Spec.ResourcePolicy, false)
		r.Shadows.Record(v, shadow, "the recommendation", differs(enforced.Recommendations, tried.Recommendations))
	}
}

// differs lists the targets and bounds in which two recommendations differ, both sorted by container.
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
