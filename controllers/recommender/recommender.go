// Package recommender turns usage into recommendations. A cycle (recommender.go) takes a sample
// from its source (package usage) and adds it to the histograms of its container (package model);
// kills for memory come in as samples, too (package oom), and usage from before the start from
// checkpoints (history.go) or Prometheus (package history). The rules turn the usage of a VPA into
// a recommendation (estimate.go), which goes into its status (status.go, write.go). Checkpoints
// keep the histograms in the cluster (checkpoints.go).
package recommender

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/recommender/usage"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/turns"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// DefaultName is the recommender that serves VPAs which name none.
const DefaultName = "default"

// targetShare is the share of the interval for reading targets of custom kinds.
const targetShare = 0.25

// Options configure a Recommender; all fields are required unless stated.
type Options struct {
	Client      client.Reader // a cache
	Live        client.Client // not cached; statuses and checkpoints share its rate limit
	Pages       Pages         // of checkpoints, with the same limit; nil if none are read
	Source      usage.Source
	OOMs        func() []model.OOM // those reported since the last call, or since the start; nil = none
	History     History            // source of usage from before the start; nil = checkpoints
	Checkpoints *Checkpoints       // nil = none are written
	Targets     *target.Selectors
	Rules       func() *compile.Rulebook // the rules in force, read once a cycle
	Shadows     *policy.Shadows
	Decisions   *answers.Log // nil = none are kept
	Clock       clock.WithTicker
	Log         logr.Logger
	Name        string // --recommender-name
	Interval    time.Duration
	Workers     int // writes to the API at a time, at least 1
	Namespaces  target.Namespaces
	UnusedGrace time.Duration // see model.NewCluster
	MemorySaver bool          // keep no usage of pods without a VPA
	// BoundsTolerance is by how much of itself each bound of a recommendation may be off before a
	// status is written for bounds only; 0 = not at all.
	BoundsTolerance resource.Quantity
}

// Recommender runs cycles of sampling and recommending while its replica leads.
type Recommender struct {
	*cycle.Loop
	*State
	Options
	busy      chan struct{}                            // holds one while somebody uses the State; see using
	lastCycle time.Time                                // end of the last one
	loaded    bool                                     // usage from before the start is loaded
	sampled   bool                                     // the source of usage has answered once, with samples of this time
	ahead     []*vpav1.VerticalPodAutoscalerCheckpoint // from a time to come; see loadAhead
	loading   atomic.Bool                              // usage from before the start is loading
	crowded   bool                                     // the last statuses left some VPA without its first
	yielded   int                                      // consecutive cycles in which checkpoints left their time to first statuses
	refused   [2][]int                                 // samples that were not accepted in the last cycle, by resource and outcome

	statusTurns, checkpointTurns turns.Turns
}

// New returns a recommender without history.
func New(o Options) *Recommender {
	r := &Recommender{Options: o, State: NewState(o.UnusedGrace, o.Log, o.Shadows), busy: make(chan struct{}, 1)}
	r.Loop = cycle.New("recommender", o.Interval, o.Clock, func(ctx context.Context) {
		latency.Time("total", func() { r.RunOnce(ctx) })
	})
	r.Loop.AtOnce() // caches have synced, and what new VPAs wait for is a first status
	r.tolerance = o.BoundsTolerance
	return r
}

// Healthy returns an error when no cycle has finished for five intervals and five minutes. Loading usage from before
// the start may take longer, as in upstream (UPSTREAM.md §2.1): a process that is killed for it
// would only start over.
func (r *Recommender) Healthy() error {
	if r.loading.Load() {
		return nil
	}
	return r.Loop.Healthy()
}

