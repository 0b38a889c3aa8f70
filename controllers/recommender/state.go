package recommender

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/notice"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/recommender/usage"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/lang"
)

// State is the recommender's memory: rules, VPAs, pods and usage. It has no client and no clock,
// and belongs to one goroutine.
type State struct {
	// Objects are what its rules may ask for; nil = nothing is known.
	Objects facts.Objects

	logger  logr.Logger
	shadows *policy.Shadows // nil = audited overlays are not evaluated
	// tolerance is Options.BoundsTolerance.
	tolerance resource.Quantity

	rules      *compile.Rulebook
	cluster    *model.Cluster
	workloads  map[model.WorkloadID]*Workload
	plans      plans
	effectives uint64 // policies so far
	notices    notice.Board
	collected  time.Time // when usage was last looked through for what has expired
}

// garbageInterval is how often aggregates are collected (UPSTREAM.md §2.19).
const garbageInterval = time.Hour

// Workload is the state of one VPA between cycles.
type Workload struct {
	VPA    *vpav1.VerticalPodAutoscaler // as last read; read only
	Chosen compile.Selection            // the rules for it
	of     *compile.Rulebook            // from which they were chosen
	Found  target.Answer                // its pods
	order  facts.Order                  // its place among VPAs that select the same pods

	model       *model.Workload
	policies    map[string]*effective // by the containerName of the policy
	policyRules facts.PolicyRules
	uncapped    map[string]facts.Amounts // the last uncapped target, by container
	past        map[string]*past         // what was recommended, by container, where rules read it
	done        evaluation
	sent        sentStatus
	missing     string               // resourceVersion at which a write did not find its status; empty = none
	stored      map[string]stored    // checkpoints, by container
	ooms        map[string]*oomLog   // the last OOMs, by container
	judged      map[string]time.Time // time up to which the checkpoint includes OOMs, by container

	panicked  string    // what panicked since the VPA was last read; empty = nothing
	waiting   time.Time // since when its status could not be written; zero = it is written
	writtenAt time.Time // last attempt to write a checkpoint of it
}

// sentStatus is what was last written, as long as the VPA does not change. Either the cache is late, or
// the CRD lacks fields that API servers then drop: upstream's lacks the recommendation for the pod.
type sentStatus struct {
	version string // resourceVersion of the VPA before the write
	status  *vpav1.VerticalPodAutoscalerStatus
}

// evaluation is what a status was made of. While it is the same, so is the status.
type evaluation struct {
	version string // resourceVersion of the VPA; empty = none was made
	rules   *compile.Rulebook
	problem string // with its target
	unknown bool   // whether it has one
}

// NewState returns an empty state. Without shadows, audited overlays are not evaluated.
func NewState(unusedGrace time.Duration, log logr.Logger, shadows *policy.Shadows) *State {
	s := &State{logger: log, shadows: shadows, cluster: model.NewCluster(unusedGrace), workloads: map[model.WorkloadID]*Workload{}}
	s.cluster.Observe = s.observeQuality
	return s
}

// UseRules sets the rules in force.
func (s *State) UseRules(book *compile.Rulebook) {
	if s.rules == book {
		return
	}
	s.rules, s.plans = book, plans{}
	window, failed := facts.WindowFor(book.Default(), "", facts.Policy(nil), nil)
	policy.Report(s.logger, "default memory aggregation used where no VPA sets it", failed...)
	s.cluster.SetWindow(window)
	for _, w := range s.workloads {
		s.choose(w)
	}
}

// SetVPA adds or updates a VPA with the pods that were found for it.
func (s *State) SetVPA(v *vpav1.VerticalPodAutoscaler, found target.Answer) *Workload {
	id := model.WorkloadID{Namespace: v.Namespace, Name: v.Name}
	w := s.workloads[id]
	if w == nil {
		w = &Workload{uncapped: recommendedBefore(v)}
		s.workloads[id] = w
	}
	changed := w.VPA == nil || w.VPA.ResourceVersion != v.ResourceVersion
	w.VPA, w.Found, w.panicked = v, found, ""
	if changed || w.of != s.rules || s.rules.ReadsLabels() || (w.Chosen.Plan == nil && w.Chosen.Err == nil) {
		s.choose(w)
	}
	key := target.Of(v)
	w.model = s.cluster.SetWorkload(id, w.order, key.Kind+"/"+key.Name, w.selector())
	return w
}

