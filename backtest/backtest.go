// Package backtest replays recorded usage through celvpa: what would a policy have done to this
// cluster? The recommender, the updater and the admission controller decide as they do in a
// cluster, by a virtual clock, and see nothing of the future. Several policies run beside each
// other, and beside baselines, on the same history.
//
// Package history holds the usage. Results are plain structs; scripts depend on their JSON names.
// Flags and output belong in cmd/celvpa. No policy lives here: rules decide, and this package
// carries out and measures.
package backtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate"
)

// Candidate is a policy to be tried.
type Candidate struct {
	Name     string
	Book     *compile.Rulebook // with the RuleOverlays in force
	Unpinned bool              // pipelines that VPAs pin are ignored
	Params   map[string]string
	Enforces []string
	Implicit bool // nobody asked for it
}

// CheckNames refuses policies that a report could not tell apart.
func CheckNames(names ...string) error {
	seen := map[string]bool{Manifest: true, Hindsight: true, Chosen: true}
	for _, name := range names {
		if seen[name] {
			return fmt.Errorf("two policies are called %q: rename a folder of rules", name)
		}
		seen[name] = true
	}
	return nil
}

// vpa is a VPA under the policy; it is not changed.
func (c *Candidate) vpa(v *vpav1.VerticalPodAutoscaler) *vpav1.VerticalPodAutoscaler {
	if !c.Unpinned || v.Annotations[policy.AnnotationPipeline] == "" {
		return v
	}
	v = v.DeepCopy()
	delete(v.Annotations, policy.AnnotationPipeline)
	return v
}

// Options configure a backtest.
type Options struct {
	Interval time.Duration // between two cycles of the recommender, and of the updater
	Prices   *Prices       // nil = none
	Points   int           // steps of the series of each container; 0 = no series
	// Until ends the replay, and Since begins the figures: what is before it is replayed, too. Zero = all of the history.
	Until, Since time.Time
	// Class, if set, names the class of the workloads of a VPA; policies then have figures by class. Empty = none.
	Class func(v *vpav1.VerticalPodAutoscaler) string
	// Watch, if set, receives how much is done. Calls come from several goroutines.
	Watch func(done, of int64)
	// Recommended, if set, receives each recommendation that a candidate writes; it must not change
	// the VPA. Calls come from several goroutines.
	Recommended func(policy string, at time.Time, v *vpav1.VerticalPodAutoscaler)

	thorough bool // for tests: nothing is taken over from one cycle to the next
}

// These suit a backtest, which makes a lot of garbage and keeps little but the packed history.
const (
	gcPercent   = 400
	memoryLimit = 768 << 20
)

