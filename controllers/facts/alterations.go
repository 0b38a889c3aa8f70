package facts

import corev1 "k8s.io/api/core/v1"

// Alteration is one changed amount of a pod.
type Alteration struct {
	Container string // empty = the pod as a whole
	Field     string // requests.cpu, requests.memory, limits.cpu or limits.memory
	From      string // as a quantity; empty = unset
	To        string // as a quantity
}

// Alterations lists what a change does to a running pod: containers in order, then the pod level.
func Alterations(pod *corev1.Pod, change PodChange) (out []Alteration) {
	add := func(container, kind string, now corev1.ResourceList, written Quantities) {
		for _, to := range written {
			if !altersOne(now, written, to.Resource) {
				continue
			}
			one := Alteration{Container: container, Field: kind + "." + string(to.Resource), To: to.String()}
			if from, ok := now[to.Resource]; ok {
				one.From = from.String()
			}
			out = append(out, one)
		}
	}
	for i := range change.Containers {
		c := &change.Containers[i]
		requests, limits := CurrentResources(pod, c.Index)
		add(c.Name, "requests", requests, c.Requests)
		add(c.Name, "limits", limits, c.Limits)
	}
	if c := change.Pod; c != nil {
		requests, limits, _ := podResourcesOf(pod)
		add("", "requests", requests, c.Requests)
		add("", "limits", limits, c.Limits)
	}
	return out
}
