package facts

import (
	"time"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// OOM is an OOM kill, in bytes.
type OOM struct {
	Reported int64 // the usage or request in the report; 0 = unknown
	Share    int64 // what a container without a request has of the pod-level request to itself; 0 = none
	Peak     int64 // the window's largest sample; 0 = none
}

var (
	windowSchema = lang.NewSchema("Window",
		lang.Field{Name: "interval", Type: lang.IntOf(Duration), Doc: "how long a window lasts"},
		lang.Field{Name: "count", Type: lang.Int, Doc: "windows after which usage without new samples is forgotten"},
		lang.Field{Name: "zeroIsPeak", Type: lang.Bool, Doc: "a first sample of 0 bytes counts as the peak of its window, which discards the window's later samples"},
		lang.Field{Name: "recent", Type: lang.IntOf(Duration), Doc: "how long the peak of the last samples is kept, which is the fact recent of container.estimate; unset = not at all"},
		lang.Field{Name: "clockSkew", Type: lang.IntOf(Duration), Doc: "how far ahead of the recommender's clock a sample may be; later samples of any resource are rejected"})

	halfLifeSchema = lang.NewSchema("HalfLives",
		lang.Field{Name: "cpu", Type: lang.IntOf(Duration), Doc: "of samples of CPU"},
		lang.Field{Name: "memory", Type: lang.IntOf(Duration), Doc: "of peaks of memory"})

	oomSchema = lang.Bind("OOM",
		lang.IntFrom("memory", lang.IntOf(Memory), "the reported bytes used, or requested; 0 if neither is known", func(k OOM) int64 { return k.Reported }),
		lang.IntFrom("peak", lang.IntOf(Memory), "the largest sample of the window; 0 without one", func(k OOM) int64 { return k.Peak }),
		lang.IntIf("share", lang.IntOf(Memory), "what other containers leave of the pod's memory request, for its only container without one; otherwise unset",
			func(k OOM) (int64, bool) { return k.Share, k.Share > 0 }))

	sampleSchema = lang.NewSchema("MemorySample",
		lang.Field{Name: "memory", Type: lang.IntOf(Memory), Doc: "bytes; unset = the container's memory is not raised"})
)

var (
	usageWindow = &registry.Point{
		Name: UsageWindow, Kind: registry.StagePoint,
		Doc: "Which samples of a container are accepted, how long a memory window is, and how long usage is remembered; run by the recommender.",
		Vars: []registry.Var{
			containerVar,
			policyVar,
			{Name: "window", Type: lang.RecordOf(windowSchema), Writable: true, Doc: "24h, 8, true and 1h if rules set nothing, or an interval or count of 0 or less, or a negative clock skew"},
			{Name: "halfLife", Type: lang.RecordOf(halfLifeSchema), Writable: true, Doc: "after which a sample has lost half its weight; 24h if rules set nothing, or 0 or less"},
			{Name: "largest", Type: lang.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "the largest amount that a sample may have; a resource that is unset has no limit"},
		},
	}
	usageOOM = &registry.Point{
		Name: UsageOOM, Kind: registry.StagePoint,
		Doc: "The memory sample to record after an OOM kill; run by the recommender.",
		Vars: []registry.Var{
			containerVar,
			policyVar,
			{Name: "oom", Type: lang.RecordOf(oomSchema.Schema), Doc: "what is known of it"},
			{Name: "sample", Type: lang.RecordOf(sampleSchema), Writable: true, Doc: "what is remembered"},
		},
	}
)

// Window controls which samples count, and for how long.
type Window struct {
	Interval   time.Duration // its largest memory sample counts; greater than 0
	Count      int64         // intervals after which usage without new samples is forgotten; at least 1
	ZeroIsPeak bool          // a first sample of 0 bytes is the peak of its window; later ones are ignored
	ClockSkew  time.Duration // how far in the future samples may be, for any resource; at least 0
	MaxCPU     int64         // of a sample, in milli-cores; 0 = no limit
	MaxMemory  int64         // of a sample, in bytes; 0 = no limit

	Recent time.Duration // for which the peak of the last samples is kept; 0 = not at all

	CPUHalfLife, MemoryHalfLife time.Duration // after which a sample has lost half its weight; greater than 0
}

// Length is how long history without new samples is kept: all windows together.
func (w Window) Length() time.Duration {
	if w.Count > int64(1<<62)/int64(w.Interval) {
		return 1 << 62
	}
	return time.Duration(w.Count) * w.Interval
}

// DefaultWindow is what counts where rules set nothing that can be used, and until they are known.
// It is upstream's (UPSTREAM.md §2.9, §8), except that upstream ignores clock skew.
func DefaultWindow() Window {
	return Window{Interval: 24 * time.Hour, Count: 8, ZeroIsPeak: true, ClockSkew: time.Hour, CPUHalfLife: 24 * time.Hour, MemoryHalfLife: 24 * time.Hour}
}

// WindowFor runs usage.window for a container and its bound policy. Values that are unset or out of
// range come from DefaultWindow. It also returns the rules that failed.
func WindowFor(plan *engine.Plan, container string, policy *lang.Record, trace *engine.Trace) (Window, []*engine.RuleError) {
	record, largest, halfLife := windowSchema.New(), resourcesSchema.New(), halfLifeSchema.New()
	f := usageWindow.NewFacts().Set("container", lang.Text(container)).Set("policy", policy).Set("window", record).Set("largest", largest).Set("halfLife", halfLife)
	failed := plan.RunStages(UsageWindow, f, trace)
	w := DefaultWindow()
	if n, ok := record.Int("interval"); ok && n > 0 {
		w.Interval = time.Duration(n)
	}
	if n, ok := record.Int("count"); ok && n > 0 {
		w.Count = n
	}
	if record.Field("zeroIsPeak") != nil {
		w.ZeroIsPeak = record.Bool("zeroIsPeak")
	}
	if n, ok := record.Int("clockSkew"); ok && n >= 0 {
		w.ClockSkew = time.Duration(n)
	}
	if n, ok := halfLife.Int("cpu"); ok && n > 0 {
		w.CPUHalfLife = time.Duration(n)
	}
	if n, ok := halfLife.Int("memory"); ok && n > 0 {
		w.MemoryHalfLife = time.Duration(n)
	}
	if n, ok := record.Int("recent"); ok && n > 0 {
		w.Recent = time.Duration(n)
	}
	if n, ok := largest.Int("cpu"); ok {
		w.MaxCPU = n
	}
	if n, ok := largest.Int("memory"); ok {
		w.MaxMemory = n
	}
	return w, failed
}

// OOMSample runs usage.oom and returns the sample, in bytes, for an OOM kill. ok is false if the rules
// want no sample. It also returns the rules that failed.
func OOMSample(plan *engine.Plan, container string, policy *lang.Record, oom OOM, trace *engine.Trace) (bytes int64, ok bool, failed []*engine.RuleError) {
	sample := sampleSchema.New()
	f := usageOOM.NewFacts().Set("container", lang.Text(container)).Set("policy", policy)
	f.Set("oom", oomSchema.Of(oom)).Set("sample", sample)
	failed = plan.RunStages(UsageOOM, f, trace)
	bytes, ok = sample.Int("memory")
	return bytes, ok, failed
}
