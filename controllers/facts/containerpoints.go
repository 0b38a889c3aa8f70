package facts

import (
	"slices"

	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Records of the recommender's points for one container.
var (
	confidenceSchema = lang.NewSchema("Confidence",
		lang.Field{Name: "low", Type: lang.Bool, Doc: "the container's history is short; condition LowConfidence of the VPA reports it; unset is false"})

	unknownSchema = lang.NewSchema("Unknown",
		lang.Field{Name: "cpu", Type: lang.Bool, Doc: "there are too few CPU samples for a recommendation; unset = there are enough"},
		lang.Field{Name: "memory", Type: lang.Bool, Doc: "there are too few memory samples for a recommendation; unset = there are enough"})
)

var (
	containerSelect = &registry.Point{
		Name: ContainerSelect, Kind: registry.DecisionPoint,
		Doc: "Whether a container is scaled; run by the recommender.",
		Vars: []registry.Var{
			containerVar,
			{Name: "policy", Type: lang.RecordOf(policySchema.Schema), Doc: "the container's effective policy"},
			{Name: "history", Type: lang.RecordOf(historySchema.Schema)},
			{Name: "present", Type: lang.Bool, Doc: "a running pod of the workload has this container, or, while none runs, one that has finished"},
			{Name: "pods", Type: lang.Int, Doc: "pods of the workload"},
			{Name: "mixed", Type: lang.Bool, Doc: "pods of the workload may have different containers, as the heads and workers of a custom kind do: a container that no pod has now may come back"},
		},
		Outcomes: []registry.Outcome{{Name: DoScale, Doc: "estimate and recommend"}, {Name: DoIgnore, Doc: "skip the container"}},
		FailSafe: DoIgnore,
	}
	boundScope = registry.Scope{
		Name: "bound", Kinds: BoundNames, Doc: "target, lowerBound, upperBound and uncappedTarget",
		Vars: []registry.Var{
			{Name: "bound", Type: lang.String, Doc: "which one it is"},
			{Name: "now", Type: lang.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "its value so far"},
		},
	}
	estimateScope = registry.Scope{
		Name: "bound", Kinds: BoundNames, Doc: boundScope.Doc,
		Vars: append(slices.Clone(boundScope.Vars), registry.Var{Name: "before", Type: lang.RecordOf(resourcesSchema.Schema), Doc: "its value in the status of the VPA; unset if there is none"}),
	}
	containerEstimate = &registry.Point{
		Name: ContainerEstimate, Kind: registry.StagePoint,
		Doc: "From a container's usage to an estimate; run by the recommender.",
		Vars: []registry.Var{
			containerVar,
			{Name: "usage", Type: lang.RecordOf(usageSchema.Schema), Doc: "what the container used"},
			{Name: "history", Type: lang.RecordOf(historySchema.Schema)},
			{Name: "containers", Type: lang.Int, Doc: "containers of the workload that are scaled"},
			{Name: "policy", Type: lang.RecordOf(policySchema.Schema), Doc: "the container's effective policy"},
			{Name: "confidence", Type: lang.RecordOf(confidenceSchema), Writable: true, Doc: "how reliable the estimate is"},
			{Name: "unknown", Type: lang.RecordOf(unknownSchema), Writable: true, Doc: "what cannot be estimated yet; condition RecommendationProvided of the VPA reports it if it has no recommendation"},
		},
		Scopes: []registry.Scope{estimateScope},
	}
	containerRecommend = &registry.Point{
		Name: ContainerRecommend, Kind: registry.StagePoint,
		Doc: "From an estimate to a recommendation; run by the recommender.",
		Vars: []registry.Var{
			containerVar,
			{Name: "policy", Type: lang.RecordOf(policySchema.Schema), Doc: "the container's effective policy"},
			{Name: "integerCPU", Type: lang.Bool, Doc: "the VPA asks for whole cores (annotation vpa-post-processor.kubernetes.io/CONTAINER_integerCPU: \"true\")"},
		},
		Scopes: []registry.Scope{boundScope},
	}
)
