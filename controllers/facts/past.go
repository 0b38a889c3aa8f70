package facts

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// RecommendInput is what container.recommend knows of a container besides its estimate. The zero value knows nothing.
type RecommendInput struct {
	Requests, Limits Amounts // the largest of its pods
	Past             Past
	Objects          Objects // nil = nothing is known
}

// Amounts are CPU in milli-cores and memory in bytes; 0 = none.
type Amounts struct{ CPU, Memory int64 }

// AmountsOf are those of a list.
func AmountsOf(list corev1.ResourceList) Amounts {
	return Amounts{CPU: MilliCPU(list[corev1.ResourceCPU]), Memory: Bytes(list[corev1.ResourceMemory])}
}

// Larger returns the larger of both for each resource.
func (a Amounts) Larger(b Amounts) Amounts {
	return Amounts{CPU: max(a.CPU, b.CPU), Memory: max(a.Memory, b.Memory)}
}

// Smaller returns the smaller of both for each resource, where none is larger than any amount.
func (a Amounts) Smaller(b Amounts) Amounts {
	smaller := func(x, y int64) int64 {
		if x == 0 || y == 0 {
			return max(x, y)
		}
		return min(x, y)
	}
	return Amounts{CPU: smaller(a.CPU, b.CPU), Memory: smaller(a.Memory, b.Memory)}
}

func (a Amounts) record() *lang.Record {
	if a == (Amounts{}) {
		return resourcesSchema.Empty()
	}
	out := resourcesSchema.New()
	if a.CPU > 0 {
		out.SetInt("cpu", a.CPU)
	}
	if a.Memory > 0 {
		out.SetInt("memory", a.Memory)
	}
	return out
}

// PastTime is how far back a Past goes.
const PastTime = 24 * time.Hour

// Past is what was recommended for a container in the last PastTime.
type Past struct {
	Known           time.Duration // how much of PastTime is known; 0 = nothing is
	Lowest, Highest Amounts       // of the targets, those in force at its beginning included
	Unchanged       time.Duration // since the target changed last; 0 = not known
	OOMs            int           // OOM kills that rules judged, at most 10
}

var pastSchema = lang.Bind("Past",
	lang.IntFrom("known", lang.IntOf(Duration), "how much of the last 24 hours is known; 0 at first", func(p Past) time.Duration { return p.Known }),
	lang.RecordFrom("lowest", resourcesSchema.Schema, "the lowest target of the last 24 hours, to the hour; unset if none is known", func(p Past) *lang.Record { return p.Lowest.record() }),
	lang.RecordFrom("highest", resourcesSchema.Schema, "the highest", func(p Past) *lang.Record { return p.Highest.record() }),
	lang.IntIf("unchanged", lang.IntOf(Duration), "since the target changed last; unset if that is not known", func(p Past) (time.Duration, bool) { return p.Unchanged, p.Unchanged > 0 }),
	lang.IntFrom("ooms", lang.Int, "OOM kills of the last 24 hours, at most 10; those before a restart are not known", func(p Past) int { return p.OOMs }))

// ReadsPast reports whether rules read what was recommended before.
func ReadsPast(plan *engine.Plan) bool { return plan.Reads(ContainerRecommend, "past") }

// ReadsObjects reports whether rules read facts of objects besides the VPA and its pods.
func ReadsObjects(plan *engine.Plan) bool {
	return slices.ContainsFunc(objectVars, func(v registry.Var) bool { return plan.Reads(ContainerRecommend, v.Name) })
}

// ReadsRequests reports whether rules read the requests or limits that pods have.
func ReadsRequests(plan *engine.Plan) bool {
	return plan.Reads(ContainerRecommend, "requests") || plan.Reads(ContainerRecommend, "limits")
}
