package recommender

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Explained is the trace of one container's recommendation.
type Explained struct {
	Container string
	Trace     *engine.Trace
}

// Result is what the rules make of a workload's usage.
type Result struct {
	Recommendations []vpav1.RecommendedContainerResources // sorted by container name
	Explained       []Explained                           // one a recommendation, when asked for
	Failed          []*engine.RuleError                   // rules that failed; what they would have set is as before
	Undecided       []string                              // containers of which the rules could not say whether they are scaled
}

// Recommend lets the rules turn the usage of a workload's containers into recommendations. It is a pure function.
func Recommend(plan *engine.Plan, containers map[string]*model.Aggregate, policy *vpav1.PodResourcePolicy, explain bool) Result {
	same := func(*vpav1.ContainerResourcePolicy, *engine.Record) *engine.Plan { return plan }
	return recommend(same, containers, policy, explain)
}

// planFor gives the plan for a container policy, nil for none, and the record it is bound as.
type planFor func(*vpav1.ContainerResourcePolicy, *engine.Record) *engine.Plan

// scaled is a container that the rules scale.
type scaled struct {
	name   string
	policy *engine.Record
	plan   *engine.Plan
}

func recommend(planFor planFor, containers map[string]*model.Aggregate, policy *vpav1.PodResourcePolicy, explain bool) Result {
	var out Result
	var all []scaled
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		p := facts.PolicyFor(policy, name)
		record := facts.Policy(p)
		plan := planFor(p, record)
		verdict := plan.Decide(facts.ContainerSelect, facts.SelectFacts(name, record, seen(containers[name])), nil)
		switch {
		case verdict.Err != nil:
			out.Failed = append(out.Failed, verdict.Err)
			out.Undecided = append(out.Undecided, name)
		case verdict.Do == facts.DoScale:
			all = append(all, scaled{name, record, plan})
		}
	}
	for _, c := range all {
		var trace *engine.Trace
		if explain {
			trace = &engine.Trace{}
			out.Explained = append(out.Explained, Explained{Container: c.name, Trace: trace})
		}
		bounds := facts.NewBounds()
		estimate, _ := facts.EstimateFacts(c.name, estimateOf(containers[c.name], len(all)), c.policy, bounds)
		out.Failed = append(out.Failed, c.plan.RunStages(facts.ContainerEstimate, estimate, trace)...)
		out.Failed = append(out.Failed, c.plan.RunStages(facts.ContainerRecommend, facts.RecommendFacts(c.name, c.policy, false, bounds), trace)...)
		out.Recommendations = append(out.Recommendations, render(c.name, bounds))
	}
	return out
}

// keep adds what was recommended before for containers that the rules could not decide on.
func (r Result) keep(before *vpav1.RecommendedPodResources) []vpav1.RecommendedContainerResources {
	all := r.Recommendations
	if before != nil {
		for _, c := range before.ContainerRecommendations {
			if slices.Contains(r.Undecided, c.ContainerName) {
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b vpav1.RecommendedContainerResources) int {
		return strings.Compare(a.ContainerName, b.ContainerName)
	})
	return all
}

// seen takes every container for one that a pod has.
func seen(a *model.Aggregate) facts.Seen {
	return facts.Seen{Span: a.LastSample.Sub(a.FirstSample), Samples: a.Samples, Present: true, Pods: 1}
}

func estimateOf(a *model.Aggregate, containers int) facts.Estimate {
	return facts.Estimate{
		CPU:        facts.Histogram{Percentile: func(p float64) int64 { return facts.Amount(a.CPU.Percentile(p) * 1000) }},
		Memory:     facts.Histogram{Percentile: func(p float64) int64 { return facts.Amount(a.Memory.Percentile(p)) }},
		Span:       a.LastSample.Sub(a.FirstSample),
		Samples:    a.Samples,
		Containers: containers,
	}
}

func render(name string, b facts.Bounds) vpav1.RecommendedContainerResources {
	target := facts.ResourceList(b[0])
	if target == nil {
		target = corev1.ResourceList{} // required by the API, empty when nothing is controlled
	}
	return vpav1.RecommendedContainerResources{
		ContainerName:  name,
		Target:         target,
		LowerBound:     facts.ResourceList(b[1]),
		UpperBound:     facts.ResourceList(b[2]),
		UncappedTarget: facts.ResourceList(b[3]),
	}
}
