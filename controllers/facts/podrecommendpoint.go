package facts

import (
	"github.com/celvpa/celvpa/engine"
)

// The records of pod.recommend.
var (
	podRequestsSchema = engine.Bind("PodRequests",
		engine.BoolFrom("cpu", "a pod of the workload requests CPU for the pod as a whole", func(r PodRequests) bool { return r.CPU }),
		engine.BoolFrom("memory", "a pod of the workload requests memory for the pod as a whole", func(r PodRequests) bool { return r.Memory }))

	allowedSchema = engine.NewSchema("Allowed",
		engine.Field{Name: "min", Type: engine.RecordOf(resourcesSchema.Schema)},
		engine.Field{Name: "max", Type: engine.RecordOf(resourcesSchema.Schema)})
)

var podRecommend = &engine.Point{
	Name: PodRecommend, Kind: engine.StagePoint,
	Doc: "From the recommendations of a pod's containers to one for the pod as a whole, and back: where it has bounds, the containers share what is left " +
		"(AEP-7571); run by the recommender for workloads of which a pod has requests at pod level. When any rule fails, all of it is given up: nothing is recommended for the pod, and the " +
		"containers keep what container.recommend gave them.",
	Vars: []engine.Var{
		{Name: "podPolicy", Type: engine.RecordOf(podPolicySchema.Schema), Doc: "podPolicies of the VPA"},
		{Name: "podRequests", Type: engine.RecordOf(podRequestsSchema.Schema)},
		{Name: "podAllowed", Type: engine.RecordOf(allowedSchema), Writable: true, Doc: "the bounds that apply to the pod, which rules choose; unset = none"},
	},
	Scopes: []engine.Scope{
		{
			Name: "bound", Kinds: BoundNames, Whole: "pod", Doc: "target, lowerBound, upperBound and uncappedTarget of the pod",
			Vars: []engine.Var{
				{Name: "bound", Type: engine.String, Doc: "which one it is"},
				{Name: "now", Type: engine.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "its value so far"},
			},
		},
		{
			Name: "container", List: "containers", Doc: "each container that is scaled, in their order",
			Vars: []engine.Var{
				{Name: "container", Type: engine.String, Doc: "its name"},
				{Name: "index", Type: engine.Int, Doc: "its place in containers, from 0"},
				{Name: "policy", Type: engine.RecordOf(policySchema.Schema), Doc: "its effective policy"},
				{Name: "unknown", Type: engine.RecordOf(unknownSchema), Doc: "what container.estimate knows too little of"},
				{Name: "allowed", Type: engine.RecordOf(allowedSchema), Writable: true, Doc: "the bounds that apply to it, which rules choose; unset = none"},
				{Name: "share", Type: engine.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "what its target is to become; unset = it stays"},
				{Name: "target", Type: engine.RecordOf(resourcesSchema.Schema), Writable: true},
				{Name: "lowerBound", Type: engine.RecordOf(resourcesSchema.Schema), Writable: true},
				{Name: "upperBound", Type: engine.RecordOf(resourcesSchema.Schema), Writable: true},
				{Name: "uncappedTarget", Type: engine.RecordOf(resourcesSchema.Schema)},
			},
		},
	},
}
