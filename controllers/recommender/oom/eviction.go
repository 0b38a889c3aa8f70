package oom

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/crds/quantity"
)

// evicted is the reason of kubelet events about pods evicted to reclaim a resource.
const evicted = "Evicted"

// The annotations of such events are comma lists, one entry for each container that used more than
// it requests (UPSTREAM.md §1.6). Kubelets name the starved resource once for all of them.
const (
	containersAnnotation = "offending_containers"
	usageAnnotation      = "offending_containers_usage"
	starvedAnnotation    = "starved_resource"
)

var annotations = []string{containersAnnotation, usageAnnotation, starvedAnnotation}

// podKind is the kind of the objects that kubelets evict.
const podKind = "Pod"

// Events are untrusted input: anyone who may edit a namespace can write some. No pod has that many
// containers.
const (
	maxEntries    = 1000
	maxAnnotation = 4 << 10 // bytes; 64 names of containers of the greatest length
	maxPodName    = 253     // bytes that API servers take
	maxShown      = 40      // bytes of a text, in errors
)

// FromEviction returns the containers that used up the memory for which their pod was evicted
// (UPSTREAM.md §2.10). Memory is what they used, in bytes, at least 0; the time is the event's
// creation. Other events, evictions for other resources, and events without the annotations give
// none.
//
// An inconsistent event is ignored with an error, and so is one with longer texts than kubelets
// write. Entries whose usage does not parse, and those that name no container, are left out, with an
// error besides the other entries. Errors name the event and the field, and have one line.
func FromEviction(event *corev1.Event) ([]model.OOM, error) {
	if event == nil || event.Reason != evicted || event.InvolvedObject.Kind != podKind {
		return nil, nil
	}
	field := func(annotation string) string { return "metadata.annotations[" + annotation + "]" }
	ignored := func(field, format string, args ...any) error {
		return fmt.Errorf("event %s/%s about an eviction is ignored: %s: %w", short(event.Namespace), short(event.Name), field, fmt.Errorf(format, args...))
	}
	missing := slices.DeleteFunc(slices.Clone(annotations), func(name string) bool { _, there := event.Annotations[name]; return there })
	for _, name := range annotations {
		if len(event.Annotations[name]) > maxAnnotation {
			return nil, ignored(field(name), "longer than %d bytes", maxAnnotation)
		}
	}
	names, usages, starving := event.Annotations[containersAnnotation], event.Annotations[usageAnnotation], event.Annotations[starvedAnnotation]
	switch {
	case len(missing) == len(annotations), names == "" && usages == "" && len(missing) == 0:
		return nil, nil // no container is named
	case len(missing) > 0:
		return nil, ignored(field(missing[0]), "missing, while other annotations of an eviction are there")
	}
	containers, used, starved := strings.Split(names, ","), strings.Split(usages, ","), strings.Split(starving, ",")
	if len(starved) == 1 {
		for len(starved) < len(containers) && len(starved) < maxEntries {
			starved = append(starved, starved[0])
		}
	}
	switch {
	case len(containers) > maxEntries:
		return nil, ignored(field(containersAnnotation), "%d entries, more than %d", len(containers), maxEntries)
	case len(used) != len(containers):
		return nil, ignored(field(usageAnnotation), "%d entries for %d of %s", len(used), len(containers), containersAnnotation)
	case len(starved) != len(containers):
		return nil, ignored(field(starvedAnnotation), "%d entries for %d of %s", len(starved), len(containers), containersAnnotation)
	case event.InvolvedObject.Name == "":
		return nil, ignored("involvedObject.name", "it is empty")
	case len(event.InvolvedObject.Name) > maxPodName:
		return nil, ignored("involvedObject.name", "longer than %d bytes", maxPodName)
	case event.CreationTimestamp.IsZero():
		return nil, ignored("metadata.creationTimestamp", "it is missing")
	}
	var out []model.OOM
	var first error
	faults := 0
	leftOut := func(annotation string, i int, err error) {
		if faults++; first == nil {
			first = fmt.Errorf("event %s/%s about an eviction: %s, entry %d (container %s): %w; the entry is left out",
				short(event.Namespace), short(event.Name), field(annotation), i, short(containers[i]), err)
		}
	}
	for i, container := range containers {
		if starved[i] != string(corev1.ResourceMemory) {
			continue
		}
		if len(validation.IsDNS1123Label(container)) > 0 {
			leftOut(containersAnnotation, i, errors.New("not a valid container name"))
			continue
		}
		memory, err := usedBytes(used[i])
		if err != nil {
			leftOut(usageAnnotation, i, err)
			continue
		}
		out = append(out, model.OOM{
			Pod:       model.PodID{Namespace: event.InvolvedObject.Namespace, Name: event.InvolvedObject.Name},
			Container: container,
			Memory:    memory,
			At:        event.CreationTimestamp.Time,
		})
	}
	if faults > 1 {
		first = fmt.Errorf("%w, and so are %d more", first, faults-1)
	}
	return out, first
}

func usedBytes(text string) (int64, error) {
	if err := quantity.Check(text); err != nil {
		return 0, fmt.Errorf("%q is not an amount of memory: %w", short(text), err)
	}
	q, err := quantity.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a quantity such as 4Gi", short(text))
	}
	if q.Sign() < 0 {
		return 0, fmt.Errorf("%q is negative", short(text))
	}
	return facts.Bytes(q), nil
}

// bytes is the memory in a list of requests, 0 if there is none.
func bytes(list corev1.ResourceList) int64 {
	return facts.Bytes(list[corev1.ResourceMemory])
}

// short shortens a text for an error.
func short(s string) string {
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}
