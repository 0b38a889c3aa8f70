package recommender

import (
	"sort"

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

// Recommend lets the rules turn the usage of a workload's containers into recommendations, sorted by container name.
// It is a pure function; with explain it also returns what each rule did. Rules that fail are returned, the
// recommendation stands without what they would have changed.
func Recommend(plan *engine.Plan, containers map[string]*model.Aggregate, policy *vpav1.PodResourcePolicy, explain bool) (
	[]vpav1.RecommendedContainerResources, []Explained, []*engine.RuleError) {
	policies := map[string]*engine.Record{}
	var names []string
	for name := range containers {
		p := facts.Policy(facts.PolicyFor(policy, name))
		if plan.Decide(facts.ContainerSelect, facts.SelectFacts(p), nil).Do == facts.DoScale {
			policies[name] = p
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var (
		out       []vpav1.RecommendedContainerResources
		explained []Explained
		failed    []*engine.RuleError
	)
	for _, name := range names {
		var trace *engine.Trace
		if explain {
			trace = &engine.Trace{}
			explained = append(explained, Explained{Container: name, Trace: trace})
		}
		bounds := facts.NewBounds()
		estimate := estimateOf(containers[name], len(names))
		failed = append(failed, plan.RunStages(facts.ContainerEstimate, facts.EstimateFacts(estimate, policies[name], bounds), trace)...)
		failed = append(failed, plan.RunStages(facts.ContainerRecommend, facts.RecommendFacts(policies[name], bounds), trace)...)
		out = append(out, render(name, bounds))
	}
	return out, explained, failed
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
