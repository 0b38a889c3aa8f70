package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// patched is the pod that a patch makes of one.
func patched(pod []byte, patch answer) (*corev1.Pod, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, fmt.Errorf("reading the patch: %w", err)
	}
	text, err := operations.Apply(pod)
	if err != nil {
		return nil, fmt.Errorf("applying the patch: %w", err)
	}
	var out corev1.Pod
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("reading the patched pod: %w", err)
	}
	return &out, nil
}

// compare holds what two programs make of each pod against each other: the resources of containers, and what they tell in
// annotations. Upstream's order of the latter is random.
func (b *bench) compare(one, other []answer) (string, error) {
	changed := 0
	for i := range b.reviews {
		x, err := patched(b.reviews[i].pod, one[i])
		if err != nil {
			return "", fmt.Errorf("a pod of %s: %w", name(i), err)
		}
		y, err := patched(b.reviews[i].pod, other[i])
		if err != nil {
			return "", fmt.Errorf("a pod of %s: %w", name(i), err)
		}
		for c := range x.Spec.Containers {
			if p, q := x.Spec.Containers[c].Resources, y.Spec.Containers[c].Resources; !equality.Semantic.DeepEqual(p, q) {
				return "", fmt.Errorf("container %s of a pod of %s has %v, and %v", x.Spec.Containers[c].Name, name(i), p, q)
			}
		}
		if p, q := sortedNotes(x.Annotations), sortedNotes(y.Annotations); !slices.Equal(p, q) {
			return "", fmt.Errorf("a pod of %s has annotations %q, and %q", name(i), p, q)
		}
		if strings.Contains(x.Annotations["vpaUpdates"], "capped") {
			changed++
		}
	}
	return fmt.Sprintf("both give all %d pods the same resources and annotations; %d are held to what policies and LimitRanges allow", len(b.reviews), changed), nil
}

// sortedNotes are a pod's annotations in small parts.
func sortedNotes(annotations map[string]string) (out []string) {
	for key, text := range annotations {
		for _, chunk := range strings.Split(text, "; ") {
			about, items, _ := strings.Cut(chunk, ": ")
			if next, rest, ok := strings.Cut(items, ": "); ok { // the first chunk has a sentence before
				about, items = about+": "+next, rest
			}
			for _, item := range strings.Split(items, ", ") {
				out = append(out, key+" "+about+": "+item)
			}
		}
	}
	slices.Sort(out)
	return out
}
