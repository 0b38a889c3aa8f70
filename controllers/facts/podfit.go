package facts

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"

	"github.com/celvpa/celvpa/engine/bounds"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Records of pod.fit and pod.resources.
var (
	ratioSchema = lang.NewSchema("Ratio",
		lang.Field{Name: "limit", Type: lang.Int, Doc: "the limit that goes with that request"},
		lang.Field{Name: "request", Type: lang.Int, Doc: "new limit = new request × limit ÷ request + extra, rounded down"},
		lang.Field{Name: "extra", Type: lang.Int, Doc: "milli-cores or bytes"},
		lang.Field{Name: "yields", Type: lang.Bool, Doc: "where limits of containers do not fit together, it gives way before those that do not"})

	ratiosSchema = lang.NewSchema("Ratios",
		lang.Field{Name: "cpu", Type: lang.RecordOf(ratioSchema)},
		lang.Field{Name: "memory", Type: lang.RecordOf(ratioSchema)})

	withheldSchema = lang.NewSchema("Withheld",
		lang.Field{Name: "cpu", Type: lang.String, Doc: "the reason; unset where it is applied"},
		lang.Field{Name: "memory", Type: lang.String, Doc: "the reason; unset where it is applied"})

	limitRangeSchema = lang.NewSchema("LimitRange",
		lang.Field{Name: "min", Type: lang.RecordOf(resourcesSchema.Schema)},
		lang.Field{Name: "max", Type: lang.RecordOf(resourcesSchema.Schema)},
		lang.Field{Name: "default", Type: lang.RecordOf(resourcesSchema.Schema), Doc: "limits"})

	maxRatiosSchema = lang.NewSchema("MaxLimitRequestRatios",
		lang.Field{Name: "cpu", Type: lang.Int, Doc: "thousandths: 2000 is a limit of twice the request"},
		lang.Field{Name: "memory", Type: lang.Int, Doc: "thousandths"})

	maxRatiosByTypeSchema = lang.NewSchema("MaxLimitRequestRatiosByType",
		lang.Field{Name: "container", Type: lang.RecordOf(maxRatiosSchema), Doc: "for each container"},
		lang.Field{Name: "pod", Type: lang.RecordOf(maxRatiosSchema), Doc: "for the pod as a whole"})

	limitRangesSchema = lang.NewSchema("LimitRanges",
		lang.Field{Name: "container", Type: lang.RecordOf(limitRangeSchema), Doc: "for each container; unset when there are none of that type"},
		lang.Field{Name: "pod", Type: lang.RecordOf(limitRangeSchema), Doc: "for the pod as a whole; unset when there are none of that type"},
		lang.Field{Name: "maxLimitRequestRatio", Type: lang.RecordOf(maxRatiosByTypeSchema), Doc: "the most that a limit may be of its request: the lowest of them"})
)

