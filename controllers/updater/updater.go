package updater

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/controllers/decisions"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/podupdate/remembered"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/turns"
	"github.com/celvpa/celvpa/controllers/updater/actuation"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// Options configure an Updater; all fields but Admission, Beside, Concurrent, FirstCycle, Limits
// and Outdated are required.
type Options struct {
	Client client.Reader // a cache
	// Pods are all pods of the cache, in any order. They are not changed.
	Pods       func() []*corev1.Pod
	Actuator   actuation.Actuator
	Resolver   *target.Resolver
	Rules      func() *compile.Rulebook // the rules in force, read once a cycle
	Shadows    *policy.Shadows
	Clock      clock.WithTicker
	Log        logr.Logger
	Interval   time.Duration // between the starts of two cycles, and the deadline of each
	Namespaces target.Namespaces
	Concurrent int // VPAs that are processed in parallel; 0 = one. The pods of a VPA are processed in sequence
	Limits     Limits
	// FirstCycle is how many pods the first cycle may evict, or restart by a resize; every cycle
	// that needs more doubles it for the next. 0 or less = unlimited.
	FirstCycle int
	// Admission returns an error when the status lease of the admission controller has expired; nil
	// skips the check.
	Admission func(context.Context) error
	Decisions *decisions.Log // nil = none are kept
	// Outdated says why the cache may lack what changed in the cluster, or why another replica may lead; empty = neither.
	// nil = it never does.
	Outdated func() string
	// Beside reports whether another actor, such as boosts.Controller, is changing a pod, which then counts as
	// disrupted; nil = none.
	Beside func(*corev1.Pod) bool
	// Unboost previews the end of a pod's startup boost for Explain, as boosts.Controller does; nil =
	// nothing ends boosts.
	Unboost func(ctx context.Context, pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, plan *engine.Plan, ending int, trace *engine.Trace) (*podupdate.Pod, engine.Verdict, error)
}

// Updater runs cycles over all pods of all VPAs while its replica leads.
type Updater struct {
	*cycle.Loop
	Options

	// Remembered from cycle to cycle; safe for concurrent use.
	memory     podupdate.Memory
	unmarked   remembered.Memory[types.UID, mark] // resized pods whose annotations do not say so yet
	reported   remembered.Reported
	conditions conditions
	first      firstCycles
	recorded   remembered.Memory[types.UID, recorded]
	postponed  atomic.Pointer[map[types.UID]string] // pods that the last cycle left to the next one, with the reason

	// State of the cycle; cycles do not overlap.
	turns    turns.Turns       // of those whose pods took a request
	waited   map[types.UID]int // consecutive cycles in which a VPA got nothing
	known    map[types.NamespacedName]bool
	tallies  tallies
	restored bool // the first cycle has read back what conditions say
}

// Busy reports whether a pod was evicted or resized and the cache does not show it yet.
func (u *Updater) Busy(pod *corev1.Pod) bool {
	return u.memory.Breaker.IsGone(pod.UID, u.Clock.Now()) || u.memory.Sent.Unseen(pod, u.Clock.Now())
}

// New returns an updater.
func New(o Options) *Updater {
	u := &Updater{Options: o, first: firstCycles{limit: max(o.FirstCycle, 0)}}
	u.Loop = cycle.New("updater", o.Interval, o.Clock, func(ctx context.Context) {
		latency.Time("total", func() { u.RunOnce(ctx) })
	})
	return u
}
