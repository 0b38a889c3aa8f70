package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Differences describes where the CPU and memory of two lists differ, e.g. "cpu 250m → 300m".
func Differences(from, to corev1.ResourceList) []string {
	var out []string
	for _, name := range ScaledResources {
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

// ChangeDifferences describes how two changes of the same pod differ; an empty change writes
// nothing.
func ChangeDifferences(from, to PodChange) []string {
	pod := func(c PodChange) ResourceChange {
		if c.Pod == nil {
			return ResourceChange{}
		}
		return *c.Pod
	}
	out := differences("pod", pod(from), pod(to))
	byName := func(list []ContainerChange, name string) ResourceChange {
		if i := slices.IndexFunc(list, func(c ContainerChange) bool { return c.Name == name }); i >= 0 {
			return list[i].ResourceChange
		}
		return ResourceChange{}
	}
	longer := from.Containers
	if len(to.Containers) > len(from.Containers) {
		longer = to.Containers
	}
	for i := range longer {
		name := longer[i].Name
		out = append(out, differences("container "+name, byName(from.Containers, name), byName(to.Containers, name))...)
	}
	return out
}

func differences(what string, a, b ResourceChange) (out []string) {
	for _, d := range Differences(a.Requests.List(), b.Requests.List()) {
		out = append(out, what+" request "+d)
	}
	for _, d := range Differences(a.Limits.List(), b.Limits.List()) {
		out = append(out, what+" limit "+d)
	}
	return out
}
