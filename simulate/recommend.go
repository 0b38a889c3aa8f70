package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// Recommendations are the recommender's results.
type Recommendations struct {
	Items  []vpav1.VerticalPodAutoscaler `json:"items"`  // as written, with their status
	Traces []RecommendationTrace         `json:"traces"` // of all containers, if requested
}

// RecommendationTrace shows how rules made one recommendation.
type RecommendationTrace struct {
	VPA       string        `json:"vpa"`       // namespace/name
	Container string        `json:"container"` // empty = the pod as a whole
	Steps     []engine.Step `json:"steps"`
}

// Lacking reports whether any VPA has no recommendation, or one kept without rules.
func (r *Recommendations) Lacking() bool {
	return slices.ContainsFunc(r.Items, func(v vpav1.VerticalPodAutoscaler) bool {
		return slices.ContainsFunc(v.Status.Conditions, func(c vpav1.VerticalPodAutoscalerCondition) bool {
			return (c.Type == vpav1.RecommendationProvided || c.Type == vpav1.RulesApplied) && c.Status != corev1.ConditionTrue
		})
	})
}

// fed is a recommender that has seen the usage of files.
type fed struct {
	*Cluster
	Recommender
	objects map[types.UID]vpav1.VerticalPodAutoscaler // VPAs from the manifests, by their UID in the state
}

// Recommend recommends from usage up to the cluster's time. explain adds traces.
func (c *Cluster) Recommend(usage *usagefile.Usage, explain bool) (*Recommendations, error) {
	r, unusable := c.fed(usage)
	return r.report(explain), unusable
}

// Feed gives a recommender usage up to the cluster's time. Its recommendations replace those in the status of all VPAs.
func (c *Cluster) Feed(usage *usagefile.Usage) (*Recommender, error) {
	r, unusable := c.fed(usage)
	made := r.report(false)
	c.statuses = map[string]vpav1.VerticalPodAutoscalerStatus{}
	for _, v := range made.Items {
		c.statuses[v.Namespace+"/"+v.Name] = v.Status
	}
	return &r.Recommender, unusable
}

// fed is a recommender that has seen usage up to the cluster's time.
func (c *Cluster) fed(usage *usagefile.Usage) (*fed, error) {
	now := c.clock.Now()
	until := usage.Until(now)
	var past time.Time
	if later := len(usage.Rows) - len(until.Rows); later > 0 {
		past = now
		c.note("ignored %s of usage later than %s", Counted(later, "row"), now.Format(time.RFC3339))
	}
	usage = until
	log := logr.New(&noteSink{to: c})
	shadows := &policy.Shadows{Component: "recommender", Recorder: noteEvents{to: c}, Clock: c.clock, Log: log}
	r := &fed{Cluster: c, objects: map[types.UID]vpav1.VerticalPodAutoscaler{}}
	r.State, r.now, r.workloads = recommender.NewState(model.UnusedGrace, log, shadows), now, map[model.WorkloadID]*recommender.Workload{}
	r.State.Objects = c.set
	r.State.UseRules(c.book)
	w, unusable := c.world()
	pods, unread := w.place(seen(usage), past)
	selectors := &target.Selectors{Resolver: &target.Resolver{Client: c.set.Client(pods.known())}, Clock: c.clock}
	for _, v := range w.vpas {
		object := v.Object.DeepCopy()
		object.UID = types.UID(v.Key()) // the recommender keys VPAs by UID, which manifests lack or copied from another object
		r.objects[object.UID] = *v.Object
		r.workloads[model.WorkloadID{Namespace: object.Namespace, Name: object.Name}] = r.State.SetVPA(object, selectors.For(context.Background(), object))
	}
	for _, pod := range pods.all {
		r.State.SetPod(pod, false, now)
	}
	r.State.Govern()
	r.feed(usage)
	r.State.Forget(pods.present, now)
	return r, faults.Join(unusable, unread)
}

func (r *fed) report(explain bool) *Recommendations {
	out := &Recommendations{Items: []vpav1.VerticalPodAutoscaler{}, Traces: []RecommendationTrace{}}
	workloads := r.State.Workloads()
	for i, w := range workloads {
		r.progress("recommending", i, len(workloads))
		v := r.objects[w.VPA.UID]
		if !r.Selects(&v) {
			continue
		}
		v.Status = *r.State.Status(w, r.now)
		out.Items = append(out.Items, v)
		if !explain {
			continue
		}
		for _, explained := range r.State.Explain(w, r.now) {
			out.Traces = append(out.Traces, RecommendationTrace{VPA: w.String(), Container: explained.Container, Steps: append([]engine.Step{}, explained.Steps...)})
		}
	}
	return out
}

// feed replays rows in time order. Usage expires meanwhile as it does between the cycles of a recommender.
func (r *fed) feed(usage *usagefile.Usage) {
	var samples []model.Sample
	refused := map[model.Taken]int{}
	flush := func() {
		for _, counts := range r.State.Add(samples, r.now) {
			for outcome, n := range counts {
				refused[model.Taken(outcome)] += n
			}
		}
		samples = samples[:0]
	}
	for i, row := range usage.Rows {
		r.progress("counting rows of usage", i, len(usage.Rows))
		if i > 0 && usage.Rows[i-1].Time().Before(row.Time()) {
			flush()
			r.State.CollectGarbage(usage.Rows[i-1].Time())
		}
		of := usage.Series[row.Series]
		switch of.Kind {
		case usagefile.OOM:
			flush()
			taken, _ := r.State.AddOOM(model.OOM{Pod: of.Pod, Container: of.Container, Memory: row.Amount, At: row.Time()}, r.now)
			refused[taken]++
		case usagefile.CPU:
			samples = append(samples, model.Sample{Pod: of.Pod, Container: of.Container, Resource: model.CPU, Amount: row.Amount, At: row.Time()})
		case usagefile.Memory:
			samples = append(samples, model.Sample{Pod: of.Pod, Container: of.Container, Resource: model.Memory, Amount: row.Amount, At: row.Time()})
		}
	}
	flush()
	if text := r.State.TakeExcess().String(); text != "" {
		r.note("%s", text)
	}
	for _, why := range []struct {
		taken model.Taken
		text  string
	}{
		{model.Init, "the usage of init containers does not count"},
		{model.Old, "another row of the same container has the same time (series of single cores must be in one file), or an OOM is much older than the last one"},
		{model.Disabled, "the rules ignore OOMs"},
	} {
		if n := refused[why.taken]; n > 0 {
			r.note("ignored %s of usage: %s", Counted(n, "row"), why.text)
		}
	}
}

// noteEvents turns events about VPAs into notes.
type noteEvents struct{ to *Cluster }

// Eventf implements events.EventRecorder.
func (e noteEvents) Eventf(about, _ runtime.Object, _, _, _, text string, args ...any) {
	if v, ok := about.(*vpav1.VerticalPodAutoscaler); ok && e.to.Selects(v) {
		e.to.note("%s/%s: %s", v.GetNamespace(), v.GetName(), fmt.Sprintf(text, args...))
	}
}

// noteSink turns logged errors into notes.
type noteSink struct {
	to    *Cluster
	about string // the VPA
}

// Init implements logr.LogSink.
func (*noteSink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (*noteSink) Enabled(int) bool { return false }

// Info implements logr.LogSink.
func (*noteSink) Info(int, string, ...any) {}

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
