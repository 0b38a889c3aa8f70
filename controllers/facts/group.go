package facts

import (
	"time"

	"github.com/celvpa/celvpa/engine/lang"
)

// Group counts the pods of one direct owner, e.g. a ReplicaSet, and tells what came of evicting some of them.
type Group struct {
	Configured int // replicas the owner asks for; 0 = not known
	Live       int // pods not terminating
	Running    int // live pods that have started
	Ready      int // live pods that are ready
	Disrupted  int // running pods that were evicted or resized in this cycle

	Evictions, Resizes Refusals // of any of its pods, for a reason that holds for all of them

	Unchanged    int           // consecutive evictions whose replacement kept its old resources
	UnchangedAge time.Duration // since the last of these evictions
}

var groupSchema = lang.Bind("Group",
	lang.IntIf("configured", lang.Int, "replicas the owner asks for; unset if unknown or none",
		func(g *Group) (int, bool) { return g.Configured, g.Configured > 0 }),
	lang.IntFrom("live", lang.Int, "pods not terminating", func(g *Group) int { return g.Live }),
	lang.IntFrom("running", lang.Int, "live pods that have started", func(g *Group) int { return g.Running }),
	lang.IntFrom("ready", lang.Int, "live pods that are ready", func(g *Group) int { return g.Ready }),
	lang.IntFrom("disrupted", lang.Int, "running pods that were evicted or resized in this cycle", func(g *Group) int { return g.Disrupted }),

	lang.IntFrom("refusals", lang.Int,
		"consecutive refusals of evictions: of any pod for a PodDisruptionBudget or missing permissions, else of this pod",
		func(g *Group) int { return g.Evictions.Times }),
	lang.IntFrom("refusedAge", lang.IntOf(Duration), "since the cycle of the last one", func(g *Group) time.Duration { return g.Evictions.Age }),
	lang.TextFrom("refusedFor", "why the last one was refused: Budget (a PodDisruptionBudget), or as in attempt.refused",
		func(g *Group) Refusal { return g.Evictions.Last }),
	lang.TextFrom("refusedMessage", "what the API server said", func(g *Group) string { return g.Evictions.Message }),

	lang.IntFrom("resizeRefusals", lang.Int,
		"consecutive refusals of resizes that no eviction followed: of any pod for missing permissions, else of this pod",
		func(g *Group) int { return g.Resizes.Times }),
	lang.IntFrom("resizeRefusedAge", lang.IntOf(Duration), "since the cycle of the last one", func(g *Group) time.Duration { return g.Resizes.Age }),
	lang.TextFrom("resizeRefusedFor", "why the last one was refused, as in attempt.refused", func(g *Group) Refusal { return g.Resizes.Last }),
	lang.TextFrom("resizeRefusedMessage", "what the API server said", func(g *Group) string { return g.Resizes.Message }),

	lang.IntFrom("unchanged", lang.Int, "consecutive evictions whose replacement kept its old resources",
		func(g *Group) int { return g.Unchanged }),
	lang.IntFrom("unchangedAge", lang.IntOf(Duration), "since the last of these evictions", func(g *Group) time.Duration { return g.UnchangedAge }))

// Refusals are answers of the API server in a row, with nothing carried out in between. Those to resizes that an eviction followed are
// not among them.
type Refusals struct {
	Times   int
	Age     time.Duration // since the last of them
	Last    Refusal
	Message string // what the API server said the last time
}

// or returns others where there are none.
func (r Refusals) or(others Refusals) Refusals {
	if r.Times == 0 {
		return others
	}
	return r
}

// Attempt is a resize that was tried.
type Attempt struct {
	// Refused is why the API server refused the resize tried a moment ago; empty = none was tried, or it was accepted.
	Refused Refusal
	Message string // what the API server said
	// Infeasible: one tried before was found to be more than the node has (AEP-8818), and NowLower that less is wanted now.
	Infeasible, NowLower bool
}

var attemptSchema = lang.Bind("Attempt",
	lang.TextFrom("refused",
		"why the API server just refused the resize: NodeCapacity, Quota, NotSupported, Invalid, Conflict, NotAnswered, Gone, NotPermitted or Forbidden; empty = it did not",
		func(a *Attempt) Refusal { return a.Refused }),
	lang.TextFrom("message", "what it said", func(a *Attempt) string { return a.Message }),
	lang.BoolFrom("infeasible", "a resize of this pod was infeasible on its node (AEP-8818)", func(a *Attempt) bool { return a.Infeasible }),
	lang.BoolFrom("nowLower", "less CPU or memory would be requested now than by that resize", func(a *Attempt) bool { return a.NowLower }))

// Refusal is a kind of answer to a resize or to an eviction.
type Refusal string

// The kinds of answers.
const (
	RefusedNodeCapacity Refusal = "NodeCapacity" // more than the node has (Kubernetes 1.36 and newer)
	RefusedBudget       Refusal = "Budget"       // a PodDisruptionBudget is against an eviction
	RefusedQuota        Refusal = "Quota"        // more than a ResourceQuota or a LimitRange of the namespace allows
	RefusedNotSupported Refusal = "NotSupported" // the node, or the API server, cannot resize such pods
	RefusedInvalid      Refusal = "Invalid"      // the pod may not be changed so
	RefusedConflict     Refusal = "Conflict"     // the pod was changed meanwhile
	RefusedNotAnswered  Refusal = "NotAnswered"  // the API server did not answer in time, or is too busy
	RefusedGone         Refusal = "Gone"         // there is no such pod any more
	RefusedNotPermitted Refusal = "NotPermitted" // this process may not resize pods
	RefusedForbidden    Refusal = "Forbidden"    // an admission policy is against it, or something else is
)
