package matcher

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/target"
)

// Targets finds VPAs by their targets, so that a pod is not compared with every VPA of its namespace.
// As Selects of a target.Top, it ignores the apiVersion.
type Targets map[target.Key][]*VPA

// Add adds a VPA. One without a target controls no pods.
func (t Targets) Add(v *VPA) {
	if v.Object.Spec.TargetRef != nil {
		key := target.Of(v.Object).Unversioned()
		t[key] = append(t[key], v)
	}
}

// Of returns the VPAs whose target is a controller, in the order in which they were added.
func (t Targets) Of(controller target.Key) []*VPA { return t[controller.Unversioned()] }

// Competing are those of the VPAs of one target that may have its pods. A startup boost is ended by a
// VPA that changes new pods, whatever it does with running ones; if none does any more, by any that can
// be read, because boosts must end.
func Competing(p Purpose, vpas []*VPA) (out []*VPA) {
	counts := func(v *VPA) bool { return v.Competes(p) }
	if p == Boost {
		counts = func(v *VPA) bool { return v.Takes(Admission) }
	}
	for _, v := range vpas {
		if counts(v) {
			out = append(out, v)
		}
	}
	if p != Boost || len(out) > 0 {
		return out
	}
	for _, v := range vpas {
		if v.Object.Unreadable() == "" {
			out = append(out, v)
		}
	}
	return out
}

// First is the first of some VPAs of one namespace by their rules; nil of none.
func First(vpas []*VPA) (first *VPA) {
	for _, v := range vpas {
		if first == nil || Compare(v, first) < 0 {
			first = v
		}
	}
	return first
}

// Match returns the VPA that has a pod, nil = none, of those with the topmost controller of the pod as
// their target, which may be among others. For Update it may be one that does not take it: then none
// does. unknown is told which VPAs are left out because their selectors are not known; it may be nil.
func Match(ctx context.Context, p Purpose, top *target.Top, vpas []*VPA, pod *corev1.Pod, unknown func(*VPA, *target.Unsupported)) *VPA {
	if top == nil {
		return nil
	}
	var selecting []*VPA
	for _, v := range Competing(p, vpas) {
		selects, why := top.Selects(ctx, v.Object, pod)
		if why != nil && unknown != nil {
			unknown(v, why)
		}
		if why == nil && selects {
			selecting = append(selecting, v)
		}
	}
	return First(selecting)
}
