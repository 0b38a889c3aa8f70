package facts

import (
	"slices"

	"github.com/celvpa/celvpa/engine"
)

// The records of the points at which the recommender looks at one container.
var (
	confidenceSchema = engine.NewSchema("Confidence",
		engine.Field{Name: "low", Type: engine.Bool, Doc: "too little is known of the container, which condition LowConfidence of the VPA tells; unset is false"})

	unknownSchema = engine.NewSchema("Unknown",
		engine.Field{Name: "cpu", Type: engine.Bool, Doc: "too little is known of the CPU that the container uses to recommend any; unset = enough is known"},
		engine.Field{Name: "memory", Type: engine.Bool, Doc: "too little is known of the memory that the container uses to recommend any; unset = enough is known"})
)

var (
	containerSelect = &engine.Point{
		Name: ContainerSelect, Kind: engine.DecisionPoint,
		Doc: "Whether a container is scaled; run by the recommender.",
		Vars: []engine.Var{
			containerVar,
			{Name: "policy", Type: engine.RecordOf(policySchema.Schema), Doc: "the container's effective policy"},
			{Name: "history", Type: engine.RecordOf(historySchema.Schema)},
			{Name: "present", Type: engine.Bool, Doc: "a pod of the workload has this container now"},
			{Name: "pods", Type: engine.Int, Doc: "pods of the workload"},
			{Name: "mixed", Type: engine.Bool, Doc: "pods of the workload need not have the same containers, as the heads and workers of a custom kind: one that no pod has now may come back"},
		},
		Outcomes: []engine.Outcome{{Name: DoScale, Doc: "estimate and recommend"}, {Name: DoIgnore, Doc: "leave the container out"}},
		FailSafe: DoIgnore,
	}
	boundScope = engine.Scope{
		Name: "bound", Kinds: BoundNames, Doc: "target, lowerBound, upperBound and uncappedTarget",
		Vars: []engine.Var{
			{Name: "bound", Type: engine.String, Doc: "which one it is"},
			{Name: "now", Type: engine.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "its value so far"},
		},
	}
	estimateScope = engine.Scope{
		Name: "bound", Kinds: BoundNames, Doc: boundScope.Doc,
		Vars: append(slices.Clone(boundScope.Vars), engine.Var{Name: "before", Type: engine.RecordOf(resourcesSchema.Schema), Doc: "what the status of the VPA says of it; nothing set where it says nothing"}),
	}
	containerEstimate = &engine.Point{
		Name: ContainerEstimate, Kind: engine.StagePoint,
		Doc: "From a container's usage to an estimate; run by the recommender.",
		Vars: []engine.Var{
			containerVar,
			{Name: "usage", Type: engine.RecordOf(usageSchema.Schema), Doc: "what the container used"},
			{Name: "history", Type: engine.RecordOf(historySchema.Schema)},
			{Name: "containers", Type: engine.Int, Doc: "containers of the workload that are scaled"},
			{Name: "policy", Type: engine.RecordOf(policySchema.Schema), Doc: "the container's effective policy"},
			{Name: "confidence", Type: engine.RecordOf(confidenceSchema), Writable: true, Doc: "how much the estimate can be trusted"},
			{Name: "unknown", Type: engine.RecordOf(unknownSchema), Writable: true, Doc: "what cannot be estimated yet, which condition RecommendationProvided of the VPA tells where nothing is recommended for it"},
		},
		Scopes: []engine.Scope{estimateScope},
	}
	containerRecommend = &engine.Point{
		Name: ContainerRecommend, Kind: engine.StagePoint,
		Doc: "From an estimate to a recommendation; run by the recommender.",
		Vars: []engine.Var{
			containerVar,
			{Name: "policy", Type: engine.RecordOf(policySchema.Schema), Doc: "the container's effective policy"},
			{Name: "integerCPU", Type: engine.Bool, Doc: "the VPA asks for whole cores (annotation vpa-post-processor.kubernetes.io/CONTAINER_integerCPU: \"true\")"},
		},
		Scopes: []engine.Scope{boundScope},
	}
)
