package facts

import (
	"slices"

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
	podFacts = []registry.Var{
		{Name: "vpa", Type: lang.RecordOf(vpaSchema.Schema)},
		{Name: "limitRange", Type: lang.RecordOf(limitRangesSchema), Doc: "the LimitRanges of the namespace combined: the highest minimum, the lowest maximum and ratio"},
		{Name: "sidecars", Type: lang.RecordOf(stanzaSchema.Schema), Doc: "what its init containers that keep running request, and their limits, together"},
		{Name: "creating", Type: lang.Bool, Doc: "the pod is about to be created; false for one that runs"},
	}
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
	}, podFacts...),
	Scopes: []registry.Scope{templatedScope, reportedPodScope},
	Judged: []string{"requests", "limits"},
}