// choose finds the rules for a VPA.
func (s *State) choose(w *Workload) {
	before := w.Chosen
	w.Chosen, w.of = compile.Selection{}, s.rules
	s.contained(w, "choosing its rules", func() {
		w.Chosen = policy.For(s.rules, w.VPA)
		w.policyRules = facts.PolicyRulesOf(w.Chosen.Plan)
		var failed []*engine.RuleError
		w.order, failed = facts.OrderOf(w.Chosen.Plan, w.VPA)
		s.failed(w, "order", "order among VPAs that select the same pods unchanged", failed)
	})
	if w.Chosen.Plan != before.Plan {
		w.policies = nil // else a workload without pods would keep the rules of before in memory
	}
	if !w.Chosen.Same(before) {
		w.done = evaluation{} // the labels of its namespace or workload changed, if nothing else did
	}
}

// contained recovers from a panic about a VPA, which reports it in its status.
func (s *State) contained(w *Workload, doing string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			panics.Inc()
			w.panicked = fmt.Sprintf("%s failed: %v", doing, p)
			s.notices.Report(s.log(w).WithValues("stack", string(debug.Stack())), w.String()+" panic", errors.New(w.panicked),
				"panic; this VPA keeps its recommendation; please report this")
		}
	}()
	f()
}

// failed counts rules that failed for a VPA, and logs them once.
func (s *State) failed(w *Workload, at, consequence string, failed []*engine.RuleError) {
	policy.Count(failed...)
	var errs []error
	for _, e := range failed {
		errs = append(errs, e)
	}
	s.notices.Report(s.log(w).WithValues("consequence", consequence), w.String()+" "+at, errors.Join(errs...), "rule failed")
}

// selector finds the pods of the VPA; nil when it is not known.
func (w *Workload) selector() labels.Selector {
	if w.Found.Problem != nil && w.Found.StaleSince.IsZero() {
		return nil
	}
	return w.Found.Selector
}

// KeepVPAs forgets the VPAs that keep does not hold.
func (s *State) KeepVPAs(keep map[model.WorkloadID]bool) {
	for id, w := range s.workloads {
		if !keep[id] {
			s.notices.Forget(w.String() + " ")
			delete(s.workloads, id)
		}
	}
	s.cluster.KeepWorkloads(keep)
}

