package main

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// recommendation is a recommender that was fed from files.
type recommendation struct {
	notebook
	state *recommender.State
	now   time.Time

	written map[types.UID]vpav1.VerticalPodAutoscaler // as they are in the manifests, by the UID that they have in state
}

// newRecommendation feeds a recommender. The error tells what cannot be used; all else is.
func newRecommendation(book *engine.Rulebook, set *manifests.Set, usage *usagefile.Usage, remember model.Settings, now time.Time) (*recommendation, error) {
	r := &recommendation{now: now, written: map[types.UID]vpav1.VerticalPodAutoscaler{}}
	rows := r.upToNow(usage)
	shadows := &policy.Shadows{Component: "recommender", Recorder: noEvents{}, Clock: fixedClock(r.now), Log: logr.New(&noteSink{to: &r.notebook, info: true})}
	r.state = recommender.NewState(remember, logr.New(&noteSink{to: &r.notebook}), shadows)
	r.state.ExplainOOMs()

	var errs []error
	must := func(err error) { errs = append(errs, err) }
	overlays, err := set.RuleOverlays()
	must(err)
	must(set.Twice("RuleOverlay"))
	book, err = policy.WithOverlays(book, overlays)
	must(err)
	r.state.UseRules(book)

	vpas, err := r.vpas(set, book)
	must(err)
	pods, err := r.place(set, vpas, usage, rows)
	must(err)
	selectors := &target.Selectors{Resolver: &target.Resolver{Client: manifests.Client(pods.known())}, Clock: fixedClock(r.now)}
	for _, v := range vpas {
		r.state.SetVPA(v, selectors.For(context.Background(), v))
	}
	for _, pod := range pods.all {
		r.state.SetPod(pod, false, r.now)
	}
	r.state.Govern()
	r.feed(usage, rows)
	end := r.now
	if len(rows) > 0 {
		end = rows[len(rows)-1].Time()
	}
	r.state.Forget(pods.present, end)
	return r, faults.Join(errs...)
}

// upToNow are the rows that are not later than now, which is that of the last row where it is not given.
func (r *recommendation) upToNow(usage *usagefile.Usage) []usagefile.Row {
	rows := usage.Rows
	if r.now.IsZero() {
		if r.now = time.Now().UTC().Truncate(time.Second); len(rows) > 0 {
			r.now = rows[len(rows)-1].Time()
		}
		return rows
	}
	n := sort.Search(len(rows), func(i int) bool { return rows[i].Time().After(r.now) })
	if later := len(rows) - n; later > 0 {
		r.note("%s of usage left out: later than --now", counted(later, "row"))
	}
	return rows[:n]
}

// vpas are those that can be used, as the recommender tells them apart.
func (r *recommendation) vpas(set *manifests.Set, book *engine.Rulebook) ([]*vpav1.VerticalPodAutoscaler, error) {
	written, err := r.readVPAs(set, book)
	var out []*vpav1.VerticalPodAutoscaler
	for _, v := range written {
		fed := v.DeepCopy()
		fed.UID = types.UID(v.Namespace + "/" + v.Name) // VPAs are told apart by it, and manifests have none, or that of what they were copied from
		r.written[fed.UID] = *v
		out = append(out, fed)
	}
	return out, err
}

// feed lets the recommender see rows in the order of time.
func (r *recommendation) feed(usage *usagefile.Usage, rows []usagefile.Row) {
	var samples []model.Sample
	refused := map[model.Taken]int{}
	flush := func() {
		for _, counts := range r.state.Add(samples, r.now) {
			for outcome, n := range counts {
				refused[model.Taken(outcome)] += n
			}
		}
		samples = samples[:0]
	}
	for _, row := range rows {
		of := usage.Series[row.Series]
		switch of.Kind {
		case usagefile.OOM:
			flush()
			taken, _ := r.state.AddOOM(model.OOM{Pod: of.Pod, Container: of.Container, Memory: row.Amount, At: row.Time()}, r.now)
			refused[taken]++
		case usagefile.CPU:
			samples = append(samples, model.Sample{Pod: of.Pod, Container: of.Container, Resource: model.CPU, Amount: row.Amount, At: row.Time()})
		case usagefile.Memory:
			samples = append(samples, model.Sample{Pod: of.Pod, Container: of.Container, Resource: model.Memory, Amount: row.Amount, At: row.Time()})
		}
	}
	flush()
	for _, why := range []struct {
		taken model.Taken
		text  string
	}{
		{model.Init, "the usage of init containers does not count"},
		{model.Old, "of the time of another row of the same container, or of an OOM long before its last one"},
		{model.Disabled, "the rules give OOMs no meaning"},
	} {
		if n := refused[why.taken]; n > 0 {
			r.note("%s of usage left out: %s", counted(n, "row"), why.text)
		}
	}
}

// fixedClock always shows the same time.
type fixedClock time.Time

// Now implements clock.PassiveClock.
func (c fixedClock) Now() time.Time { return time.Time(c) }

// Since implements clock.PassiveClock.
func (c fixedClock) Since(t time.Time) time.Duration { return time.Time(c).Sub(t) }

// noEvents is where events go that no cluster is there for.
type noEvents struct{}

// Eventf implements events.EventRecorder.
func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// noteSink makes notes of what is logged: errors, and other messages where they are wanted.
type noteSink struct {
	to    *notebook
	info  bool
	about string // the VPA
}

// Init implements logr.LogSink.
func (*noteSink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s *noteSink) Enabled(level int) bool { return s.info && level == 0 }

// Info implements logr.LogSink.
func (s *noteSink) Info(_ int, message string, pairs ...any) {
	s.to.note("%s%s", s.with(pairs).about, message)
}

// Error implements logr.LogSink.
func (s *noteSink) Error(err error, message string, pairs ...any) {
	s.to.note("%s%s: %v", s.with(pairs).about, message, err)
}

// WithName implements logr.LogSink.
func (s *noteSink) WithName(string) logr.LogSink { return s }

// WithValues implements logr.LogSink.
func (s *noteSink) WithValues(pairs ...any) logr.LogSink { return s.with(pairs) }

// with remembers which VPA it is about.
func (s *noteSink) with(pairs []any) *noteSink {
	var namespace, vpa string
	for i := 0; i+1 < len(pairs); i += 2 {
		switch pairs[i] {
		case "namespace":
			namespace = fmt.Sprint(pairs[i+1])
		case "vpa":
			vpa = fmt.Sprint(pairs[i+1])
		}
	}
	out := *s
	if vpa != "" {
		out.about = namespace + "/" + vpa + ": "
	}
	return &out
}
