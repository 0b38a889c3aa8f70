package facts

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Capped is an amount of which a pod gets more or less than its VPA recommends, because something bounds it, such as a LimitRange.
type Capped struct {
	Container string // empty = the pod as a whole
	Resource  corev1.ResourceName
	Target    string // in the VPA's status, as a quantity
	Gets      string // after pod.fit, as a quantity
	Why       string // notes of the rules about the resource
}

// CappedTargets compares what a change makes of the targets with the status of the VPA. Differences that no rule's note
// explains, as of rounding, do not count.
func CappedTargets(v *vpav1.VerticalPodAutoscaler, change PodChange) (out []Capped) {
	if v == nil || v.Status.Recommendation == nil {
		return nil
	}
	add := func(container string, target corev1.ResourceList, c *ResourceChange) {
		fitted := quantities(c.Target)
		for _, wanted := range QuantitiesOf(target) {
			gets, ok := fitted.Of(wanted.Resource)
			why := c.notesAbout(wanted.Resource)
			if ok && len(why) > 0 && gets.Cmp(wanted.Quantity) != 0 {
				out = append(out, Capped{container, wanted.Resource, wanted.String(), gets.String(), strings.Join(why, ", ")})
			}
		}
	}
	for i := range v.Status.Recommendation.ContainerRecommendations {
		r := &v.Status.Recommendation.ContainerRecommendations[i]
		for j := range change.Containers {
			if c := &change.Containers[j]; c.Name == r.ContainerName {
				add(c.Name, r.Target, &c.ResourceChange)
			}
		}
	}
	if r := v.Status.Recommendation.PodRecommendation; r != nil && change.Pod != nil {
		add("", r.Target, change.Pod)
	}
	return out
}

// notesAbout are the notes that are about a resource, without repetition.
func (c *ResourceChange) notesAbout(name corev1.ResourceName) (out []string) {
	for _, note := range c.Notes {
		if isAbout(note, name) && !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return out
}

// isAbout reports whether a note of a rule is about a resource: it begins with its name.
func isAbout(note string, name corev1.ResourceName) bool {
	return strings.HasPrefix(note, string(name)+" ") || strings.HasPrefix(note, string(name)+":")
}