// RunOnce is one cycle (UPSTREAM.md §2.1). A step that fails is logged and does not stop the
// others.
func (r *Recommender) RunOnce(ctx context.Context) {
	begin := r.Clock.Now()
	r.using(func() { r.UseRules(r.Rules()) })
	var existing map[model.WorkloadID]bool
	var seen map[model.PodID]bool
	latency.Time("LoadVPAs", func() { existing = r.loadVPAs(ctx) })
	if !r.loaded && existing != nil && ctx.Err() == nil {
		r.begin(ctx, existing)
	}
	latency.Time("LoadPods", func() {
		seen = r.loadPods(ctx)
		r.using(func() {
			r.Govern()
			if seen != nil && r.read() {
				r.Continue(r.Clock.Now())
			}
		})
	})
	latency.Time("LoadMetrics", func() { r.loadSamples(ctx) })
	if ctx.Err() != nil { // canceled reads are no failures
		return
	}
	latency.Time("DeleteRemovedPods", func() {
		if seen != nil {
			r.using(func() { r.cluster.KeepPods(seen) })
		}
	})
	if !r.loaded { // without history, a worse recommendation would replace a better one
		return
	}
	latency.Time("GarbageCollect", func() { // before VPAs are evaluated: checkpoints may hold usage that has ended
		r.using(func() {
			r.CollectGarbage(r.Clock.Now())
			r.cluster.Tidy(r.Clock.Now())
		})
	})
	latency.Time("UpdateVPAs", func() { r.updateVPAs(ctx, begin) })
	latency.Time("MaintainCheckpoints", func() {
		if r.Checkpoints != nil {
			r.maintainCheckpoints(ctx, begin, existing)
		}
	})
	r.using(func() { r.lastCycle = r.Clock.Now() })
	r.Log.V(2).Info("cycle done", "vpas", len(r.workloads), "pods", len(seen), "seconds", r.Clock.Since(begin).Round(time.Millisecond).Seconds())
}

// begin loads usage from before the start.
func (r *Recommender) begin(ctx context.Context, existing map[model.WorkloadID]bool) {
	r.loading.Store(true)
	loaded := r.loadHistory(ctx, existing)
	r.using(func() { r.loaded = loaded })
	r.Progress()
	r.loading.Store(false)
}

// loadVPAs updates the VPAs that ask for this recommender. It returns all VPAs of the namespaces
// served, nil when they cannot be listed.
func (r *Recommender) loadVPAs(ctx context.Context) map[model.WorkloadID]bool {
	var list vpav1.VerticalPodAutoscalerList
	err := r.Client.List(ctx, &list)
	r.notices.Report(r.Log, "listing VerticalPodAutoscalers", err, "cannot list VerticalPodAutoscalers; using those of the last cycle")
	if err != nil {
		return nil
	}
	existing, mine, uids := map[model.WorkloadID]bool{}, map[model.WorkloadID]bool{}, map[types.UID]bool{}
	var served []*vpav1.VerticalPodAutoscaler
	for i := range list.Items {
		v := &list.Items[i]
		if !r.Namespaces.Serve(v.Namespace) {
			continue
		}
		id := model.WorkloadID{Namespace: v.Namespace, Name: v.Name}
		existing[id] = true
		if !Asks(v, r.Name) {
			continue
		}
		mine[id], uids[v.UID] = true, true
		served = append(served, v)
	}
	for i, found := range r.Targets.ForAll(ctx, served, part(r.Interval, targetShare)) { // asks the API server
		r.using(func() { r.SetVPA(served[i], found) })
	}
	r.using(func() { r.KeepVPAs(mine) })
	r.Decisions.Keep(func(v types.NamespacedName) bool { return mine[model.WorkloadID(v)] })
	r.Targets.Keep(func(uid types.UID) bool { return uids[uid] })
	return existing
}

// Asks reports whether a VPA asks for the recommender of a name (UPSTREAM.md §2.3).
func Asks(v *vpav1.VerticalPodAutoscaler, name string) bool {
	if len(v.Spec.Recommenders) == 0 {
		return name == DefaultName
	}
	return slices.ContainsFunc(v.Spec.Recommenders, func(selector *vpav1.VerticalPodAutoscalerRecommenderSelector) bool {
		return selector != nil && selector.Name == name
	})
}

// loadPods updates the pods that have started; it returns nil when they cannot be listed.
func (r *Recommender) loadPods(ctx context.Context) map[model.PodID]bool {
	var list corev1.PodList
	err := r.Client.List(ctx, &list)
	r.notices.Report(r.Log, "listing pods", err, "cannot list pods; using those of the last cycle")
	if err != nil {
		return nil
	}
	now := r.Clock.Now()
	seen := make(map[model.PodID]bool, len(list.Items))
	r.using(func() {
		for i := range list.Items {
			pod := &list.Items[i]
			if pod.Status.Phase == corev1.PodPending || !r.Namespaces.Serve(pod.Namespace) {
				continue
			}
			seen[model.PodID{Namespace: pod.Namespace, Name: pod.Name}] = true
			r.SetPod(pod, r.MemorySaver, now)
		}
	})
	return seen
}

