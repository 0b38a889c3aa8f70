package recommender

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
)

// Explained is the trace of one container's recommendation, or with an empty name that of the pod
// as a whole.
type Explained struct {
	Container string
	Trace     *engine.Trace
	asked     *asked        // nil for the pod
	history   facts.History // of a container
}

// asked are the percentiles of usage that rules looked at.
type asked struct{ cpu, memory lookups }

// lookups are those of one resource.
type lookups struct {
	amounts map[float64]int64 // by fraction, in milli-cores or bytes
	before  map[int]float64   // the last one before a step of the trace, by the step's index
}

func newLookups() lookups { return lookups{amounts: map[float64]int64{}, before: map[int]float64{}} }

// Result is the recommendation of the rules for a workload.
type Result struct {
	Recommendations []vpav1.RecommendedContainerResources // sorted by container name
	Pod             *vpav1.RecommendedResources           // at pod level; nil without pod-level requests
	LowConfidence   []string                              // containers with a recommendation from little usage, sorted
	Unknown         []Unknown                             // missing for want of usage
	Explained       []Explained                           // one per recommendation, that of the pod last, if requested
	Failed          []*engine.RuleError                   // rules that failed; the values that they set stay unchanged
	Undecided       []string                              // containers whose selection failed
	PodUndecided    bool                                  // the recommendation at pod level failed
}

// Unknown is a missing recommendation for a container whose usage is not known well enough.
type Unknown struct {
	Container   string
	CPU, Memory bool
}

// Recommend lets the rules turn the usage of a VPA's containers into recommendations. It is a pure
// function.
func Recommend(plan *engine.Plan, v *vpav1.VerticalPodAutoscaler, view model.View, explain bool) Result {
	policies := facts.PolicyRulesOf(plan)
	return recommend(v, view, explain, plan, func(container string) *effective {
		p := policies.For(v.Spec.ResourcePolicy, container)
		return &effective{policy: p, record: facts.Policy(p), plan: plan}
	})
}

// scaled is a container that the rules scale.
type scaled struct {
	*effective
	usage     model.Usage
	bounds    facts.Bounds
	estimated facts.Estimated
	trace     *engine.Trace
	asked     *asked // nil = not noted
}

func recommend(v *vpav1.VerticalPodAutoscaler, view model.View, explain bool, of *engine.Plan, effective func(container string) *effective) Result {
	var out Result
	var all []scaled
	for _, usage := range view.Containers {
		e := effective(usage.Container)
		verdict := e.plan.Decide(facts.ContainerSelect, facts.SelectFacts(usage.Container, e.record, seen(v, view, usage)), nil)
		switch {
		case verdict.Err != nil:
			out.Failed = append(out.Failed, verdict.Err)
			out.Undecided = append(out.Undecided, usage.Container)
		case verdict.Do == facts.DoScale:
			all = append(all, scaled{effective: e, usage: usage, bounds: facts.NewBounds()})
		}
	}
	for i := range all {
		c := &all[i]
		if explain {
			c.trace, c.asked = &engine.Trace{}, &asked{cpu: newLookups(), memory: newLookups()}
			out.Explained = append(out.Explained, Explained{Container: c.usage.Container, Trace: c.trace, asked: c.asked, history: historyOf(c.usage)})
		}
		out.Failed = append(out.Failed, c.run(v, len(all))...)
	}
	if requests := podRequests(v, view); requests != (facts.PodRequests{}) {
		out.pod(of, v, requests, all, explain)
	}
	for i := range all {
		out.add(&all[i])
	}
	return out
}

// add adds the recommendation for a container. A container without usage is left out, because other
// components would apply an empty recommendation.
func (r *Result) add(c *scaled) {
	target, unknown := c.bounds[0], c.unknown()
	if unknown != (Unknown{Container: c.usage.Container}) {
		r.Unknown = append(r.Unknown, unknown)
		if facts.ResourceList(target) == nil {
			return
		}
	}
	if c.estimated.LowConfidence() {
		r.LowConfidence = append(r.LowConfidence, c.usage.Container)
	}
	r.Recommendations = append(r.Recommendations, c.render())
}

// unknown lists the recommendations that lack usage.
func (c *scaled) unknown() Unknown {
	lacks := func(resource string) bool {
		_, recommended := c.bounds[0].Int(resource)
		return c.estimated.Unknown.Bool(resource) && !recommended
	}
	return Unknown{Container: c.usage.Container, CPU: lacks("cpu"), Memory: lacks("memory")}
}

