package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/faults"
)

// kind names a fault.
type kind string

// The faults, by what is printed.
const (
	callsFail     kind = "calls fail"   // a share of them, in all ways
	watchesCut    kind = "watches cut"  // in the midst of a stream
	watchesGone   kind = "watches gone" // 410: what they wanted to continue from is no longer there
	watchesReplay kind = "events again" // the last ones of each watch
	watchesLate   kind = "events late"  // for seconds
	outage        kind = "outage"       // of the API server, as one component sees it
	killed        kind = "killed"       // SIGKILL, and a new process
	serverRestart kind = "API restart"  // kube-apiserver is killed and started again
	metricsGone   kind = "metrics gone" // metrics.k8s.io answers 503
	machineBusy   kind = "API slow"     // nobody's intention: the machine is busy, and the soak's own probe waited

	// Those that come with the churn.
	rulesBroken    kind = "rules broken"    // a file of --rules-dir
	overlayInvalid kind = "overlay invalid" // a RuleOverlay
)

// keepNews are the faults after which a component may not know what has changed.
var keepNews = []kind{callsFail, watchesCut, watchesGone, watchesReplay, watchesLate, outage, serverRestart, machineBusy}

// unavailable are the faults that keep a component from the API server.
var unavailable = []kind{callsFail, outage, serverRestart, machineBusy, killed}

// plague has one fault after the other.
type plague struct {
	*soak
	random  *rand.Rand
	started time.Time
}

// round are all faults, in the order of a round.
func (p *plague) round() []kind {
	all := []kind{callsFail, callsFail, watchesCut, watchesGone, watchesReplay, watchesLate, outage, metricsGone, serverRestart, killed, killed, killed}
	p.random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

// run goes on until the context ends; a restart of the API server goes on until whole does. The pause between two faults is as long
// as they last, on average: half of the time all is well. Faults that may end a life occur in the first third only, so that the lives
// after them become long enough to judge: an API server that is away for long costs the lead.
func (p *plague) run(ctx, whole context.Context) error {
	for {
		for _, fault := range p.round() {
			if !pause(ctx, time.Duration(1+p.random.IntN(10))*time.Second) {
				return nil
			}
			if (fault == killed || fault == serverRestart) && time.Since(p.started) > p.options.duration/3 {
				continue
			}
			happen := p.happen
			if fault == serverRestart {
				happen = func(context.Context, kind) error { return p.restartServer(whole) }
			}
			if err := happen(ctx, fault); err != nil {
				return fmt.Errorf("%s: %w", fault, err)
			}
		}
	}
}

// restartServer kills the API server and starts it again.
func (p *plague) restartServer(ctx context.Context) error {
	defer p.faults.begin(serverRestart, "")()
	say("fault: %s", serverRestart)
	err := p.lab.Restart(ctx, "kube-apiserver")
	if err == nil {
		return nil
	}
	say("%s; waiting for it", err) // a minute is not enough on a busy machine
	answers := try(ctx, func(ctx context.Context) error {
		return p.cluster.Get(ctx, client.ObjectKey{Name: system}, &corev1.Namespace{})
	})
	if answers != nil {
		return errors.Join(err, answers)
	}
	return nil
}

// happen lets a fault happen to one component, and ends it.
func (p *plague) happen(ctx context.Context, fault kind) error {
	c := p.components[p.random.IntN(len(p.components))]
	lasts := time.Duration(3000+p.random.IntN(5000)) * time.Millisecond
	say("fault: %s, %s", fault, c.name)
	defer p.faults.begin(fault, c.name)()
	inject := func(on faults.Match, share float64, effects ...faults.Effect) (end func()) {
		return c.proxy.Inject(faults.Fault{On: on, Share: share, Effects: effects})
	}
	switch fault {
	case callsFail:
		lasts *= 3
		defer inject(faults.Calls, 0.01, faults.AnswerLater(http.StatusTooManyRequests, 1), faults.Answer(http.StatusInternalServerError),
			faults.Answer(http.StatusGatewayTimeout), faults.Reset(), faults.Lose())()
		defer inject(faults.Calls, 0.02, faults.Hang(), faults.Delay(time.Second))()
		defer inject(writes, 0.01, faults.Answer(http.StatusConflict))()
	case watchesCut:
		c.proxy.CutWatches(nil)
		return nil
	case watchesGone:
		if _, err := c.proxy.ExpireWatches(nil); err != nil {
			return err
		}
		defer inject(faults.Watches, 0.5, faults.Answer(http.StatusGone))()
	case watchesReplay:
		c.proxy.ReplayWatches(nil, 1+p.random.IntN(20))
		return nil
	case watchesLate:
		defer c.proxy.HoldWatches(nil)()
	case outage:
		reopen, err := c.proxy.Outage()
		if err != nil {
			return err
		}
		pause(ctx, lasts)
		return reopen()
	case killed:
		c.kill()
		lasts = restartAfter
	case metricsGone:
		lasts *= 2
		defer inject(ofMetrics, 1, faults.Answer(http.StatusServiceUnavailable))()
	}
	pause(ctx, lasts)
	return nil
}

// How late a timer may be, and what a request that costs next to nothing may take, on a machine that is not busy.
const (
	timely = 200 * time.Millisecond
	quick  = time.Second
)

// probe finds out when others use the machine so much that requests may take longer than they should. It asks for itself, not
// through a proxy.
func (p *plague) probe(ctx context.Context) {
	for {
		started := time.Now()
		if !pause(ctx, time.Second) {
			return
		}
		woken := time.Now()
		_ = p.cluster.Get(ctx, client.ObjectKey{Name: system}, &corev1.Namespace{}) // how long it takes is what counts
		if now := time.Now(); woken.Sub(started) > time.Second+timely || now.Sub(woken) > quick {
			p.faults.add(fault{kind: machineBusy, from: started, to: now})
		}
	}
}

func writes(r faults.Request) bool {
	return faults.Calls(r) && slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb)
}

