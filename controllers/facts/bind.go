package facts

import (
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// History is how much is known of a container's usage.
type History struct {
	Span          time.Duration // between the first and the last CPU sample
	Samples       int           // CPU samples
	MemorySamples int           // memory samples
	Restored      bool          // a checkpoint is part of it
}

var historySchema = lang.Bind("History",
	lang.IntFrom("span", lang.IntOf(Duration), "time between the first and the last CPU sample", func(h History) time.Duration { return h.Span }),
	lang.IntFrom("samples", lang.Int, "CPU samples seen", func(h History) int { return h.Samples }),
	lang.IntFrom("memorySamples", lang.Int,
		"memory samples seen, including OOMs, without windows whose peak is 0 bytes. A checkpoint does not have the number: if it holds memory, it is that of CPU samples, and at least 1",
		func(h History) int { return h.MemorySamples }),
	lang.BoolFrom("restored", "part of it comes from a checkpoint", func(h History) bool { return h.Restored }))

// histograms tell what a container used.
type histograms struct{ cpu, memory Histogram }

var usageSchema = lang.Bind("Usage",
	lang.OpaqueFrom("cpu", lang.OpaqueOf(histogramType, CPU), "distribution of CPU usage", func(h histograms) ref.Val { return h.cpu }),
	lang.OpaqueFrom("memory", lang.OpaqueOf(histogramType, Memory), "distribution of memory peaks", func(h histograms) ref.Val { return h.memory }))

// Estimate holds what container.estimate reads.
type Estimate struct {
	CPU, Memory Histogram
	History     History
	Containers  int    // scaled containers of the workload
	Before      Bounds // what the status of the VPA says; the zero value says nothing
}

// Estimated tells how far an estimate can be trusted, once container.estimate ran.
type Estimated struct {
	confidence *lang.Record
	Unknown    *lang.Record // resources of which too little is known: Bool("cpu") and Bool("memory")
}

// LowConfidence reports whether too little is known to trust it.
func (e Estimated) LowConfidence() bool { return e.confidence.Bool("low") }

// Bounds are the four resource records that estimate and recommend fill, in the order of BoundNames.
type Bounds [4]*lang.Record

// NewBounds returns bounds with nothing set.
func NewBounds() Bounds {
	return Bounds{resourcesSchema.New(), resourcesSchema.New(), resourcesSchema.New(), resourcesSchema.New()}
}

// BoundsOf binds a recommendation as it stands in a status.
func BoundsOf(c *vpav1.RecommendedContainerResources) Bounds {
	return Bounds{Resources(c.Target), Resources(c.LowerBound), Resources(c.UpperBound), Resources(c.UncappedTarget)}
}

func (b Bounds) addTo(f *registry.Facts) {
	for i, name := range BoundNames {
		f.AddItem("bound", name).Set("now", b[i])
	}
}

// EstimateFacts binds the facts of container.estimate; rules write into bounds, and into what is estimated.
func EstimateFacts(container string, e Estimate, policy *lang.Record, bounds Bounds) (f *registry.Facts, estimated Estimated) {
	estimated = Estimated{confidence: confidenceSchema.New(), Unknown: unknownSchema.New()}
	f = containerEstimate.NewFacts().Set("container", lang.Text(container))
	f.Set("usage", usageSchema.Of(histograms{e.CPU, e.Memory}))
	f.Set("history", historySchema.Of(e.History))
	f.Set("containers", lang.Number(int64(e.Containers)))
	f.Set("policy", policy).Set("confidence", estimated.confidence).Set("unknown", estimated.Unknown)
	for i, name := range BoundNames {
		before := e.Before[i]
		if before == nil {
			before = noResources
		}
		f.AddItem("bound", name).Set("now", bounds[i]).Set("before", before)
	}
	return f, estimated
}

// noResources is read only.
var noResources = resourcesSchema.New()

// RecommendFacts binds the facts of container.recommend; rules write into bounds. integerCPU says that the VPA asks for whole
// cores of this container; see IntegerCPU.
func RecommendFacts(container string, policy *lang.Record, integerCPU bool, bounds Bounds) *registry.Facts {
	f := containerRecommend.NewFacts().Set("container", lang.Text(container)).Set("policy", policy)
	f.Set("integerCPU", types.Bool(integerCPU))
	bounds.addTo(f)
	return f
}

// IntegerCPU reports whether a VPA asks for whole cores of a container, by annotation (UPSTREAM.md §1.6, §2.15).
func IntegerCPU(v *vpav1.VerticalPodAutoscaler, container string) bool {
	return v.Annotations["vpa-post-processor.kubernetes.io/"+container+"_integerCPU"] == "true"
}

// PolicyConstants are the facts that are the same for a container as long as its policy does not change, for the points
// that the recommender runs.
func PolicyConstants(policy *lang.Record) []engine.Constant {
	return []engine.Constant{
		{Point: UsageWindow, Name: "policy", Value: policy},
		{Point: UsageOOM, Name: "policy", Value: policy},
		{Point: ContainerSelect, Name: "policy", Value: policy},
		{Point: ContainerEstimate, Name: "policy", Value: policy},
		{Point: ContainerRecommend, Name: "policy", Value: policy},
	}
}

// Seen is what is known of a container before it is decided whether it is scaled.
type Seen struct {
	History History
	Present bool // a pod of the workload has this container now
	Pods    int  // pods of the workload
	Mixed   bool // pods of the workload need not have the same containers
}

// SelectFacts binds the facts of container.select.
func SelectFacts(container string, policy *lang.Record, seen Seen) *registry.Facts {
	f := containerSelect.NewFacts().Set("container", lang.Text(container)).Set("policy", policy)
	f.Set("history", historySchema.Of(seen.History))
	return f.Set("present", types.Bool(seen.Present)).Set("pods", lang.Number(int64(seen.Pods))).Set("mixed", types.Bool(seen.Mixed))
}

// UpdateFacts binds the facts of vpa.update.
func UpdateFacts(v *vpav1.VerticalPodAutoscaler) *registry.Facts {
	return vpaUpdate.NewFacts().Set("vpa", VPA(v))
}

// AdmitFacts binds the facts of pod.admit.
func AdmitFacts(v *vpav1.VerticalPodAutoscaler) *registry.Facts {
	return podAdmit.NewFacts().Set("vpa", VPA(v))
}