// Tune sets the garbage collector of the process for backtests, until restore is called.
func Tune() (restore func()) {
	percent, limit := debug.SetGCPercent(gcPercent), debug.SetMemoryLimit(memoryLimit)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// UpstreamInterval is the default time between two cycles of upstream's recommender and updater.
const UpstreamInterval = time.Minute

// gapSteps is for how many usual steps of the history a sample holds at most.
const gapSteps = 3

// Run tries candidates on a history, and the baselines manifest and hindsight beside them. The
// error lists what could not be used; the report has the rest, and is nil if there is nothing.
func Run(ctx context.Context, cluster *simulate.Cluster, store *history.Store, candidates []Candidate, o Options) (*Report, []string, error) {
	spans := store.Spans()
	if len(spans) == 0 {
		return nil, nil, errors.New("the history is empty: nothing was replayed")
	}
	until := int64(math.MaxInt64)
	if !o.Until.IsZero() {
		until = o.Until.UnixNano()
	}
	staged, unusable := cluster.Stage(seen(spans, until))
	if len(staged.Workloads) == 0 {
		return nil, cluster.Notes(), faults.Join(unusable, errors.New("no usage belongs to a workload of the manifests: nothing was replayed; name the workloads with -f"))
	}
	b := &bench{options: o, store: store, setting: &setting{stage: divide(staged, spans, until), interval: int64(o.Interval), points: o.Points, thorough: o.thorough, listen: o.Recommended}}
	if len(b.shards) == 0 {
		return nil, cluster.Notes(), faults.Join(unusable, errors.New("no usage belongs to a workload of the VerticalPodAutoscalers that are selected: nothing was replayed"))
	}
	b.window(spans, until)
	if err := b.checkWindow(spans); err != nil {
		return nil, cluster.Notes(), faults.Join(unusable, err)
	}
	b.candidates = append([]Candidate{{Name: Manifest}, {Name: Hindsight}}, candidates...)
	for i := range b.candidates {
		if c := &b.candidates[i]; c.Book != nil {
			c.Book = cluster.Here(c.Book)
		}
	}
	b.guard()
	b.plan()
	if o.Watch != nil {
		b.passed = func(cycles int64) { o.Watch(b.done.Add(cycles), b.total) }
	}
	err := b.run(ctx)
	if ctx.Err() != nil {
		return nil, cluster.Notes(), ctx.Err()
	}
	notes := slices.Concat(cluster.Notes(), b.stage.notes, b.short(), b.excess())
	return b.report(), append(notes, b.notes()...), faults.Join(unusable, err)
}

// seen are the series that begin up to a time.
func seen(spans []history.Span, until int64) (out []simulate.Seen) {
	for _, s := range spans {
		if s.First <= until {
			out = append(out, simulate.Seen{Series: s.Series, Last: clock(min(s.Last, until))})
		}
	}
	return out
}

// bench is a backtest under way.
type bench struct {
	*setting
	options    Options
	store      *history.Store
	candidates []Candidate
	loads      []*load // by shard
	tasks      []*task
	of         [][]*task // by candidate, then shard
	done       atomic.Int64
	total      int64
}

// load is the usage of a shard while tasks need it.
type load struct {
	once sync.Once
	left atomic.Int64
	err  error
}

// task is a replay of one shard by one policy, or by several that decide alike.
type task struct {
	shard     int
	candidate int // the first
	weight    int64
	out       *outcome
	err       error
}

// window is that of the samples which belong to a workload, up to a time.
func (b *bench) window(spans []history.Span, until int64) {
	first := true
	var steps []float64
	for _, sh := range b.shards {
		for i := range sh.slots {
			slot := &sh.slots[i]
			if first || slot.first < b.from {
				b.from = slot.first
			}
			b.to, first = max(b.to, slot.end), false
			for j := range slot.containers {
				for _, s := range slot.containers[j].series[:2] {
					if s >= 0 && spans[s].Points > 1 {
						steps = append(steps, float64(spans[s].Last-spans[s].First)/float64(spans[s].Points-1))
					}
				}
			}
		}
	}
	if b.since = b.from; !b.options.Since.IsZero() {
		b.since = b.onCycle(b.options.Since.UnixNano())
	}
	if until != math.MaxInt64 {
		b.to = min(b.to, b.onCycle(until))
	}
	if b.maxGap = int64(gapSteps * quantiles(steps).P50); b.maxGap == 0 { // no series has two samples
		b.maxGap = gapSteps * b.interval
	}
}

// onCycle is the time of the first cycle at a time or after it.
func (b *bench) onCycle(at int64) int64 {
	return b.from + (at-b.from+b.interval-1)/b.interval*b.interval
}

// maxCycles is two years of a cycle a minute.
const maxCycles = 2 * 366 * 24 * 60

// checkWindow refuses windows that would take forever: one sample of a clock that was never set makes
// them decades long.
func (b *bench) checkWindow(spans []history.Span) error {
	if b.from == b.to {
		return fmt.Errorf("the history has workloads of the manifests at one time only, %s: nothing was replayed, because a replay needs two samples", clock(b.from).Format(time.RFC3339))
	}
	cycles := (b.to - b.from) / b.interval
	if cycles <= maxCycles {
		return nil
	}
	of := func(s history.Span) string { return s.Pod.Namespace + "/" + s.Pod.Name }
	first := slices.MinFunc(spans, func(x, y history.Span) int { return cmp.Compare(x.First, y.First) })
	last := slices.MaxFunc(spans, func(x, y history.Span) int { return cmp.Compare(x.Last, y.Last) })
	return fmt.Errorf("the history goes from %s (pod %s) to %s (pod %s), which is %d cycles, and the maximum is %d: a clock may have been wrong; set --from and --to, or a longer --interval",
		clock(b.from).Format(time.RFC3339), of(first), clock(b.to).Format(time.RFC3339), of(last), cycles, maxCycles)
}

// plan makes the tasks: policies that decide alike for a shard share one.
func (b *bench) plan() {
	b.of = make([][]*task, len(b.candidates))
	for s, sh := range b.shards {
		points := (b.to - b.from) / b.interval * int64(len(sh.slots))
		byKey := map[string]*task{}
		l := &load{}
		for c := range b.candidates {
			key := b.candidates[c].key(sh)
			t := byKey[key]
			if t == nil {
				t = &task{shard: s, candidate: c, weight: points}
				byKey[key] = t
				b.tasks = append(b.tasks, t)
				b.total += points
				l.left.Add(1)
			}
			b.of[c] = append(b.of[c], t)
		}
		b.loads = append(b.loads, l)
	}
	slices.SortStableFunc(b.tasks, func(x, y *task) int { return cmp.Compare(y.weight, x.weight) })
}

// key is the same for candidates that decide alike for a shard.
func (c *Candidate) key(sh *shard) string {
	if c.Book == nil {
		return c.Name
	}
	var key strings.Builder
	about := func(v *vpav1.VerticalPodAutoscaler) {
		chosen := policy.For(c.Book, c.vpa(v))
		digest := ""
		if chosen.Plan != nil {
			digest = chosen.Plan.Digest()
		}
		fmt.Fprintf(&key, " %s %v", digest, chosen.Err)
	}
	for _, v := range sh.vpas {
		about(v)
	}
	for _, w := range sh.workloads {
		v := &vpav1.VerticalPodAutoscaler{}
		v.Namespace = w.Namespace
		about(v)
	}
	return key.String()
}

// run runs all tasks on all cores.
func (b *bench) run(ctx context.Context) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(b.tasks)) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(b.tasks) {
					return
				}
				b.runTask(ctx, b.tasks[i])
			}
		})
	}
	workers.Wait()
	var errs []error
	for _, t := range b.tasks {
		errs = append(errs, t.err)
	}
	return faults.Join(errs...)
}

func (b *bench) runTask(ctx context.Context, t *task) {
	sh, l, c := b.shards[t.shard], b.loads[t.shard], &b.candidates[t.candidate]
	defer func() {
		if p := recover(); p != nil {
			t.err = fmt.Errorf("replaying %s with policy %s failed: %v; please report this\n%s", sh.workloads[0], c.Name, p, debug.Stack())
		}
		if l.left.Add(-1) == 0 {
			sh.forget()
		}
	}()
	l.once.Do(func() { l.err = sh.read(b.store, b.to) })
	if t.err = l.err; t.err != nil {
		return
	}
	r := newReplay(b.setting, sh, c)
	if t.err = r.run(ctx); t.err == nil {
		t.out = r.outcome()
	}
}

// notes are the remarks of all replays, sorted.
func (b *bench) notes() []string {
	var out []string
	for _, t := range b.tasks {
		if t.out == nil {
			continue
		}
		for _, note := range t.out.notes {
			out = append(out, b.candidates[t.candidate].Name+": "+note)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