// loadSamples adds the samples of the source of usage, and the OOMs since the last cycle.
func (r *Recommender) loadSamples(ctx context.Context) {
	samples, err := r.Source.Samples(ctx)
	if ctx.Err() != nil {
		return
	}
	r.notices.Report(r.Log, "reading usage", err, "usage incomplete")
	now := r.Clock.Now()
	var taken [2][]int
	var excess model.Excess
	r.using(func() {
		r.cluster.Unread = r.Checkpoints != nil && r.History == nil && !r.read()
		taken = r.Add(samples, now)
		excess = r.TakeExcess()
		r.sampled = r.sampled || (err == nil || len(samples) > 0) && !onlyOfTheFuture(taken)
	})
	r.reportRefused(taken, excess)
	r.loadAhead()
	if r.OOMs != nil && r.loaded { // history says which OOMs were counted
		for _, o := range r.OOMs() {
			var taken model.Taken
			var sample int64
			r.using(func() { taken, sample = r.AddOOM(o, now) })
			oomsTotal.WithLabelValues(taken.String()).Inc()
			r.Log.V(2).Info("container ran out of memory", "namespace", o.Pod.Namespace, "pod", o.Pod.Name, "container", o.Container,
				"reportedBytes", o.Memory, "podLevelBytes", o.Share, "countsAsBytes", sample, "at", o.At, "outcome", taken.String())
		}
	}
	aggregatesCount.Set(float64(r.cluster.Aggregates()))
}

// onlyOfTheFuture reports whether samples were rejected for their time, and none was accepted: this
// machine's clock may be behind.
func onlyOfTheFuture(taken [2][]int) bool {
	count := func(of model.Taken) int { return taken[model.CPU][of] + taken[model.Memory][of] }
	return count(model.Future) > 0 && count(model.Accepted) == 0
}

// reportRefused counts samples by outcome, and logs once when the source starts to return unusable
// ones.
func (r *Recommender) reportRefused(taken [2][]int, excess model.Excess) {
	for resource, counts := range taken {
		for outcome, n := range counts {
			samplesTotal.WithLabelValues(model.Resource(resource).String(), model.Outcomes[outcome]).Add(float64(n))
		}
		for _, bad := range []model.Taken{model.Negative, model.Future, model.Implausible} {
			if counts[bad] > 0 && (r.refused[resource] == nil || r.refused[resource][bad] == 0) {
				about := []any{"resource", model.Resource(resource).String(), "what", bad.String(), "samples", counts[bad]}
				if bad == model.Implausible {
					about = append(about, "detail", excess.String())
				}
				r.Log.Info("metrics source returned unusable samples; see metric celvpa_recommender_samples_total", about...)
			}
		}
		r.refused[resource] = counts
		r.Log.V(5).Info("samples read", "resource", model.Resource(resource).String(), "accepted", counts[model.Accepted],
			"ofUnknownContainers", counts[model.Unknown], "old", counts[model.Old])
	}
}

// updateVPAs evaluates all VPAs and writes what changed.
func (r *Recommender) updateVPAs(ctx context.Context, begin time.Time) {
	var updates []*Update
	all := r.Workloads()
	now := r.Clock.Now()
	for _, w := range all {
		// Memory of the last day may be in no checkpoint: without a first look at what is used it
		// would seem to be none.
		if !r.sampled && hasRecommendation(w.VPA.Status.Recommendation) {
			continue
		}
		var u *Update
		r.using(func() { u = r.Update(w, now) })
		if u != nil {
			updates = append(updates, u)
		}
	}
	countObjects(all)
	r.crowded = false
	postponedWrites.WithLabelValues("status").Set(0)
	if len(updates) == 0 {
		return
	}
	latency.Time("WriteStatuses", func() {
		first := firstShare
		if r.yielded >= turns.Patience {
			first = checkpointShare
		}
		r.writeStatuses(ctx, updates, r.until(begin, statusShare), begin.Add(part(r.Interval, first)))
	})
	for _, u := range updates {
		if u.written {
			r.using(func() { r.contained(u.Workload, "explaining its recommendation", func() { r.explain(u) }) })
		}
	}
}
