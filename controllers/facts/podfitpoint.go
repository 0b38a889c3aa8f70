package facts

import (
	"slices"

	"github.com/celvpa/celvpa/engine"
)

// The records of pod.fit and pod.resources.
var (
	ratioSchema = engine.NewSchema("Ratio",
		engine.Field{Name: "limit", Type: engine.Int, Doc: "what limit goes with that request"},
		engine.Field{Name: "request", Type: engine.Int, Doc: "new limit = new request × limit ÷ request + extra, rounded down"},
		engine.Field{Name: "extra", Type: engine.Int, Doc: "milli-cores or bytes"})

	ratiosSchema = engine.NewSchema("Ratios",
		engine.Field{Name: "cpu", Type: engine.RecordOf(ratioSchema)},
		engine.Field{Name: "memory", Type: engine.RecordOf(ratioSchema)})

	withheldSchema = engine.NewSchema("Withheld",
		engine.Field{Name: "cpu", Type: engine.Bool, Doc: "unset where it is not"},
		engine.Field{Name: "memory", Type: engine.Bool, Doc: "unset where it is not"})

	scalingSchema = engine.NewSchema("Scaling",
		engine.Field{Name: "from", Type: engine.Int, Doc: "what all containers come to together"},
		engine.Field{Name: "to", Type: engine.Int, Doc: "what they are to come to: each is multiplied by to ÷ from"},
		engine.Field{Name: "roundUp", Type: engine.Bool, Doc: "round each up, else down"})

	scalingsSchema = engine.NewSchema("Scalings",
		engine.Field{Name: "cpu", Type: engine.RecordOf(scalingSchema)},
		engine.Field{Name: "memory", Type: engine.RecordOf(scalingSchema)})

	limitRangeSchema = engine.NewSchema("LimitRange",
		engine.Field{Name: "min", Type: engine.RecordOf(resourcesSchema.Schema)},
		engine.Field{Name: "max", Type: engine.RecordOf(resourcesSchema.Schema)},
		engine.Field{Name: "default", Type: engine.RecordOf(resourcesSchema.Schema), Doc: "limits"})

	limitRangesSchema = engine.NewSchema("LimitRanges",
		engine.Field{Name: "container", Type: engine.RecordOf(limitRangeSchema), Doc: "for each container; unset when there are none of that type"},
		engine.Field{Name: "pod", Type: engine.RecordOf(limitRangeSchema), Doc: "for the pod as a whole; unset when there are none of that type"})
)

// What both points know of a pod.
var (
	podFacts = []engine.Var{
		{Name: "vpa", Type: engine.RecordOf(vpaSchema.Schema)},
		{Name: "limitRange", Type: engine.RecordOf(limitRangesSchema), Doc: "what the LimitRanges of the namespace say together: of minimums the highest, of maximums the lowest"},
	}
	originalVar = engine.Var{Name: "original", Type: engine.RecordOf(stanzaSchema.Schema), Doc: "what the pod has now"}
	ratioVar    = engine.Var{Name: "ratio", Type: engine.RecordOf(ratiosSchema), Writable: true, Doc: "how its limits follow its requests, which rules of pod.fit choose; unset = there is no limit to set"}
	withheldVar = engine.Var{Name: "withheld", Type: engine.RecordOf(withheldSchema), Writable: true, Doc: "which part of the recommendation is not applied because it cannot be right; the updater sees it at pod.update"}
	requestsVar = engine.Var{Name: "requests", Type: engine.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "what will be requested; unset = untouched"}
	limitsVar   = engine.Var{Name: "limits", Type: engine.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "what will be the limit; unset = untouched"}

	containerScope = engine.Scope{
		Name: "container", List: "containers", Doc: "each container of the pod, in its order",
		Vars: []engine.Var{
			{Name: "container", Type: engine.String, Doc: "its name"},
			{Name: "index", Type: engine.Int, Doc: "its place in containers, from 0"},
			{Name: "policy", Type: engine.RecordOf(policySchema.Schema), Doc: "its effective policy"},
			{Name: "hasRecommendation", Type: engine.Bool, Doc: "the VPA has a recommendation for it"},
			originalVar,
			{Name: "recommended", Type: engine.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "what is recommended for it"},
			withheldVar, ratioVar, requestsVar, limitsVar,
			{Name: "share", Type: engine.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "what its request is to become, for rules that must see all containers first"},
			{Name: "boost", Type: engine.RecordOf(boostedSchema.Schema), Writable: true, Doc: "its startup boost"},
		},
	}
	podScope = engine.Scope{
		Name: "podLevel", Whole: "pod", Doc: "the pod as a whole, where it has resources at pod level (spec.resources); otherwise nothing",
		Vars: []engine.Var{
			{Name: "policy", Type: engine.RecordOf(podPolicySchema.Schema), Doc: "podPolicies of the VPA"},
			{Name: "init", Type: engine.RecordOf(initSchema.Schema), Doc: "its init containers"},
			{Name: "defaultRequests", Type: engine.RecordOf(resourcesSchema.Schema), Doc: "what API servers fill in for requests that the pod does not have although it has the limit: what its containers request together, else the limit"},
			originalVar,
			{Name: "recommended", Type: engine.RecordOf(resourcesSchema.Schema), Writable: true, Doc: "what is recommended for it"},
			withheldVar, ratioVar, requestsVar, limitsVar,
		},
	}
)

// reportedPodScope is podScope at pod.resources.
var reportedPodScope = engine.Scope{
	Name: podScope.Name, Whole: podScope.Whole, Doc: podScope.Doc,
	Vars: append(slices.Clip(podScope.Vars), engine.Var{Name: "report", Type: engine.RecordOf(reportSchema), Writable: true, Doc: "what admission logs of the pod"}),
}

var reportSchema = engine.NewSchema("Report",
	engine.Field{Name: "missing", Type: engine.Bool, Doc: "which requests of the pod and of its containers have no recommendation"})

var podFit = &engine.Point{
	Name: PodFit, Kind: engine.StagePoint,
	Doc: "Fit the recommendation to this pod by changing `recommended`; run by the webhook for the target, by the updater for the lower and the upper bound too, each on its own. " +
		"What is requested is decided afterwards, at pod.resources.",
	Vars: append([]engine.Var{
		{Name: "bound", Type: engine.String, Doc: "which recommendation it is: target, lowerBound or upperBound"},
		{Name: "scaling", Type: engine.RecordOf(scalingsSchema), Writable: true, Doc: "what all containers are scaled by, for rules that must see all of them first"},
	}, podFacts...),
	Scopes: []engine.Scope{containerScope, podScope},
}

var podResources = &engine.Point{
	Name: PodResources, Kind: engine.StagePoint,
	Doc: "Which `requests` and `limits` to write, given what pod.fit made of `recommended`; run by the webhook and the updater.",
	Vars: append([]engine.Var{
		{Name: "creating", Type: engine.Bool, Doc: "the pod is about to be created; false for one that runs"},
		{Name: "start", Type: engine.RecordOf(startSchema.Schema), Doc: "the start of a running pod"},
	}, podFacts...),
	Scopes: []engine.Scope{containerScope, reportedPodScope},
}
