package facts

import (
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
)

// PodContainer is a container that is scaled: what container.recommend made of it.
type PodContainer struct {
	Name    string
	Policy  *lang.Record // its effective policy, from Policy
	Unknown *lang.Record // from EstimateFacts; nil = enough is known
	Bounds  Bounds
}

// PodRequests says which requests at least one pod of a workload has at pod level.
type PodRequests struct{ CPU, Memory bool }

// RecommendPod runs pod.recommend: what is recommended for a pod as a whole, given what is recommended for its
// containers, of which those with mode Off are not among them. It changes the bounds of containers where the pod's leave
// them other room. With the gate PodLevelResources off, pod has nothing set and no container changes.
//
// The bounds of the pod and those of its containers belong together. So when a rule fails, all of it is given up: pod has
// nothing set, and the containers keep the bounds they came with. The trace still tells what was tried.
func RecommendPod(plan *engine.Plan, containers []PodContainer, podPolicy *lang.Record, requests PodRequests, trace *engine.Trace) (pod Bounds, failed []*engine.RuleError) {
	f := podRecommend.NewFacts().
		Set("podPolicy", podPolicy).
		Set("podRequests", podRequestsSchema.Of(requests)).
		Set("podAllowed", allowedSchema.New())
	pod = NewBounds()
	pod.addTo(f)
	tried := make([]Bounds, len(containers))
	for i, c := range containers {
		tried[i] = c.Bounds.copied()
		unknown := c.Unknown
		if unknown == nil {
			unknown = unknownSchema.New()
		}
		item := f.AddItem("container", c.Name).Set("policy", c.Policy).Set("unknown", unknown).Set("allowed", allowedSchema.New()).Set("share", resourcesSchema.New())
		for b, name := range BoundNames {
			item.Set(name, tried[i][b])
		}
	}
	if failed = plan.RunStages(PodRecommend, f, trace); len(failed) > 0 {
		return NewBounds(), failed
	}
	for i := range containers {
		containers[i].Bounds.take(tried[i])
	}
	return pod, nil
}

// copied are bounds of their own with the same in them.
func (b Bounds) copied() Bounds {
	for i, r := range b {
		b[i] = r.Copy()
	}
	return b
}

// take gives the records of b what others hold, for all who have a hold of them.
func (b Bounds) take(o Bounds) {
	for i, r := range o {
		*b[i] = *r
	}
}
