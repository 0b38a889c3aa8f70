package facts

import (
	"time"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Points that the updater runs after an API request, and their outcomes.
const (
	PodRefused = "pod.refused"
	PodEvicted = "pod.evicted"

	DoRetry           = "Retry"
	DoBackOff         = "BackOff"
	DoBackOffWorkload = "BackOffWorkload"
)

var (
	refusalSchema = lang.Bind("RefusedRequest",
		lang.BoolFrom("resize", "it was a resize, not an eviction", func(r RefusedRequest) bool { return r.Resize }),
		lang.TextFrom("why", "Budget (a PodDisruptionBudget refused an eviction), or as attempt.refused at pod.update",
			func(r RefusedRequest) Refusal { return r.Why }),
		lang.TextFrom("message", "what the API server said", func(r RefusedRequest) string { return r.Message }),
		lang.TextFrom("then", "what pod.update decided after the resize was refused; empty for an eviction",
			func(r RefusedRequest) string { return r.Then }))

	podRefused = &registry.Point{
		Name: PodRefused, Kind: registry.DecisionPoint,
		Doc: "Whether to back off after the API server refused a resize or an eviction; run by the updater. What happens to the pod after a refused resize is decided at pod.update, " +
			"which is asked once more then; where it says InPlace again, the pod waits for the next cycle.",
		Vars: []registry.Var{{Name: "refusal", Type: lang.RecordOf(refusalSchema.Schema), Doc: "the refused request"}},
		Outcomes: []registry.Outcome{
			{Name: DoRetry, Doc: "do not back off: try again in the next cycle"},
			{Name: DoBackOff, Doc: "start a back-off for the pod: group.resizeRefusals or group.refusals at pod.update"},
			{Name: DoBackOffWorkload, Doc: "start a back-off for all pods of the pod's direct owner"},
		},
		FailSafe: DoBackOff,
	}

	replacementSchema = lang.NewSchema("Replacement",
		lang.Field{Name: "timeout", Type: lang.IntOf(Duration), Doc: "how long to wait for it"})

	podEvicted = &registry.Point{
		Name: PodEvicted, Kind: registry.StagePoint,
		Doc: "How long to wait for the replacement pod after an eviction; run by the updater. pod.update compares the two (group.unchanged).",
		Vars: []registry.Var{
			{Name: "vpa", Type: lang.RecordOf(vpaSchema.Schema)},
			{Name: "group", Type: lang.RecordOf(groupSchema.Schema), Doc: "the pods of the same direct owner"},
			{Name: "replacement", Type: lang.RecordOf(replacementSchema), Writable: true, Doc: "unset = do not wait for a replacement pod"},
		},
	}
)

// RefusedRequest is a resize or an eviction that the API server refused.
type RefusedRequest struct {
	Resize  bool
	Why     Refusal
	Message string
	Then    string // outcome of pod.update after a refused resize
}

// DecideRefused runs pod.refused.
func DecideRefused(plan *engine.Plan, r RefusedRequest) engine.Verdict {
	return plan.Decide(PodRefused, podRefused.NewFacts().Set("refusal", refusalSchema.Of(r)), nil)
}

// ReplacementTimeout runs pod.evicted: how long to wait for an evicted pod's replacement, 0 = not.
func ReplacementTimeout(plan *engine.Plan, v *vpav1.VerticalPodAutoscaler, group Group) (time.Duration, []*engine.RuleError) {
	replacement := replacementSchema.New()
	f := podEvicted.NewFacts().Set("vpa", VPA(v)).Set("group", groupSchema.Of(group)).Set("replacement", replacement)
	failed := plan.RunStages(PodEvicted, f, nil)
	timeout, _ := replacement.Int("timeout")
	return max(0, time.Duration(timeout)), failed
}
