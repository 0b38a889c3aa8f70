// Package podpatch turns the resources that the rules want for a pod into JSON Patch operations, in
// upstream's form and order (UPSTREAM.md §4.3, §4.4) but sorted where upstream's order is random.
package podpatch

import (
	"encoding/json"
	"slices"
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
)

// Resources are the operations that write requests and limits; empty without changes.
func Resources(pod *corev1.Pod, change facts.PodChange) []jsonpatch.Operation {
	ops := podLevel(nil, pod, change.Pod)
	for i := range change.Containers {
		ops = container(ops, pod, &change.Containers[i])
	}
	return ops
}

// podLevel writes the pod-level resources of a pod that has them.
func podLevel(ops []jsonpatch.Operation, pod *corev1.Pod, c *facts.ResourceChange) []jsonpatch.Operation {
	if c == nil || !c.Writes() {
		return ops
	}
	const at = "/spec/resources"
	now := pod.Spec.Resources
	ops = list(ops, at+"/requests", len(now.Requests) == 0, c.Requests)
	return list(ops, at+"/limits", len(now.Limits) == 0, c.Limits)
}

func container(ops []jsonpatch.Operation, pod *corev1.Pod, c *facts.ContainerChange) []jsonpatch.Operation {
	if !c.Writes() {
		return ops
	}
	at := "/spec/containers/" + strconv.Itoa(c.Index) + "/resources"
	now := pod.Spec.Containers[c.Index].Resources
	if len(now.Requests) == 0 && len(now.Limits) == 0 && len(now.Claims) == 0 {
		ops = append(ops, Add(at, map[string]any{}))
	}
	ops = list(ops, at+"/requests", len(now.Requests) == 0, c.Requests)
	return list(ops, at+"/limits", len(now.Limits) == 0, c.Limits)
}

func list(ops []jsonpatch.Operation, at string, missing bool, values facts.Quantities) []jsonpatch.Operation {
	if len(values) == 0 {
		return ops
	}
	if missing {
		ops = append(ops, Add(at, map[string]any{}))
	}
	for _, q := range values {
		ops = append(ops, Add(at+"/"+string(q.Resource), q.String()))
	}
	return ops
}

// Admission are all operations for a new pod, in upstream's order: an annotation map if the pod has
// none; the resources of each container, after the annotation of its resources before a startup
// boost; what was set and why; and the containers that were seen. Annotations for which the pod has
// no room are left out; without room for those of a boost the pod stays unchanged, because the
// boost could not be ended.
func Admission(pod *corev1.Pod, vpaName string, change facts.PodChange) []jsonpatch.Operation {
	ops := make([]jsonpatch.Operation, 0, 4+4*len(change.Containers)) // capacity for those of most pods
	if pod.Annotations == nil {
		ops = append(ops, Add("/metadata/annotations", map[string]any{}))
	}
	ops = podLevel(ops, pod, change.Pod)
	for i := range change.Containers {
		c := &change.Containers[i]
		if c.Boost.Raised {
			ops = append(ops, Annotate(facts.AnnotationStartupBoost+c.Name, facts.BeforeBoost(&pod.Spec.Containers[c.Index])))
		}
		ops = container(ops, pod, c)
	}
	if text := Updates(vpaName, change); text != "" {
		ops = append(ops, Annotate(AnnotationUpdates, text))
	}
	names := make([]string, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	ops, left := fitting(pod, append(ops, Annotate(facts.AnnotationObservedContainers, strings.Join(names, ", "))))
	if slices.ContainsFunc(left, func(key string) bool { return strings.HasPrefix(key, facts.AnnotationStartupBoost) }) {
		return nil
	}
	return ops
}

// Resized are the operations on the metadata of a resized pod: what was set and why (AEP-7571),
// that it was resized in place, the ratio that its limits keep if they are rounded, and the removal of
// startup boosts that are over. The annotation of the containers that admission saw stays.
func Resized(pod *corev1.Pod, vpaName string, change facts.PodChange) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	if pod.Annotations == nil {
		// Adding the map would replace annotations that others have added since the pod was read.
		ops = append(ops, jsonpatch.NewOperation("test", "/metadata/annotations", json.RawMessage("null")), Add("/metadata/annotations", map[string]any{}))
	}
	if text := Updates(vpaName, change); text != "" {
		ops = append(ops, Annotate(AnnotationUpdates, text))
	}
	ops = append(ops, Annotate(AnnotationInPlaceUpdated, "true"))
	keep := func(container string, c *facts.ResourceChange) {
		key := facts.LimitRatioAnnotation(container)
		if ratio := c.LimitRatio(); ratio != "" && ratio != pod.Annotations[key] {
			ops = append(ops, Annotate(key, ratio))
		}
	}
	if change.Pod != nil {
		keep("", change.Pod)
	}
	for i := range change.Containers {
		keep(change.Containers[i].Name, &change.Containers[i].ResourceChange)
	}
	for i := range change.Containers {
		c := &change.Containers[i]
		key := facts.AnnotationStartupBoost + c.Name
		if _, there := pod.Annotations[key]; there && c.Boost.Over {
			ops = append(ops, jsonpatch.NewOperation("remove", annotationsPath+Escape(key), nil))
		}
	}
	ops, _ = fitting(pod, ops)
	return ops
}

// Updates is the text of the vpaUpdates annotation, pod-level resources first; empty when nothing
// is written (UPSTREAM.md §4.4), nor withheld.
func Updates(vpaName string, change facts.PodChange) string {
	var out strings.Builder
	out.Grow(128 + 96*len(change.Containers))
	written := false
	add := func(what string, index int, c *facts.ResourceChange) {
		if !c.Writes() && c.Withheld == "" {
			return
		}
		if written {
			out.WriteString("; ")
		} else {
			out.WriteString("Pod resources updated by ")
			out.WriteString(vpaName)
			out.WriteString(": ")
		}
		written = true
		out.WriteString(what)
		if index >= 0 {
			out.WriteString(strconv.Itoa(index))
		}
		between := ": "
		item := func(parts ...string) {
			out.WriteString(between)
			between = ", "
			for _, p := range parts {
				out.WriteString(p)
			}
		}
		for _, note := range c.Notes {
			item(note)
		}
		for i := range c.Requests {
			item(string(c.Requests[i].Resource), " request")
		}
		for i := range c.Limits {
			item(string(c.Limits[i].Resource), " limit")
		}
	}
	if change.Pod != nil {
		add("pod", -1, change.Pod)
	}
	for i := range change.Containers {
		c := &change.Containers[i]
		add("container ", c.Index, &c.ResourceChange)
	}
	return out.String()
}

// Add is an operation that adds or replaces.
func Add(path string, value any) jsonpatch.Operation {
	return jsonpatch.NewOperation("add", path, value)
}