func ofMetrics(r faults.Request) bool { return r.APIGroup == "metrics.k8s.io" }

// fault is something that goes wrong for a while.
type fault struct {
	kind     kind
	on       string // a component; empty = all
	from, to time.Time
}

// faultLog is what went wrong when.
type faultLog struct {
	mu   sync.Mutex
	list []*fault
}

// begin takes note of a fault until end is called.
func (l *faultLog) begin(kind kind, on string) (end func()) {
	added := l.add(fault{kind: kind, on: on, from: time.Now(), to: never})
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		added.to = time.Now()
	})
}

func (l *faultLog) add(f fault) *fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, &f)
	return &f
}

var never = time.Unix(1<<40, 0)

// during reports whether a fault of some kinds was in force on a component at a moment, or ended less than after before it.
func (l *faultLog) during(kinds []kind, on string, at time.Time, after time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.list, func(f *fault) bool {
		return slices.Contains(kinds, f.kind) && (f.on == "" || f.on == on) && !at.Before(f.from) && at.Before(f.to.Add(after))
	})
}

// counts are how often each kind occurred.
func (l *faultLog) counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int{}
	for _, f := range l.list {
		out[string(f.kind)]++
	}
	return out
}

// What a component may not know yet: what happened in the last seconds, and what happened since a fault that kept news from it.
const (
	newsTake = 10 * time.Second
	// A reflector waits for up to a minute before it tries again.
	newsReturnWithin = time.Minute
)

// known is the begin of what a component may not know at a moment.
func (l *faultLog) known(on string, at time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := at
	for _, f := range l.list {
		keepsNews := slices.Contains(keepNews, f.kind) && (f.on == "" || f.on == on)
		if keepsNews && f.from.Before(at) && at.Before(f.to.Add(newsReturnWithin)) && f.from.Before(out) {
			out = f.from
		}
	}
	return out.Add(-newsTake)
}
