package watcher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// judgeResize: a VPA of the workload resizes pods, or the pod was boosted, and what it has now is within the bounds of a VPA.
func (j *Judge) judgeResize(a Act, p *pod, known time.Time) (wrong []string) {
	if !p.boosted {
		resizes := []vpav1.UpdateMode{vpav1.UpdateModeInPlace, vpav1.UpdateModeInPlaceOrRecreate}
		if text := j.inMode(a, p, known, "resizes", resizes); text != "" {
			wrong = append(wrong, fmt.Sprintf("%s of workload %s: %s", a, p.app, text))
		}
	}
	after := j.after(a)
	if after == nil { // gone meanwhile
		return wrong
	}
	return append(wrong, j.outside(a, after, p.requests, known)...)
}

// after is the pod as the resize left it: its first state with other requests.
func (j *Judge) after(a Act) *pod {
	before := j.pods[a.Pod].at(a.At)
	for _, s := range j.pods[a.Pod].states {
		if s.from.Before(a.At) || s.is == nil || before != nil && maps.Equal(s.is.requests, before.requests) {
			continue
		}
		return s.is
	}
	return nil
}

// Admitted says what is outside the bounds of a pod that admission has just given resources.
func (j *Judge) Admitted(at time.Time, name key) (wrong []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.pods[name].at(at)
	if p == nil || !p.updated {
		return nil
	}
	return j.outside(Act{At: at, Pod: name}, p, nil, j.Known(at))
}

// outside lists requests that changed and are outside the bounds that the VPAs of the workload had at some moment.
func (j *Judge) outside(a Act, p *pod, before map[string]int, known time.Time) (wrong []string) {
	var changes []time.Time
	for k, l := range j.ranges {
		if k.Namespace == a.Pod.Namespace {
			changes = l.changes(changes, known, a.At)
		}
	}
	times := moments(known, a.At, append(changes, j.vpaMoments(a, known)...))
	for _, what := range slices.Sorted(maps.Keys(p.requests)) {
		request := p.requests[what]
		if before != nil && before[what] == request {
			continue
		}
		container, resource, _ := strings.Cut(what, "/")
		var seen []string
		within := false
		for _, at := range times {
			for _, v := range j.ownersAt(a, p.app, at) {
				b := j.boundsOf(v, a.Pod.Namespace, container, at)
				least, most := b.min[resource], b.max[resource]
				// A boost may exceed the bounds for a while, by design (AEP-7862).
				within = within || request >= least && (most == 0 || request <= most) || resource == "cpu" && v.boosts
				seen = append(seen, fmt.Sprintf("%d to %d", least, most))
			}
		}
		if !within && len(seen) > 0 {
			wrong = append(wrong, fmt.Sprintf("pod %s at %s: %s of container %q is %d, outside of %s", a.Pod, a.At.Format("15:04:05.000"), resource, container, request,
				strings.Join(slices.Compact(seen), ", then ")))
		}
	}
	return wrong
}

// boundsOf are those of a VPA for a container, moved into those of the LimitRanges, which win. No maximum is 0.
func (j *Judge) boundsOf(v *vpa, namespace, container string, at time.Time) bounds {
	policy, ok := v.bounds[container]
	if !ok && container != "" {
		policy = v.bounds["*"]
	}
	out := bounds{maps.Clone(policy.min), maps.Clone(policy.max)}
	if out.min == nil {
		out.min = map[string]int{}
	}
	if out.max == nil {
		out.max = map[string]int{}
	}
	if container == "" {
		return out
	}
	for k, l := range j.ranges {
		r := l.at(at)
		if r == nil || k.Namespace != namespace {
			continue
		}
		for _, resource := range []string{"cpu", "memory"} {
			if most := r.max[resource]; most != 0 {
				out.min[resource] = min(out.min[resource], most)
			}
			if most := out.max[resource]; most != 0 {
				out.max[resource] = max(most, r.min[resource])
			}
		}
	}
	return out
}
