package facts

import (
	"slices"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
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

// metadata is what names a VPA.
var metadata = lang.Bind("Metadata", vpaMetadata...)

var metadataVar = registry.Var{Name: "vpa", Type: lang.RecordOf(metadata.Schema), Doc: "the VPA"}

var (
	containerSelect = &registry.Point{
		Name: ContainerSelect, Kind: registry.DecisionPoint,
		Doc: "Whether a container is scaled; run by the recommender.",
		Vars: []registry.Var{
			containerVar,
			policyVar,
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
			{Name: "recent", Type: lang.RecordOf(recentSchema.Schema), Doc: "the last samples, for as long as usage.window says; unset where it says nothing"},
			{Name: "containers", Type: lang.Int, Doc: "containers of the workload that are scaled"},
			policyVar,
			metadataVar,
			{Name: "confidence", Type: lang.RecordOf(confidenceSchema), Writable: true, Doc: "how reliable the estimate is"},
			{Name: "unknown", Type: lang.RecordOf(unknownSchema), Writable: true, Doc: "what cannot be estimated yet; condition RecommendationProvided of the VPA reports it if it has no recommendation"},
		},
		Scopes: []registry.Scope{estimateScope},
	}
	containerRecommend = &registry.Point{
		Name: ContainerRecommend, Kind: registry.StagePoint,
		Doc: "From an estimate to a recommendation; run by the recommender.",
		Vars: append([]registry.Var{
			containerVar,
			policyVar,
			metadataVar,
			{Name: "requests", Type: lang.RecordOf(resourcesSchema.Schema), Doc: "the largest requests that pods of the workload have for the container now; unset where none has any"},
			{Name: "limits", Type: lang.RecordOf(resourcesSchema.Schema), Doc: "their largest limits; unset where none has any"},
			{Name: "past", Type: lang.RecordOf(pastSchema.Schema), Doc: "what was recommended for the container before; kept, also in checkpoints, from the time on that a rule in force reads it"},
			{Name: "integerCPU", Type: lang.Bool, Doc: "the VPA asks for whole cores (annotation vpa-post-processor.kubernetes.io/CONTAINER_integerCPU: \"true\")"},
		}, objectVars...),
		Scopes: []registry.Scope{boundScope},
	}
)

// History describes how much usage data a container has.
type History struct {
	Span          time.Duration // between the first and the last CPU sample
	Samples       int           // of CPU
	MemorySamples int
	Restored      bool // includes a checkpoint
}

var historySchema = lang.Bind("History",
	lang.IntFrom("span", lang.IntOf(Duration), "time between the first and the last CPU sample", func(h History) time.Duration { return h.Span }),
	lang.IntFrom("samples", lang.Int, "CPU samples seen", func(h History) int { return h.Samples }),
	lang.IntFrom("memorySamples", lang.Int,
		"memory samples seen, including OOMs, without windows whose peak is 0 bytes. A checkpoint does not have the number: if it holds memory, it is that of CPU samples, and at least 1",
		func(h History) int { return h.MemorySamples }),
	lang.BoolFrom("restored", "part of it comes from a checkpoint", func(h History) bool { return h.Restored }))

// Recent are the largest samples of the last time, in all pods. It ends with the newest sample. The zero value knows nothing.
type Recent struct {
	Peak  Amounts
	Known time.Duration // how much of that time samples are known of
}

var recentSchema = lang.Bind("Recent",
	lang.IntIf("cpu", lang.IntOf(CPU), "the largest sample of CPU", func(r Recent) (int64, bool) { return r.Peak.CPU, r.Peak.CPU > 0 }),
	lang.IntIf("memory", lang.IntOf(Memory), "the largest sample of memory, OOM kills included", func(r Recent) (int64, bool) { return r.Peak.Memory, r.Peak.Memory > 0 }),
	lang.IntFrom("known", lang.IntOf(Duration), "how much of that time is known; 0 after a restart", func(r Recent) time.Duration { return r.Known }))

type histograms struct{ cpu, memory Histogram }

var usageSchema = lang.Bind("Usage",
	lang.OpaqueFrom("cpu", lang.OpaqueOf(histogramType, CPU), "distribution of CPU usage", func(h histograms) ref.Val { return h.cpu }),
	lang.OpaqueFrom("memory", lang.OpaqueOf(histogramType, Memory), "distribution of memory peaks", func(h histograms) ref.Val { return h.memory }))

// Estimate holds what container.estimate reads.
type Estimate struct {
	CPU, Memory Histogram
	History     History
	Recent      Recent
	Containers  int    // scaled containers of the workload
	Before      Bounds // from the VPA's status; zero value = none
}

// Estimated reports the confidence of an estimate after container.estimate ran.
type Estimated struct {
	confidence *lang.Record
	Unknown    *lang.Record // resources with too little data: Bool("cpu") and Bool("memory")
}

// LowConfidence reports whether rules consider the estimate unreliable.
func (e Estimated) LowConfidence() bool { return e.confidence.Bool("low") }

// Bounds are the resource records written by estimate and recommend, in the order of BoundNames.
type Bounds [4]*lang.Record

// NewBounds returns bounds with nothing set.
func NewBounds() Bounds {
	return Bounds{resourcesSchema.New(), resourcesSchema.New(), resourcesSchema.New(), resourcesSchema.New()}
}

// BoundsOf binds a recommendation from a VPA's status.
func BoundsOf(c *vpav1.RecommendedContainerResources) Bounds {
	return Bounds{Resources(c.Target), Resources(c.LowerBound), Resources(c.UpperBound), Resources(c.UncappedTarget)}
}

func (b Bounds) addTo(f *registry.Facts) {
	for i, name := range BoundNames {
		f.AddItem("bound", name).Set("now", b[i])
	}
}

// EstimateFacts binds the facts of container.estimate; rules write to bounds and to estimated.
func EstimateFacts(v *vpav1.VerticalPodAutoscaler, container string, e Estimate, policy *lang.Record, bounds Bounds) (f *registry.Facts, estimated Estimated) {
	estimated = Estimated{confidence: confidenceSchema.New(), Unknown: unknownSchema.New()}
	f = containerEstimate.NewFacts().Set("vpa", metadata.Of(v)).Set("container", lang.Text(container))
	f.Set("usage", usageSchema.Of(histograms{e.CPU, e.Memory}))
	f.Set("history", historySchema.Of(e.History))
	f.Set("recent", recentSchema.Of(e.Recent))
	f.Set("containers", lang.Number(int64(e.Containers)))
	f.Set("policy", policy).Set("confidence", estimated.confidence).Set("unknown", estimated.Unknown)
	for i, name := range BoundNames {
		before := e.Before[i]
		if before == nil {
			before = resourcesSchema.Empty()
		}
		f.AddItem("bound", name).Set("now", bounds[i]).Set("before", before)
	}
	return f, estimated
}

// RecommendFacts binds the facts of container.recommend; rules write to bounds.
func RecommendFacts(plan *engine.Plan, v *vpav1.VerticalPodAutoscaler, container string, policy *lang.Record, in RecommendInput, bounds Bounds) *registry.Facts {
	f := containerRecommend.NewFacts().Set("vpa", metadata.Of(v)).Set("container", lang.Text(container)).Set("policy", policy)
	f.Set("requests", in.Requests.record()).Set("limits", in.Limits.record()).Set("past", pastSchema.Of(in.Past))
	f.Set("integerCPU", types.Bool(integerCPU(v, container)))
	bounds.addTo(f)
	return bindObjects(f, in.Objects, plan, ContainerRecommend, v, nil)
}

// integerCPU reports whether the VPA's annotation asks for whole cores (UPSTREAM.md §2.15).
func integerCPU(v *vpav1.VerticalPodAutoscaler, container string) bool {
	return v.Annotations[integerCPUPrefix+container+integerCPUSuffix] == "true"
}

// The container's name is between them.
const (
	integerCPUPrefix = "vpa-post-processor.kubernetes.io/"
	integerCPUSuffix = "_integerCPU"
)

// Seen describes a container before rules decide whether to scale it.
type Seen struct {
	History History
	Present bool // a running pod of the workload has this container, or, while none runs, one that has finished
	Pods    int  // pods of the workload
	Mixed   bool // pods of the workload may have different containers
}

// SelectFacts binds the facts of container.select.
func SelectFacts(container string, policy *lang.Record, seen Seen) *registry.Facts {
	f := containerSelect.NewFacts().Set("container", lang.Text(container)).Set("policy", policy)
	f.Set("history", historySchema.Of(seen.History))
	return f.Set("present", types.Bool(seen.Present)).Set("pods", lang.Number(int64(seen.Pods))).Set("mixed", types.Bool(seen.Mixed))
}
