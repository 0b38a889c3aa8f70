package target

import vpav1 "github.com/celvpa/celvpa/crds/v1"

// ByTarget finds VPAs by their targets, so that a pod is not compared with every VPA of its
// namespace. Like Selects, it ignores the apiVersion.
type ByTarget map[Key][]*vpav1.VerticalPodAutoscaler

// Add adds a VPA. One without a target controls no pods.
func (b ByTarget) Add(v *vpav1.VerticalPodAutoscaler) {
	if v.Spec.TargetRef != nil {
		key := Of(v).unversioned()
		b[key] = append(b[key], v)
	}
}

// Of returns the VPAs whose target is a controller, in the order in which they were added. It is
// what ControllingVPA asks for, and never an error.
func (b ByTarget) Of(top Key) ([]*vpav1.VerticalPodAutoscaler, error) {
	return b[top.unversioned()], nil
}

func (k Key) unversioned() Key {
	k.APIVersion = ""
	return k
}