// Workloads returns the workloads of all VPAs, ordered by namespace and name of the VPA.
func (s *State) Workloads() []*Workload {
	ids := slices.SortedFunc(maps.Keys(s.workloads), func(a, b model.WorkloadID) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	out := make([]*Workload, 0, len(ids))
	for _, id := range ids {
		out = append(out, s.workloads[id])
	}
	return out
}

// SetPod adds or updates a pod that has started. onlySelected skips pods that never had a VPA.
func (s *State) SetPod(pod *corev1.Pod, onlySelected bool, now time.Time) {
	id := model.PodID{Namespace: pod.Namespace, Name: pod.Name}
	known, same := s.cluster.HasPod(id, pod.ResourceVersion)
	if same {
		return
	}
	if onlySelected && !known && !s.cluster.Selected(pod.Namespace, pod.Labels) {
		return
	}
	spec := model.PodSpec{
		Labels:         pod.Labels,
		Containers:     containerNames(pod.Spec.Containers),
		InitContainers: containerNames(pod.Spec.InitContainers),
		Active:         pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed,
		Version:        pod.ResourceVersion,
		Created:        pod.CreationTimestamp.Time,
	}
	for i := range pod.Spec.Containers {
		requests, limits := facts.CurrentResources(pod, i)
		spec.Requests, spec.Limits = append(spec.Requests, facts.AmountsOf(requests)), append(spec.Limits, facts.AmountsOf(limits))
	}
	if r := pod.Spec.Resources; r != nil {
		_, spec.CPURequest = r.Requests[corev1.ResourceCPU]
		_, spec.MemoryRequest = r.Requests[corev1.ResourceMemory]
	}
	countResources(pod)
	s.cluster.SetPod(id, spec, now)
}

func containerNames(list []corev1.Container) []string {
	out := make([]string, 0, len(list))
	for i := range list {
		out = append(out, list[i].Name)
	}
	return out
}

// Govern applies the memory aggregation of VPA policies to future samples (AEP-8026).
func (s *State) Govern() {
	for _, w := range s.workloads {
		if w.Chosen.Plan == nil {
			continue
		}
		s.contained(w, "applying its memory windows", func() {
			w.model.Governs(func(container string, a *model.Aggregate) {
				e := s.effective(w, container)
				if a.WindowFrom == e.number {
					return
				}
				window, failed := facts.WindowFor(e.plan, container, e.record, nil)
				s.failed(w, "window of "+container, "its memory is aggregated with the default settings", failed)
				a.Govern(window, e.number)
			})
		})
	}
}

// Add records samples and counts them by outcome, a model.Taken.
func (s *State) Add(samples []model.Sample, now time.Time) (taken [2][]int) {
	for i := range taken {
		taken[i] = make([]int, len(model.Outcomes))
	}
	for _, sample := range samples {
		taken[sample.Resource][s.cluster.AddSample(sample, now)]++
	}
	return taken
}

// TakeExcess returns the samples and OOM kills since the last call that are more than the rules accept.
func (s *State) TakeExcess() model.Excess { return s.cluster.TakeExcess() }

// CollectGarbage drops usage that has expired, at most once an hour. It measures the age of usage by the
// newest sample of all: neither a clock that is ahead nor a source that gives nothing for days ends the
// history of every container.
func (s *State) CollectGarbage(now time.Time) {
	if now.Sub(s.collected) < garbageInterval {
		return
	}
	newest := s.cluster.Newest()
	if !newest.IsZero() { // without a sample no age is known
		s.collected = now
	}
	if newest.Before(now) {
		now = newest
	}
	s.cluster.CollectGarbage(now)
	for _, w := range s.workloads {
		w.prune()
	}
}

func (s *State) log(w *Workload) logr.Logger {
	return s.logger.WithValues("namespace", w.VPA.Namespace, "vpa", w.VPA.Name)
}

// String names the VPA.
func (w *Workload) String() string { return fmt.Sprintf("%s/%s", w.VPA.Namespace, w.VPA.Name) }

// Selected lists the pods of each VPA that has any, by namespace and name of the VPA.
func (s *State) Selected() []usage.Workload {
	var out []usage.Workload
	for _, w := range s.Workloads() {
		if pods := w.model.PodNames(); len(pods) > 0 {
			out = append(out, usage.Workload{Namespace: w.VPA.Namespace, Selector: w.model.Selector(), Pods: pods})
		}
	}
	return out
}

// The State belongs to whoever holds the one place in Recommender.busy: the cycle, step by step, or
// someone who asks for an explanation meanwhile. The cycle gives it back while it reads from or
// writes to the API, so that nobody waits for that. Without it the goroutine of the cycle may still
// read what only the cycle changes.

// using lets the cycle use the State.
func (r *Recommender) using(f func()) {
	r.busy <- struct{}{}
	defer func() { <-r.busy }()
	f()
}

// reading lets others read the State, which f must not change but for what it caches. It gives up
// when the context ends.
func (r *Recommender) reading(ctx context.Context, f func()) error {
	select {
	case r.busy <- struct{}{}:
	case <-ctx.Done():
		return errors.New("the recommender is busy with a cycle; ask again in a few seconds")
	}
	defer func() { <-r.busy }()
	f()
	return nil
}

// effective is the policy of a container, and the plan that runs for it.
type effective struct {
	number uint64                         // of this one among all of the state, from 1 on
	policy *vpav1.ContainerResourcePolicy // nil without one
	record *lang.Record
	plan   *engine.Plan // that of the VPA
}

// plans are those for containers without a policy, by plan. All VPAs share them.
type plans map[*engine.Plan]*effective

// effective is the policy of a container of a VPA, cached until the policy or the rules change.
func (s *State) effective(w *Workload, container string) *effective {
	plan := w.Chosen.Plan
	p := w.policyRules.For(w.VPA.Spec.ResourcePolicy, container)
	if p == nil {
		kept := s.plans[plan]
		if kept == nil {
			kept = s.numbered(effective{record: facts.Policy(nil), plan: plan})
			s.plans[plan] = kept
		}
		return kept
	}
	kept := w.policies[p.ContainerName]
	if kept != nil && kept.policy == p && kept.plan == plan {
		return kept
	}
	record := facts.Policy(p)
	if kept != nil && kept.plan == plan && kept.record.Same(record) {
		kept.policy = p
		return kept
	}
	kept = s.numbered(effective{policy: p, record: record, plan: plan})
	if w.policies == nil {
		w.policies = map[string]*effective{}
	}
	w.policies[p.ContainerName] = kept
	return kept
}

func (s *State) numbered(e effective) *effective {
	s.effectives++
	e.number = s.effectives
	return &e
}