// seen is the facts of a container for container.select.
func seen(v *vpav1.VerticalPodAutoscaler, view model.View, usage model.Usage) facts.Seen {
	return facts.Seen{
		History: historyOf(usage), Present: usage.Present, Pods: view.Pods, Mixed: !target.PodsAlike(v),
	}
}

// podRequests are the pod-level requests of the pods. A workload without pods, as one that is scaled
// to 0, keeps those that its recommendation is for, because its containers keep theirs.
func podRequests(v *vpav1.VerticalPodAutoscaler, view model.View) facts.PodRequests {
	out := facts.PodRequests{CPU: view.PodCPU, Memory: view.PodMemory}
	if r := v.Status.Recommendation; view.Pods == 0 && r != nil && r.PodRecommendation != nil {
		_, out.CPU = r.PodRecommendation.Target[corev1.ResourceCPU]
		_, out.Memory = r.PodRecommendation.Target[corev1.ResourceMemory]
	}
	return out
}

// pod recommends for the pod as a whole, whose bounds may change those of its containers
// (AEP-7571).
func (r *Result) pod(plan *engine.Plan, v *vpav1.VerticalPodAutoscaler, requests facts.PodRequests, all []scaled, explain bool) {
	if len(r.Undecided) > 0 { // the sum would lack containers
		r.PodUndecided = true
		return
	}
	var trace *engine.Trace
	if explain {
		trace = &engine.Trace{}
		r.Explained = append(r.Explained, Explained{Trace: trace})
	}
	containers := make([]facts.PodContainer, 0, len(all))
	for _, c := range all {
		containers = append(containers, facts.PodContainer{Name: c.usage.Container, Policy: c.record, Unknown: c.estimated.Unknown, Bounds: c.bounds})
	}
	bounds, failed := facts.RecommendPod(plan, containers, facts.PodPolicy(v.Spec.ResourcePolicy), requests, trace)
	r.Failed, r.PodUndecided = append(r.Failed, failed...), len(failed) > 0
	if len(failed) == 0 {
		r.Failed = append(r.Failed, inOrder(bounds, plan, func() *engine.Trace { return trace })...)
	}
	if facts.ResourceList(bounds[0]) != nil {
		var written []corev1.ResourceList
		if p := v.Spec.ResourcePolicy; p != nil && p.PodPolicies != nil {
			written = []corev1.ResourceList{p.PodPolicies.MinAllowed, p.PodPolicies.MaxAllowed}
		}
		r.Pod = &vpav1.RecommendedResources{
			Target: asWritten(bounds[0], written), LowerBound: asWritten(bounds[1], written), UpperBound: asWritten(bounds[2], written),
			UncappedTarget: facts.ResourceList(bounds[3]),
		}
	}
}

// run estimates and recommends for one of several containers.
func (c *scaled) run(v *vpav1.VerticalPodAutoscaler, containers int) []*engine.RuleError {
	name := c.usage.Container
	known := estimateOf(c.usage, containers)
	if c.asked != nil {
		known.CPU, known.Memory = c.asked.cpu.of(known.CPU, c.trace), c.asked.memory.of(known.Memory, c.trace)
	}
	if before := recommendedFor(v, name); before != nil {
		known.Before = facts.BoundsOf(before)
	}
	estimate, estimated := facts.EstimateFacts(v, name, known, c.record, c.bounds)
	c.estimated = estimated
	failed := c.plan.RunStages(facts.ContainerEstimate, estimate, c.trace)
	recommend := facts.RecommendFacts(c.plan, v, name, c.record, c.usage.Input, c.bounds)
	failed = append(failed, c.plan.RunStages(facts.ContainerRecommend, recommend, c.trace)...)
	return append(failed, inOrder(c.bounds, c.plan, func() *engine.Trace {
		if c.trace != nil {
			return c.trace
		}
		again := scaled{effective: c.effective, usage: c.usage, bounds: facts.NewBounds(), trace: &engine.Trace{}}
		again.run(v, containers)
		return again.trace
	})...)
}

// keep completes the recommendation with the previous one where the rules failed.
func (r Result) keep(before *vpav1.RecommendedPodResources) *vpav1.RecommendedPodResources {
	out := &vpav1.RecommendedPodResources{ContainerRecommendations: r.Recommendations, PodRecommendation: r.Pod}
	if before == nil {
		return out
	}
	if r.PodUndecided {
		out.PodRecommendation = before.PodRecommendation
	}
	if len(r.Undecided) == 0 {
		return out
	}
	for _, c := range before.ContainerRecommendations {
		if slices.Contains(r.Undecided, c.ContainerName) {
			out.ContainerRecommendations = append(out.ContainerRecommendations, c)
		}
	}
	slices.SortFunc(out.ContainerRecommendations, func(a, b vpav1.RecommendedContainerResources) int {
		return strings.Compare(a.ContainerName, b.ContainerName)
	})
	return out
}

