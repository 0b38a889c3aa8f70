// Package updater brings running pods to their recommendation. A cycle (run.go) gives each pod to
// the VPA that controls it (assign.go) and runs a podupdate.Step over the pods of each VPA
// (workload.go), which asks the rules about one pod after the other. What it decides is carried out
// (actuator.go) with package actuation: the pod is resized in place or evicted. Refusals of the API
// server and evictions without effect become facts of the next cycle through podupdate.Memory. Beside
// the cycles, Boosts (boosts.go) end startup boosts, with the same memory. All policy is in the rules.
package updater

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/notice"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/turns"
	"github.com/celvpa/celvpa/controllers/updater/actuation"
	"github.com/celvpa/celvpa/engine/compile"
)

// Options configure an Updater; all fields but Admission, Concurrent, FirstCycle, Limits and Outdated are required.
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
	Objects    facts.Objects // nil = nothing is known
	// FirstCycle is how many pods the first cycle may evict, or restart by a resize; every cycle
	// that needs more doubles it for the next. 0 or less = unlimited.
	FirstCycle int
	// Admission returns an error when the status lease of the admission controller has expired; nil
	// skips the check.
	Admission func(context.Context) error
	Decisions *answers.Log // nil = none are kept
	// Outdated says why the cache may lack what changed in the cluster, or why another replica may lead; empty = neither.
	// nil = it never does.
	Outdated func() string
}

// Updater runs cycles over all pods of all VPAs while its replica leads.
type Updater struct {
	*cycle.Loop
	Options

	// Remembered from cycle to cycle; safe for concurrent use.
	memory           podupdate.Memory
	unmarked         sync.Map // by UID, a mark for each resized pod whose annotations do not say so yet
	reported         notice.Board
	conditionRefused atomic.Pointer[time.Time] // when the API server last refused a condition for lack of permission; nil = never
	first            firstCycles
	recorded         sync.Map                             // by UID of a pod, the last decision that was recorded
	postponed        atomic.Pointer[map[types.UID]string] // pods that the last cycle left to the next one, with the reason

	boosts *Boosts // nil = nothing ends startup boosts

	// State of the cycle; cycles do not overlap.
	turns    turns.Turns       // of those whose pods took a request
	waited   map[types.UID]int // consecutive cycles in which a VPA got nothing
	known    map[types.NamespacedName]bool
	tallies  tallies
	restored bool // the first cycle has read back what conditions say
}

// busy reports whether a pod was evicted or resized and the cache does not show it yet.
func (u *Updater) busy(pod *corev1.Pod) bool {
	return u.memory.IsGone(pod.UID, u.Clock.Now()) || u.memory.ResizeUnseen(pod, u.Clock.Now())
}

// New returns an updater.
func New(o Options) *Updater {
	u := &Updater{Options: o, first: firstCycles{limit: max(o.FirstCycle, 0)}}
	u.Loop = cycle.New("updater", o.Interval, o.Clock, func(ctx context.Context) {
		latency.Time("total", func() { u.RunOnce(ctx) })
	})
	return u
}
