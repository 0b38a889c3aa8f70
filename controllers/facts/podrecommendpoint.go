package facts

import (
	"slices"

	"github.com/celvpa/celvpa/engine"
)

// The records of pod.recommend.
var (
	podPolicySchema = engine.NewSchema("PodPolicy",
		engine.Field{Name: "minAllowed", Type: engine.RecordOf(resourcesSchema)},
		engine.Field{Name: "maxAllowed", Type: engine.RecordOf(resourcesSchema)},
		engine.Field{Name: "controlledResources", Type: engine.ListOf(engine.String)},
		engine.Field{Name: "controlledValues", Type: engine.String, Doc: "RequestsAndLimits or RequestsOnly"})

	podRequestsSchema = engine.NewSchema("PodRequests",
		engine.Field{Name: "cpu", Type: engine.Bool, Doc: "a pod of the workload requests CPU for the pod as a whole"},
		engine.Field{Name: "memory", Type: engine.Bool, Doc: "a pod of the workload requests memory for the pod as a whole"})

	allowedSchema = engine.NewSchema("Allowed",
		engine.Field{Name: "min", Type: engine.RecordOf(resourcesSchema)},
		engine.Field{Name: "max", Type: engine.RecordOf(resourcesSchema)})

	boundsSchema = engine.NewSchema("Bounds", recommendedFields()...)

	podContainerSchema = engine.NewSchema("RecommendedContainer", append([]engine.Field{
		{Name: "name", Type: engine.String},
		{Name: "policy", Type: engine.RecordOf(policySchema), Doc: "its effective policy"},
		{Name: "unknown", Type: engine.RecordOf(unknownSchema), Doc: "see each: container"},
		{Name: "allowed", Type: engine.RecordOf(allowedSchema), Doc: "see each: container"},
		{Name: "share", Type: engine.RecordOf(resourcesSchema), Doc: "see each: container"},
	}, recommendedFields()...)...)
)

// recommendedFields are a field for each of BoundNames.
func recommendedFields() []engine.Field {
	var out []engine.Field
	for _, name := range BoundNames {
		out = append(out, engine.Field{Name: name, Type: engine.RecordOf(resourcesSchema)})
	}
	return out
}

var podRecommend = &engine.Point{
	Name: PodRecommend, Kind: engine.StagePoint,
	Doc: "From the recommendations of a pod's containers to one for the pod as a whole, and back: where it has bounds, the containers share what is left " +
		"(AEP-7571); run by the recommender for workloads of which a pod has requests at pod level. When any rule fails, all of it is given up: nothing is recommended for the pod, and the " +
		"containers keep what container.recommend gave them.",
	Vars: []engine.Var{
		{Name: "podPolicy", Type: engine.RecordOf(podPolicySchema), Doc: "podPolicies of the VPA"},
		{Name: "podRequests", Type: engine.RecordOf(podRequestsSchema)},
		{Name: "podAllowed", Type: engine.RecordOf(allowedSchema), Writable: true, Doc: "the bounds that apply to the pod, which rules choose; unset = none"},
		{Name: "pod", Type: engine.RecordOf(boundsSchema), Live: true, Doc: "what is recommended for the pod"},
		{Name: "containers", Type: engine.ListOf(engine.RecordOf(podContainerSchema)), Live: true, Doc: "containers that are scaled, in their order"},
	},
	Scopes: []engine.Scope{
		{
			Kind: "bound", Kinds: BoundNames,
			Name: "bound", Doc: "target, lowerBound, upperBound and uncappedTarget of the pod",
			Vars: []engine.Var{
				{Name: "bound", Type: engine.String, Doc: "which one it is"},
				{Name: "now", Type: engine.RecordOf(resourcesSchema), Writable: true, Doc: "its value so far"},
				{Name: "parts", Type: engine.ListOf(engine.RecordOf(resourcesSchema)), Live: true, Doc: "the same bound of each container, in their order"},
			},
		},
		{
			Name: "container", Doc: "each container that is scaled, in their order",
			Vars: []engine.Var{
				{Name: "container", Type: engine.String, Doc: "its name"},
				{Name: "index", Type: engine.Int, Live: true, Doc: "its place in containers, from 0"},
				{Name: "policy", Type: engine.RecordOf(policySchema), Doc: "its effective policy"},
				{Name: "unknown", Type: engine.RecordOf(unknownSchema), Doc: "what container.estimate knows too little of"},
				{Name: "allowed", Type: engine.RecordOf(allowedSchema), Writable: true, Doc: "the bounds that apply to it, which rules choose; unset = none"},
				{Name: "share", Type: engine.RecordOf(resourcesSchema), Writable: true, Doc: "what its target is to become; unset = it stays"},
				{Name: "target", Type: engine.RecordOf(resourcesSchema), Writable: true},
				{Name: "lowerBound", Type: engine.RecordOf(resourcesSchema), Writable: true},
				{Name: "upperBound", Type: engine.RecordOf(resourcesSchema), Writable: true},
				{Name: "uncappedTarget", Type: engine.RecordOf(resourcesSchema)},
			},
		},
	},
	Link: linkPod,
}

// linkPod shows rules of one scope of pod.recommend what those of the other write.
func linkPod(f *engine.Facts) {
	var containers []*engine.Record
	for i, item := range f.Items("container") {
		r := podContainerSchema.New().SetString("name", item.Label)
		for _, field := range r.Schema().Fields()[1:] {
			if held := item.Record(field.Name); held != nil {
				r.SetRecord(field.Name, held)
			}
		}
		item.Set("index", engine.Number(int64(i)))
		containers = append(containers, r)
	}
	f.Set("containers", engine.Records(containers))

	pod := boundsSchema.New()
	for _, item := range f.Items("bound") {
		var parts []*engine.Record
		if slices.Contains(BoundNames, item.Label) {
			pod.SetRecord(item.Label, item.Record("now"))
			for _, c := range f.Items("container") {
				if part := c.Record(item.Label); part != nil {
					parts = append(parts, part)
				}
			}
		}
		item.Set("parts", engine.Records(parts))
	}
	f.Set("pod", pod)
}