// Pod facts of both points.
var (
	podFacts = append([]registry.Var{
		vpaVar,
		{Name: "limitRange", Type: lang.RecordOf(limitRangesSchema), Doc: "the LimitRanges of the namespace combined: the highest minimum, the lowest maximum and ratio"},
		{Name: "sidecars", Type: lang.RecordOf(stanzaSchema.Schema), Doc: "what its init containers that keep running request, and their limits, together"},
		{Name: "creating", Type: lang.Bool, Doc: "the pod is about to be created; false for one that runs"},
	}, objectVars...)
	originalVar = registry.Var{Name: "original", Type: lang.RecordOf(stanzaSchema.Schema), Doc: "what the pod has now"}
	keptVar     = registry.Var{Name: "keptRatio", Type: lang.RecordOf(stanzaSchema.Schema), Doc: "a request and a limit whose ratio resizes kept so far (annotation vpaLimitRatio); what the pod has now is rounded"}
	ratioVar    = registry.Var{Name: "ratio", Type: lang.RecordOf(ratiosSchema), Writable: true, Doc: "how its limits follow its requests, chosen by rules at pod.fit; unset = no limit to set"}
	withheldVar = registry.Var{Name: "withheld", Type: lang.RecordOf(withheldSchema), Writable: true, Doc: "why part of the recommendation is not applied; the updater sees it at pod.update"}
	requestsVar = registry.Var{Name: "requests", Type: lang.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "the request to write; unset = unchanged"}
	limitsVar   = registry.Var{Name: "limits", Type: lang.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "the limit to write; unset = unchanged"}

	containerScope = registry.Scope{
		Name: "container", List: "containers", Doc: "each container of the pod, in its order",
		Vars: []registry.Var{
			{Name: "container", Type: lang.String, Doc: "its name"},
			{Name: "index", Type: lang.Int, Doc: "its place in containers, from 0"},
			{Name: "policy", Type: lang.RecordOf(policySchema.Schema), Doc: "its effective policy"},
			{Name: "hasRecommendation", Type: lang.Bool, Doc: "the VPA has a recommendation for it"},
			originalVar, keptVar,
			{Name: "recommended", Type: lang.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "what is recommended for it"},
			withheldVar, ratioVar, requestsVar, limitsVar,
			{Name: "boost", Type: lang.RecordOf(boostedSchema.Schema), Writable: true, Doc: "its startup boost"},
		},
	}
	podScope = registry.Scope{
		Name: "podLevel", Whole: "pod", Doc: "the pod as a whole, if it has resources at pod level (spec.resources)",
		Vars: []registry.Var{
			{Name: "policy", Type: lang.RecordOf(podPolicySchema.Schema), Doc: "podPolicies of the VPA"},
			{Name: "init", Type: lang.RecordOf(initSchema.Schema), Doc: "its init containers"},
			{Name: "defaultRequests", Type: lang.RecordOf(resourcesSchema.Schema), Doc: "the requests that API servers fill in where the pod has none: the sum over its containers, else its limit"},
			{Name: "defaultLimits", Type: lang.RecordOf(resourcesSchema.Schema), Doc: "the limits that API servers fill in where the pod has none: the sum over its containers, of a resource that all of them limit"},
			originalVar, keptVar,
			{Name: "recommended", Type: lang.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "what is recommended for it"},
			withheldVar, ratioVar, requestsVar, limitsVar,
		},
	}
)

// templatedScope is containerScope at pod.resources.
var templatedScope = registry.Scope{
	Name: containerScope.Name, List: containerScope.List, Doc: containerScope.Doc,
	Vars: append(slices.Clip(containerScope.Vars), registry.Var{Name: "template", Type: lang.RecordOf(stanzaSchema.Schema),
		Doc: "what the pod template of the pod's owner has; set for boosted pods that run, if the owner is of a built-in kind"}),
}

// reportedPodScope is podScope at pod.resources.
var reportedPodScope = registry.Scope{
	Name: podScope.Name, Whole: podScope.Whole, Doc: podScope.Doc,
	Vars: append(slices.Clip(podScope.Vars), registry.Var{Name: "report", Type: lang.RecordOf(reportSchema), Writable: true, Doc: "what admission logs of the pod"}),
}

var reportSchema = lang.NewSchema("Report",
	lang.Field{Name: "missing", Type: lang.Bool, Doc: "which requests of the pod and of its containers have no recommendation"})

var podFit = &registry.Point{
	Name: PodFit, Kind: registry.StagePoint,
	Doc: "Fit the recommendation to this pod: rules change `recommended`, or bound it, and solvers choose within the bounds. Run by the webhook for the target, by the updater for the lower and the upper bound too, each on its own. " +
		"What is requested is decided afterwards, at pod.resources.",
	Vars: append([]registry.Var{
		{Name: "bound", Type: lang.String, Doc: "which recommendation it is: target, lowerBound or upperBound"},
		anyNodeVar,
	}, podFacts...),
	Scopes:  []registry.Scope{boundedBy(containerScope), boundedBy(podScope)},
	Bounds:  togetherBounds,
	Solvers: podSolvers,
}

// boundedBy is a scope at pod.fit, where rules bound its items.
func boundedBy(s registry.Scope) registry.Scope {
	s.Bounds = slices.Clone(ownBounds)
	for i := range s.Bounds {
		s.Bounds[i].Scope = s.Name
	}
	return s
}

var podResources = &registry.Point{
	Name: PodResources, Kind: registry.StagePoint,
	Doc: "Which `requests` and `limits` to write, given what pod.fit made of `recommended`; run by the webhook and the updater.",
	Vars: append([]registry.Var{
		{Name: "start", Type: lang.RecordOf(startSchema.Schema), Doc: "the start of a running pod"},
		anyNodeVar,
	}, podFacts...),
	Scopes: []registry.Scope{templatedScope, reportedPodScope},
	Judged: []string{"requests", "limits"},
}

