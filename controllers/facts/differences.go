package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Differences tells in words where the CPU and memory of two lists differ, e.g. "cpu 250m → 300m".
func Differences(from, to corev1.ResourceList) []string {
	var out []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		a, hasA := from[name]
		b, hasB := to[name]
		switch {
		case hasA && hasB && a.Cmp(b) != 0:
			out = append(out, string(name)+" "+a.String()+" → "+b.String())
		case hasA && !hasB:
			out = append(out, string(name)+" "+a.String()+" → unset")
		case hasB && !hasA:
			out = append(out, string(name)+" unset → "+b.String())
		}
	}
	return out
}

// ChangeDifferences tells in words where two answers of ResourcesForPod for the same pod differ. nil stands for a pod
// that is left alone.
func ChangeDifferences(from, to []ContainerChange) []string {
	byName := func(list []ContainerChange, name string) ContainerChange {
		if i := slices.IndexFunc(list, func(c ContainerChange) bool { return c.Name == name }); i >= 0 {
			return list[i]
		}
		return ContainerChange{}
	}
	longer := from
	if len(to) > len(from) {
		longer = to
	}
	var out []string
	for i := range longer {
		name := longer[i].Name
		a, b := byName(from, name), byName(to, name)
		for _, d := range Differences(a.Requests, b.Requests) {
			out = append(out, "container "+name+" request "+d)
		}
		for _, d := range Differences(a.Limits, b.Limits) {
			out = append(out, "container "+name+" limit "+d)
		}
	}
	return out
}
