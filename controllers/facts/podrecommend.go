package facts

import (
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
)

// PodContainer is a scaled container with the result of container.recommend.
type PodContainer struct {
	Name    string
	Policy  *lang.Record // its effective policy, from Policy
	Unknown *lang.Record // from EstimateFacts; nil = all known
	Bounds  Bounds
}

// PodRequests says which pod-level requests at least one pod of a workload has.
type PodRequests struct{ CPU, Memory bool }

// RecommendPod runs pod.recommend: the recommendation for the pod as a whole, given those of its
// containers without mode Off. It adjusts the containers to fit the pod's bounds. Both belong together:
// if a rule fails, pod is empty and the containers keep their bounds.
func RecommendPod(plan *engine.Plan, containers []PodContainer, podPolicy *lang.Record, requests PodRequests, trace *engine.Trace) (pod Bounds, failed []*engine.RuleError) {
	f := podRecommend.NewFacts().
		Set("podPolicy", podPolicy).
		Set("podRequests", podRequestsSchema.Of(requests)).
		Set("podAllowed", allowedSchema.Empty())
	pod = NewBounds()
	pod.addTo(f)
	tried := make([]Bounds, len(containers))
	for i, c := range containers {
		tried[i] = c.Bounds.copied()
		unknown := c.Unknown
		if unknown == nil {
			unknown = unknownSchema.Empty()
		}
		item := f.AddItem("container", c.Name).Set("policy", c.Policy).Set("unknown", unknown).Set("allowed", allowedSchema.Empty()).Set("share", resourcesSchema.Empty())
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

func (b Bounds) copied() Bounds {
	for i, r := range b {
		b[i] = r.Copy()
	}
	return b
}

// take copies o into b's records, which others share.
func (b Bounds) take(o Bounds) {
	for i, r := range o {
		*b[i] = *r
	}
}