// meaning is what a bound of pod.fit says to the solver.
type meaning struct {
	of    bounds.Of
	least bool
}

var meanings = map[string]meaning{
	"least":          {bounds.Amount, true},
	"most":           {bounds.Amount, false},
	"leastLimit":     {bounds.Follower, true},
	"mostLimit":      {bounds.Follower, false},
	"mostLimitRatio": {bounds.Ratio, false},

	"leastTogether":          {bounds.Amount, true},
	"mostTogether":           {bounds.Amount, false},
	"leastLimitsTogether":    {bounds.Follower, true},
	"mostLimitsTogether":     {bounds.Follower, false},
	"mostLimitRatioTogether": {bounds.Ratio, false},
}

// bound declares a bound of what is recommended for the items of a scope.
func bound(name, scope, doc string) registry.BoundVar {
	of := lang.RecordOf(resourcesSchema.Schema)
	if meanings[name].of == bounds.Ratio {
		of = lang.RecordOf(maxRatiosSchema)
	}
	return registry.BoundVar{Name: name, Type: of, Of: "recommended", Scope: scope, Doc: doc}
}

// What rules bound of each container and of the pod level, and of containers together.
var (
	ownBounds = []registry.BoundVar{
		bound("least", "", "the least that it requests"),
		bound("most", "", "the most that it requests"),
		bound("leastLimit", "", "the least that its limit is, if that follows requests"),
		bound("mostLimit", "", "the most that its limit is, if that follows requests"),
		bound("mostLimitRatio", "", "the most that its limit is of its request, in thousandths"),
	}
	togetherBounds = []registry.BoundVar{
		bound("leastTogether", "container", "the least that containers with a recommendation request together"),
		bound("mostTogether", "container", "the most that they request together"),
		bound("leastLimitsTogether", "container", "the least that their limits are together"),
		bound("mostLimitsTogether", "container", "the most that their limits are together"),
		bound("mostLimitRatioTogether", "container", "the most that limits are of requests, of all containers of the pod together, in thousandths"),
	}
	podSolvers = []registry.Solver{
		{Name: "podLevel", Doc: "what the pod as a whole requests: as near to its recommendation as its bounds allow", Solve: solver("podLevel")},
		{Name: "containers", Doc: "what containers request: as near to their recommendations as their bounds allow, and shared in proportion where they are bounded together. " +
			"If nothing fits, the resource is not recommended for any container", Solve: solver("container")},
	}
)

// solver chooses what is recommended for the items of a scope, and their ratios where limits cannot follow them.
func solver(scope string) func(*registry.Facts, []registry.Bound) []registry.Chosen {
	return func(f *registry.Facts, set []registry.Bound) (out []registry.Chosen) {
		items := f.Items(scope)
		creating := f.Value(f.Point().VarIndex()["creating"]) == types.True
		for field := range resourcesSchema.Fields() {
			p := podProblem{items: items, field: field, set: set, running: !creating}
			out = append(out, p.solve(scope == "container")...)
		}
		return out
	}
}

// podProblem is what to choose of one resource.
type podProblem struct {
	items   []*registry.Item
	field   int // of the resource
	set     []registry.Bound
	running bool

	of      []int // indexes of the items that have a recommendation
	problem bounds.Problem
}

