// Package podpatch writes what the rules want for a pod as JSON Patch operations, in upstream's form and order
// (UPSTREAM.md §4.3, §4.4) but sorted where upstream's order is random.
package podpatch

import (
	"encoding/json"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
)

// The annotations on pods that operators read (UPSTREAM.md §1.6).
const (
	AnnotationUpdates        = "vpaUpdates"
	AnnotationInPlaceUpdated = "vpaInPlaceUpdated"
	// AnnotationStartupBoost goes before the name of a container and tells what it had before its CPU was boosted.
	AnnotationStartupBoost = "vpaCpuStartupBoost/"
)

// Resources are the operations that write requests and limits; what has nothing to be written has none.
func Resources(pod *corev1.Pod, change facts.PodChange) []jsonpatch.Operation {
	ops := podLevel(pod, change.Pod)
	for i := range change.Containers {
		ops = append(ops, container(pod, &change.Containers[i])...)
	}
	return ops
}

// podLevel writes the resources of a pod as a whole, which it has already.
func podLevel(pod *corev1.Pod, c *facts.ResourceChange) []jsonpatch.Operation {
	if c == nil || !c.Writes() {
		return nil
	}
	const at = "/spec/resources"
	now := pod.Spec.Resources
	return append(list(at+"/requests", len(now.Requests) == 0, c.Requests), list(at+"/limits", len(now.Limits) == 0, c.Limits)...)
}

func container(pod *corev1.Pod, c *facts.ContainerChange) []jsonpatch.Operation {
	if !c.Writes() {
		return nil
	}
	var ops []jsonpatch.Operation
	at := "/spec/containers/" + strconv.Itoa(c.Index) + "/resources"
	now := pod.Spec.Containers[c.Index].Resources
	if len(now.Requests) == 0 && len(now.Limits) == 0 && len(now.Claims) == 0 {
		ops = append(ops, Add(at, map[string]any{}))
	}
	ops = append(ops, list(at+"/requests", len(now.Requests) == 0, c.Requests)...)
	return append(ops, list(at+"/limits", len(now.Limits) == 0, c.Limits)...)
}

func list(at string, missing bool, values corev1.ResourceList) []jsonpatch.Operation {
	if len(values) == 0 {
		return nil
	}
	var ops []jsonpatch.Operation
	if missing {
		ops = append(ops, Add(at, map[string]any{}))
	}
	for _, name := range facts.ScaledResources {
		if q, ok := values[name]; ok {
			ops = append(ops, Add(at+"/"+string(name), q.String()))
		}
	}
	return ops
}

// Admission are all operations for a new pod, in upstream's order: an annotation map if the pod has none, the resources, each
// container's after the note of what it had before its CPU was boosted, what was set and why, and which containers the pod had
// when it was seen.
func Admission(pod *corev1.Pod, vpaName string, change facts.PodChange) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	if pod.Annotations == nil {
		ops = append(ops, Add("/metadata/annotations", map[string]any{}))
	}
	ops = append(ops, podLevel(pod, change.Pod)...)
	for i := range change.Containers {
		c := &change.Containers[i]
		if c.Boosted {
			ops = append(ops, Annotate(AnnotationStartupBoost+c.Name, before(&pod.Spec.Containers[c.Index])))
		}
		ops = append(ops, container(pod, c)...)
	}
	if text := Updates(vpaName, change); text != "" {
		ops = append(ops, Annotate(AnnotationUpdates, text))
	}
	names := make([]string, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	return append(ops, Annotate(facts.AnnotationObservedContainers, strings.Join(names, ", ")))
}

// before is what a container asks for of CPU and memory, as JSON (UPSTREAM.md §1.6).
func before(c *corev1.Container) string {
	text := func(list corev1.ResourceList) map[string]string {
		out := map[string]string{}
		for _, name := range facts.ScaledResources {
			if q, ok := list[name]; ok {
				out[string(name)] = q.String()
			}
		}
		return out
	}
	data, _ := json.Marshal(struct { // maps of text can always be written
		Requests map[string]string `json:"requests"`
		Limits   map[string]string `json:"limits"`
	}{text(c.Resources.Requests), text(c.Resources.Limits)})
	return string(data)
}

// Updates is the text of the vpaUpdates annotation; empty when nothing is written (UPSTREAM.md §4.4). What is about the pod as
// a whole stands first.
func Updates(vpaName string, change facts.PodChange) string {
	var chunks []string
	tell := func(what string, c *facts.ResourceChange) {
		if !c.Writes() {
			return
		}
		items := append([]string(nil), c.Notes...)
		items = append(items, written(c.Requests, " request")...)
		items = append(items, written(c.Limits, " limit")...)
		chunks = append(chunks, what+": "+strings.Join(items, ", "))
	}
	if change.Pod != nil {
		tell("pod", change.Pod)
	}
	for i := range change.Containers {
		c := &change.Containers[i]
		tell("container "+strconv.Itoa(c.Index), &c.ResourceChange)
	}
	if len(chunks) == 0 {
		return ""
	}
	return "Pod resources updated by " + vpaName + ": " + strings.Join(chunks, "; ")
}

func written(list corev1.ResourceList, what string) (out []string) {
	for _, name := range facts.ScaledResources {
		if _, ok := list[name]; ok {
			out = append(out, string(name)+what)
		}
	}
	return out
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
func Escape(segment string) string { return escaped.Replace(segment) }

var escaped = strings.NewReplacer("~", "~0", "/", "~1")