func estimateOf(u model.Usage, containers int) facts.Estimate {
	return facts.Estimate{
		CPU:        facts.Histogram{Percentile: func(p float64) int64 { return facts.Amount(u.CPU.Percentile(p) * 1000) }},
		Memory:     facts.Histogram{Percentile: func(p float64) int64 { return facts.Amount(u.Memory.Percentile(p)) }},
		History:    historyOf(u),
		Recent:     u.Recent(),
		Containers: containers,
	}
}

// of is a histogram that notes which percentiles it is asked for, and at which step.
func (l lookups) of(h facts.Histogram, trace *engine.Trace) facts.Histogram {
	return facts.Histogram{Percentile: func(p float64) int64 {
		amount := h.Percentile(p)
		l.amounts[p], l.before[trace.Len()] = amount, p
		return amount
	}}
}

func historyOf(u model.Usage) facts.History {
	return facts.History{Span: u.LastSample.Sub(u.FirstSample), Samples: u.Samples, MemorySamples: u.MemorySamples, Restored: u.Restored}
}

// recommendedFor is the recommendation for a container in the status of a VPA; nil without one.
func recommendedFor(v *vpav1.VerticalPodAutoscaler, container string) *vpav1.RecommendedContainerResources {
	if v.Status.Recommendation == nil {
		return nil
	}
	for i := range v.Status.Recommendation.ContainerRecommendations {
		if c := &v.Status.Recommendation.ContainerRecommendations[i]; c.ContainerName == container {
			return c
		}
	}
	return nil
}

func (c *scaled) render() vpav1.RecommendedContainerResources {
	var written []corev1.ResourceList
	if c.policy != nil {
		written = []corev1.ResourceList{c.policy.MinAllowed, c.policy.MaxAllowed}
	}
	wanted := asWritten(c.bounds[0], written)
	if wanted == nil {
		wanted = corev1.ResourceList{} // required by the API, empty when nothing is controlled
	}
	return vpav1.RecommendedContainerResources{
		ContainerName:  c.usage.Container,
		Target:         wanted,
		LowerBound:     asWritten(c.bounds[1], written),
		UpperBound:     asWritten(c.bounds[2], written),
		UncappedTarget: facts.ResourceList(c.bounds[3]),
	}
}

// asWritten renders a bound. What is at a minimum or maximum of a policy is written as the policy
// writes it, as upstream does (UPSTREAM.md §3.2): 1G stays 1G.
func asWritten(bound *lang.Record, written []corev1.ResourceList) corev1.ResourceList {
	list := facts.ResourceList(bound)
	for _, allowed := range written {
		for name, q := range list {
			if w, ok := allowed[name]; ok && q.Cmp(w) == 0 {
				list[name] = w.DeepCopy()
			}
		}
	}
	return list
}

// outOfOrder is a bound that a rule left beyond the target.
type outOfOrder struct{ bound, relation string }

// Error has no amounts: they change with each sample, and the status would with them.
func (e *outOfOrder) Error() string {
	return fmt.Sprintf("%s is %s the target, so it is set to the target", e.bound, e.relation)
}

// inOrder moves the bounds of a recommendation to its target where overlays left the lower bound above it or the upper bound below it,
// because the updater would change such a pod again and again. Without overlays they stay: as upstream, so that flags mean the same.
// The failures name the rules, which the trace of the recommendation knows.
func inOrder(bounds facts.Bounds, plan *engine.Plan, trace func() *engine.Trace) (failed []*engine.RuleError) {
	for _, resource := range facts.ScaledResources {
		name := string(resource)
		target, ok := bounds[0].Int(name)
		if !ok {
			continue
		}
		for i := 1; i <= 2; i++ {
			bound, ok := bounds[i].Int(name)
			relation := "above"
			if i == 2 {
				relation = "below"
			}
			if !ok || i == 1 && bound <= target || i == 2 && bound >= target {
				continue
			}
			overlays := plan.OverlaysAt(facts.ContainerEstimate, facts.ContainerRecommend, facts.PodRecommend)
			if len(overlays) == 0 {
				return nil
			}
			err := &outOfOrder{bound: facts.BoundNames[i] + "." + name, relation: relation}
			fault := trace().Blame("now."+name, err, facts.BoundNames[0], facts.BoundNames[i])
			if fault == nil {
				fault = &engine.RuleError{Path: "of overlay " + strings.Join(overlays, ", "), Err: err}
			}
			failed = append(failed, fault)
			bounds[i].SetInt(name, target)
		}
	}
	return failed
}
