package recommender

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/celvpa/celvpa/engine"
)

// explain logs each target that an update changed, together with the rule that set it.
func (s *State) explain(u *Update) {
	w := u.Workload
	log, before := s.log(w), w.VPA.Status.Recommendation
	if !log.Enabled() || w.Chosen.Plan == nil || equality.Semantic.DeepEqual(targets(before), targets(u.Status.Recommendation)) {
		return
	}
	result := s.recommend(w, w.model.View(s.cluster.Settings()), true)
	old := map[string]corev1.ResourceList{}
	if before != nil {
		for _, c := range before.ContainerRecommendations {
			old[c.ContainerName] = c.Target
		}
	}
	for i, c := range result.Recommendations {
		for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			to, ok := c.Target[resource]
			from, had := old[c.ContainerName][resource]
			if !ok || (had && from.Cmp(to) == 0) {
				continue
			}
			before := "none"
			if had {
				before = from.String()
			}
			step, _ := result.last(i, resource)
			log.Info("recommendation changed", "container", c.ContainerName, "resource", string(resource),
				"from", before, "to", to.String(), "rule", step.Path(), "at", step.At)
		}
	}
}

// last is the step that set a container's target: one of the pod's bounds, else one of its own.
func (r *Result) last(i int, resource corev1.ResourceName) (engine.Step, bool) {
	if pod := r.Explained[len(r.Explained)-1]; pod.Container == "" {
		if step, ok := pod.Trace.Last(r.Recommendations[i].ContainerName, "target."+string(resource)); ok {
			return step, true
		}
	}
	return r.Explained[i].Trace.Last("target", "now."+string(resource))
}
