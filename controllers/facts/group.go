package facts

import (
	"time"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Group counts the pods of one direct owner, e.g. a ReplicaSet, and what their evictions led to.
type Group struct {
	Configured int // replicas the owner asks for; 0 = unknown
	Live       int // pods that are not terminating
	Running    int // live pods that have started
	Ready      int // live pods that are ready
	Disrupted  int // running pods evicted or resized in this cycle; at pod.unboost, those being resized

	Age      time.Duration // since the owner was created
	AgeKnown bool

	LastHour, LastDay Updates       // carried out by this process, or not answered
	CountedFor        time.Duration // since it began to count them

	Evictions, Resizes Refusals // refused for reasons that apply to all of its pods

	Unchanged    int           // consecutive evictions whose replacement kept its old resources
	UnchangedAge time.Duration // since the last of these evictions

	Counted          bool          // Configured is the owner's number, not that of live pods
	CreateRefused    string        // why the API server refuses new pods, as the owner reports; empty = it does not
	CreateRefusedAge time.Duration // since the first refusal
	Unreplaced       int           // evicted pods that are gone, without a new pod since
	UnreplacedAge    time.Duration // since the first of them was gone
}

// Updates are numbers of evictions and in-place resizes.
type Updates struct{ Evictions, Resizes int }

// Add adds others.
func (u *Updates) Add(others Updates) {
	u.Evictions, u.Resizes = u.Evictions+others.Evictions, u.Resizes+others.Resizes
}

// CountUpdate counts what was just done to a pod.
func (g *Group) CountUpdate(u Updates) {
	g.LastHour.Add(u)
	g.LastDay.Add(u)
}

var groupSchema = lang.Bind("Group",
	lang.IntIf("configured", lang.Int, "replicas the owner asks for; unset if unknown or none",
		func(g Group) (int, bool) { return g.Configured, g.Configured > 0 }),
	lang.IntFrom("live", lang.Int, "pods not terminating", func(g Group) int { return g.Live }),
	lang.IntFrom("running", lang.Int, "live pods that have started", func(g Group) int { return g.Running }),
	lang.IntFrom("ready", lang.Int, "live pods that are ready", func(g Group) int { return g.Ready }),
	lang.IntFrom("disrupted", lang.Int, "running pods that were evicted or resized in this cycle; at pod.unboost, other pods whose resize is sent or in progress", func(g Group) int { return g.Disrupted }),
	lang.IntIf("age", lang.IntOf(Duration), "since the owner was created, as the ReplicaSet of a Deployment is by a rollout; unset if that is unknown",
		func(g Group) (time.Duration, bool) { return g.Age, g.AgeKnown }),

	lang.IntFrom("evictionsLastHour", lang.Int, "evictions by this updater in the last hour, to 5 minutes, with those that were not answered", func(g Group) int { return g.LastHour.Evictions }),
	lang.IntFrom("evictionsLastDay", lang.Int, "the same in the last 24 hours; forgotten when the owner has had no pods for an hour", func(g Group) int { return g.LastDay.Evictions }),
	lang.IntFrom("resizesLastHour", lang.Int, "in-place resizes by this updater in the last hour, as evictionsLastHour; ends of startup boosts count too", func(g Group) int { return g.LastHour.Resizes }),
	lang.IntFrom("resizesLastDay", lang.Int, "the same in the last 24 hours", func(g Group) int { return g.LastDay.Resizes }),
	lang.IntFrom("countedFor", lang.IntOf(Duration), "how long this process has counted evictions and resizes: a restart forgets earlier ones; 0 offline, and replayed time in a backtest", func(g Group) time.Duration { return g.CountedFor }),

	lang.IntFrom("refusals", lang.Int,
		"consecutive refusals of evictions: of any pod for a PodDisruptionBudget or missing permissions, else of this pod",
		func(g Group) int { return g.Evictions.Times }),
	lang.IntFrom("refusedAge", lang.IntOf(Duration), "since the cycle of the last one", func(g Group) time.Duration { return g.Evictions.Age }),
	lang.TextFrom("refusedFor", "why the last one was refused: Budget (a PodDisruptionBudget), or as in attempt.refused",
		func(g Group) Refusal { return g.Evictions.Last }),
	lang.TextFrom("refusedMessage", "what the API server said", func(g Group) string { return g.Evictions.Message }),

	lang.IntFrom("resizeRefusals", lang.Int,
		"consecutive refusals of resizes that no eviction followed: of any pod for missing permissions, else of this pod",
		func(g Group) int { return g.Resizes.Times }),
	lang.IntFrom("resizeRefusedAge", lang.IntOf(Duration), "since the cycle of the last one", func(g Group) time.Duration { return g.Resizes.Age }),
	lang.TextFrom("resizeRefusedFor", "why the last one was refused, as in attempt.refused", func(g Group) Refusal { return g.Resizes.Last }),
	lang.TextFrom("resizeRefusedMessage", "what the API server said", func(g Group) string { return g.Resizes.Message }),

	lang.IntFrom("unchanged", lang.Int, "consecutive evictions whose replacement kept its old resources",
		func(g Group) int { return g.Unchanged }),
	lang.IntFrom("unchangedAge", lang.IntOf(Duration), "since the last of these evictions", func(g Group) time.Duration { return g.UnchangedAge }),

	lang.TextIf("createRefused", "why the API server refuses new pods, in its words, as a ReplicaSet or ReplicationController reports it (condition ReplicaFailure); unset if it does not",
		func(g Group) (string, bool) { return g.CreateRefused, g.CreateRefused != "" }),
	lang.IntFrom("createRefusedAge", lang.IntOf(Duration), "since the owner first reported that", func(g Group) time.Duration { return g.CreateRefusedAge }),
	lang.IntFrom("unreplaced", lang.Int, "pods that were evicted and are gone, and that the owner has not replaced although it lacks pods",
		func(g Group) int { return g.Unreplaced }),
	lang.IntFrom("unreplacedAge", lang.IntOf(Duration), "since the first of them was gone", func(g Group) time.Duration { return g.UnreplacedAge }))

// Refusals are consecutive API server refusals, with no success in between. Refused resizes that
// led to an eviction do not count.
type Refusals struct {
	Times   int
	Age     time.Duration // since the last one
	Last    Refusal
	Message string // last API server message
}

func (r Refusals) or(others Refusals) Refusals {
	if r.Times == 0 {
		return others
	}
	return r
}

// Attempt is the result of earlier resize attempts.
type Attempt struct {
	// Refused is why the API server refused the latest resize; empty = accepted, or none was sent.
	Refused Refusal
	Message string // from the API server
	// Infeasible: the node could not fit an earlier resize (AEP-8818). NowLower: now less is
	// wanted.
	Infeasible, NowLower bool
}

var attemptSchema = lang.Bind("Attempt",
	lang.TextFrom("refused",
		"why the API server just refused the resize: NodeCapacity, Quota, NotSupported, Invalid, Conflict, NotAnswered, WebhookFailed, Gone, NotPermitted or Forbidden; empty = it did not",
		func(a *Attempt) Refusal { return a.Refused }),
	lang.TextFrom("message", "what it said", func(a *Attempt) string { return a.Message }),
	lang.BoolFrom("infeasible", "a resize of this pod was infeasible on its node (AEP-8818)", func(a *Attempt) bool { return a.Infeasible }),
	lang.BoolFrom("nowLower", "less CPU or memory would be requested now than by that resize", func(a *Attempt) bool { return a.NowLower }))

// Refusal is the reason a resize or an eviction was refused.
type Refusal string

// Reasons of refusals.
const (
	RefusedNodeCapacity  Refusal = "NodeCapacity"  // more than the node has (Kubernetes 1.36 and newer)
	RefusedBudget        Refusal = "Budget"        // a PodDisruptionBudget blocks the eviction
	RefusedQuota         Refusal = "Quota"         // exceeds a ResourceQuota or a LimitRange of the namespace
	RefusedNotSupported  Refusal = "NotSupported"  // the node or the API server cannot resize such pods
	RefusedInvalid       Refusal = "Invalid"       // the pod does not allow this change
	RefusedConflict      Refusal = "Conflict"      // the pod changed meanwhile
	RefusedNotAnswered   Refusal = "NotAnswered"   // timeout, or the API server is overloaded
	RefusedWebhookFailed Refusal = "WebhookFailed" // a webhook with failure policy Fail does not answer
	RefusedGone          Refusal = "Gone"          // the pod no longer exists
	RefusedNotPermitted  Refusal = "NotPermitted"  // this process lacks permission to resize pods
	RefusedForbidden     Refusal = "Forbidden"     // an admission policy blocks it, or another reason
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
			vpaVar,
			groupVar,
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