func (p *podProblem) solve(together bool) []registry.Chosen {
	if !slices.ContainsFunc(p.set, func(b registry.Bound) bool { return b.Field == p.field }) {
		return nil // as for most pods
	}
	p.of, p.problem.Items = make([]int, 0, len(p.items)), make([]bounds.Item, 0, len(p.items))
	for i, item := range p.items {
		request, hasRequest := amountAt(item.Record("original"), "requests", p.field)
		limit, hasLimit := amountAt(item.Record("original"), "limits", p.field)
		if !hasRequest {
			request = limit // as API servers fill in
		}
		want, recommended := amount(item.Record("recommended"), p.field)
		if !recommended {
			p.problem.BesideAmount = lang.SaturatingAdd(p.problem.BesideAmount, request)
			p.problem.BesideFollower = lang.SaturatingAdd(p.problem.BesideFollower, limit)
			continue
		}
		it := bounds.Item{Want: want, Now: request}
		it.Line, it.Yields = line(item.Record("ratio"), p.field)
		switch {
		case it.Line != nil:
			it.Rounded = p.running && it.Line.Num > it.Line.Den && it.Line.Extra == 0 && it.Line.Den == request
		case hasLimit:
			it.Fixed = &limit
		}
		p.of, p.problem.Items = append(p.of, i), append(p.problem.Items, it)
	}
	if len(p.of) == 0 {
		return nil
	}
	p.bind(together)
	choices, ok := p.problem.Solve()
	if !ok {
		return p.withhold()
	}
	var out []registry.Chosen
	for n, c := range choices {
		i, it := p.of[n], &p.problem.Items[n]
		if c.Amount != it.Want {
			out = append(out, p.chosen(i, "recommended", []int{p.field}, c.Amount, c.By))
		}
		if it.Line != nil && c.Follower != it.Line.At(c.Amount) {
			out = append(out, p.chosen(i, "ratio", []int{p.field, 0}, c.Follower, c.FollowerBy),
				p.chosen(i, "ratio", []int{p.field, 1}, c.Amount, -1), p.chosen(i, "ratio", []int{p.field, 2}, 0, -1))
		}
	}
	return out
}

// bind adds what rules have set.
func (p *podProblem) bind(together bool) {
	for id := range p.set {
		b := &p.set[id]
		if b.Field != p.field {
			continue
		}
		m := meanings[b.Var.Name]
		of := bounds.Bound{Of: m.of, Least: m.least, Value: b.Value, Level: b.Level, ID: id}
		if b.Item == nil {
			if together {
				p.problem.Totals = append(p.problem.Totals, of)
			}
			continue
		}
		for n, i := range p.of {
			if p.items[i] == b.Item {
				p.problem.Items[n].Bounds = append(p.problem.Items[n].Bounds, of)
			}
		}
	}
}

func (p *podProblem) chosen(i int, name string, path []int, v int64, by int) registry.Chosen {
	out := registry.Chosen{Item: p.items[i], Index: i, Var: name, Path: path, Value: lang.CellOf(types.Int(v))}
	if by >= 0 {
		out.By = &p.set[by]
	}
	return out
}

// nothingFits begins the reason of what no amounts fit.
const nothingFits = "no amounts of "

// withhold takes back the recommendation for all items, because no amounts fit. The reason lists what bounds them.
func (p *podProblem) withhold() (out []registry.Chosen) {
	name := resourcesSchema.Fields()[p.field].Name
	var notes []string
	for _, b := range p.set {
		if b.Field == p.field && b.Note != "" && !slices.Contains(notes, b.Note) {
			notes = append(notes, b.Note)
		}
	}
	reason := nothingFits + name + " fit all that bounds the containers of the pod (" + strings.Join(notes, ", ") + ")"
	for _, i := range p.of {
		out = append(out, registry.Chosen{Item: p.items[i], Index: i, Var: "recommended", Path: []int{p.field}, Note: name + " is not changed: " + reason},
			registry.Chosen{Item: p.items[i], Index: i, Var: "withheld", Path: []int{p.field}, Value: lang.CellOf(types.String(reason))})
	}
	return out
}

func amount(of *lang.Record, field int) (int64, bool) {
	if of == nil {
		return 0, false
	}
	c := of.Cells()[field]
	return int64(c.Bits), c.Kind != lang.UnsetCell
}

func amountAt(of *lang.Record, list string, field int) (int64, bool) {
	if of == nil {
		return 0, false
	}
	resources, _ := of.Field(list).(*lang.Record)
	return amount(resources, field)
}

// line is how the limit follows the request; nil = it does not.
func line(ratios *lang.Record, field int) (of *bounds.Line, yields bool) {
	if ratios == nil {
		return nil, false
	}
	ratio, _ := ratios.At(field).(*lang.Record)
	if ratio == nil {
		return nil, false
	}
	limit, request, extra := ratio.Cells()[0], ratio.Cells()[1], ratio.Cells()[2]
	if int64(limit.Bits) <= 0 || int64(request.Bits) <= 0 {
		return nil, false
	}
	return &bounds.Line{Num: int64(limit.Bits), Den: int64(request.Bits), Extra: int64(extra.Bits)}, ratio.Bool("yields")
}
