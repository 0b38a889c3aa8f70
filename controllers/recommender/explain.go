package recommender

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// explain logs each target that changes together with the rule that set it.
func (s *State) explain(w *Workload, view model.View, before *vpav1.RecommendedPodResources) {
	log := s.log(w)
	if !log.Enabled() {
		return
	}
	result := s.recommend(w, view, true)
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
			step, _ := result.Explained[i].Trace.Last("target", "now."+string(resource))
			log.Info("recommendation changed", "container", c.ContainerName, "resource", string(resource),
				"from", from.String(), "to", to.String(), "rule", step.Path(), "at", step.At)
		}
	}
}
