// Package podpatch writes what the rules want for a pod as JSON Patch operations, in upstream's form and order
// (UPSTREAM.md §4.3, §4.4) but sorted where upstream's order is random.
package podpatch

import (
	"fmt"
	"sort"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
)

// The annotations on pods that operators read (UPSTREAM.md §1.6).
const (
	AnnotationUpdates        = "vpaUpdates"
	AnnotationInPlaceUpdated = "vpaInPlaceUpdated"
)

// Resources are the operations that write requests and limits; a container with nothing to write has none.
func Resources(pod *corev1.Pod, changes []facts.ContainerChange) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	for _, c := range changes {
		if len(c.Requests) == 0 && len(c.Limits) == 0 {
			continue
		}
		at := fmt.Sprintf("/spec/containers/%d/resources", c.Index)
		now := pod.Spec.Containers[c.Index].Resources
		if now.Requests == nil && now.Limits == nil && now.Claims == nil {
			ops = append(ops, Add(at, map[string]any{}))
		}
		ops = append(ops, list(at+"/requests", now.Requests == nil, c.Requests)...)
		ops = append(ops, list(at+"/limits", now.Limits == nil, c.Limits)...)
	}
	return ops
}

func list(at string, missing bool, values corev1.ResourceList) []jsonpatch.Operation {
	if len(values) == 0 {
		return nil
	}
	var ops []jsonpatch.Operation
	if missing {
		ops = append(ops, Add(at, map[string]any{}))
	}
	for _, name := range sortedNames(values) {
		q := values[name]
		ops = append(ops, Add(at+"/"+Escape(string(name)), q.String()))
	}
	return ops
}

// Admission are all operations for a new pod, in upstream's order: an annotation map if the pod has none, the
// resources, what was set and why, and which containers the pod had when it was seen.
func Admission(pod *corev1.Pod, vpaName string, changes []facts.ContainerChange) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	if pod.Annotations == nil {
		ops = append(ops, Add("/metadata/annotations", map[string]any{}))
	}
	ops = append(ops, Resources(pod, changes)...)
	if text := Updates(vpaName, changes); text != "" {
		ops = append(ops, Annotate(AnnotationUpdates, text))
	}
	names := make([]string, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	return append(ops, Annotate(facts.AnnotationObservedContainers, strings.Join(names, ", ")))
}

// Updates is the text of the vpaUpdates annotation; empty when nothing is written (UPSTREAM.md §4.4).
func Updates(vpaName string, changes []facts.ContainerChange) string {
	var chunks []string
	for _, c := range changes {
		if len(c.Requests) == 0 && len(c.Limits) == 0 {
			continue
		}
		items := append([]string(nil), c.Notes...)
		for _, name := range sortedNames(c.Requests) {
			items = append(items, string(name)+" request")
		}
		for _, name := range sortedNames(c.Limits) {
			items = append(items, string(name)+" limit")
		}
		chunks = append(chunks, fmt.Sprintf("container %d: %s", c.Index, strings.Join(items, ", ")))
	}
	if len(chunks) == 0 {
		return ""
	}
	return fmt.Sprintf("Pod resources updated by %s: %s", vpaName, strings.Join(chunks, "; "))
}

// Annotate sets one annotation on a pod that has an annotation map.
func Annotate(key, value string) jsonpatch.Operation {
	return Add("/metadata/annotations/"+Escape(key), value)
}

// Add is an operation that adds or replaces.
func Add(path string, value any) jsonpatch.Operation {
	return jsonpatch.NewOperation("add", path, value)
}

// Escape writes a path segment as RFC 6901 asks.
func Escape(segment string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(segment)
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool { return names[i] < names[j] })
	return names
}
