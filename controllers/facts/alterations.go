package facts

import corev1 "k8s.io/api/core/v1"

// Alteration is an amount that a change writes, and that the pod does not have.
type Alteration struct {
	Container string // empty = the pod as a whole
	Field     string // requests.cpu, requests.memory, limits.cpu or limits.memory
	From      string // as a quantity; empty = it is not set
	To        string // as a quantity
}

// Alterations are what a change does to a running pod: to its containers in their order, then to the pod as a whole; each by
// resource.
func Alterations(pod *corev1.Pod, change PodChange) (out []Alteration) {
	add := func(container, kind string, now, written corev1.ResourceList) {
		for _, name := range ScaledResources {
			if !altersOne(now, written, name) {
				continue
			}
			to := written[name]
			one := Alteration{Container: container, Field: kind + "." + string(name), To: to.String()}
			if from, ok := now[name]; ok {
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
