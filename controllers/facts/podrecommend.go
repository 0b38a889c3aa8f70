package facts

import (
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Records of pod.recommend.
var (
	podRequestsSchema = lang.Bind("PodRequests",
		lang.BoolFrom("cpu", "a pod of the workload requests CPU for the pod as a whole", func(r PodRequests) bool { return r.CPU }),
		lang.BoolFrom("memory", "a pod of the workload requests memory for the pod as a whole", func(r PodRequests) bool { return r.Memory }))

	allowedSchema = lang.NewSchema("Allowed",
		lang.Field{Name: "min", Type: lang.RecordOf(resourcesSchema.Schema)},
		lang.Field{Name: "max", Type: lang.RecordOf(resourcesSchema.Schema)})
)

var podRecommend = &registry.Point{
	Name: PodRecommend, Kind: registry.StagePoint,
	Doc: "From the recommendations of a pod's containers to one for the pod as a whole, and back: where it has bounds, the containers share what is left " +
		"(AEP-7571); run by the recommender for workloads of which a pod has requests at pod level. When any rule fails, all of it is given up: nothing is recommended for the pod, and the " +
		"containers keep what container.recommend gave them.",
	Vars: []registry.Var{
		{Name: "podPolicy", Type: lang.RecordOf(podPolicySchema.Schema), Doc: "podPolicies of the VPA"},
		{Name: "podRequests", Type: lang.RecordOf(podRequestsSchema.Schema)},
		{Name: "podAllowed", Type: lang.RecordOf(allowedSchema), Writable: true, Doc: "the bounds that apply to the pod, chosen by rules; unset = none"},
	},
	Scopes: []registry.Scope{
		{
			Name: "bound", Kinds: BoundNames, Whole: "pod", Doc: "target, lowerBound, upperBound and uncappedTarget of the pod",
			Vars: []registry.Var{
				{Name: "bound", Type: lang.String, Doc: "which one it is"},
				{Name: "now", Type: lang.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "its value so far"},
			},
		},
		{
			Name: "container", List: "containers", Doc: "each container that is scaled, in their order",
			Vars: []registry.Var{
				{Name: "container", Type: lang.String, Doc: "its name"},
				{Name: "index", Type: lang.Int, Doc: "its place in containers, from 0"},
				{Name: "policy", Type: lang.RecordOf(policySchema.Schema), Doc: "its effective policy"},
				{Name: "unknown", Type: lang.RecordOf(unknownSchema), Doc: "what container.estimate has too few samples of"},
				{Name: "allowed", Type: lang.RecordOf(allowedSchema), Writable: true, Doc: "the bounds that apply to it, chosen by rules; unset = none"},
				{Name: "share", Type: lang.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "its new target; unset = it stays"},
				{Name: "target", Type: lang.RecordOf(resourcesSchema.Schema), Writable: true},
				{Name: "lowerBound", Type: lang.RecordOf(resourcesSchema.Schema), Writable: true},
				{Name: "upperBound", Type: lang.RecordOf(resourcesSchema.Schema), Writable: true},
				{Name: "uncappedTarget", Type: lang.RecordOf(resourcesSchema.Schema)},
			},
		},
	},
}

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
