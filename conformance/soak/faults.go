package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/faults"
)

// The faults, by what is printed.
const (
	callsFail     kind = "calls fail"     // a share of them, in all ways
	callsHang     kind = "calls hang"     // a share of them, until the client gives up
	watchesCut    kind = "watches cut"    // in the midst of a stream
	watchesGone   kind = "watches gone"   // 410: what they wanted to continue from is no longer there
	watchesReplay kind = "events again"   // the last ones of each watch
	watchesLate   kind = "events late"    // for seconds
	outage        kind = "outage"         // of the API server, as one component sees it
	killed        kind = "killed"         // SIGKILL, and a new process
	stopped       kind = "stopped"        // SIGSTOP, and SIGCONT after seconds
	serverRestart kind = "API restart"    // kube-apiserver is killed and started again
	metricsGone   kind = "metrics gone"   // metrics.k8s.io answers 503
	metricsFrozen kind = "metrics frozen" // its samples stay those of one moment
	metricsAbsurd kind = "metrics absurd" // its amounts are far too large

	machineBusy kind = "API slow" // nobody's intention: the machine is busy, and the soak's own probe waited

	// Those that come with the churn.
	rulesBroken    kind = "rules broken"    // a file of --rules-dir
	overlayInvalid kind = "overlay invalid" // a RuleOverlay
	objectsChange  kind = "churn"           // all the time: objects disappear between two requests
)

// keepNews are the faults after which a component may not know what has changed.
var keepNews = []kind{callsFail, callsHang, watchesCut, watchesGone, watchesReplay, watchesLate, outage, stopped, serverRestart, machineBusy}

// unavailable are the faults that keep a component from the API server.
var unavailable = []kind{callsFail, callsHang, outage, stopped, serverRestart, machineBusy, killed}

// plague has one fault after the other.
type plague struct {
	*soak
	random  *rand.Rand
	started time.Time
}

// ending are the faults that may end a life: killed by definition, and an API server that is away for long costs the lead. They
// occur in the first third only, so that the lives after them become long enough to judge.
var ending = []kind{killed, serverRestart}

// kinds are all that occur, in the order of a round.
func (p *plague) kinds() []kind {
	all := []kind{callsFail, callsHang, watchesCut, watchesGone, watchesReplay, watchesLate, outage, stopped, metricsGone, metricsFrozen, metricsAbsurd,
		serverRestart, killed, killed, killed}
	p.random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

// run goes on until the context ends; a restart of the API server goes on until whole does. The pause between two faults is as long
// as they last, on average: half of the time all is well.
func (p *plague) run(ctx, whole context.Context) error {
	var round []kind
	for {
		if !pause(ctx, time.Duration(1+p.random.IntN(10))*time.Second) {
			return nil
		}
		if len(round) == 0 {
			round = p.kinds()
		}
		what := round[0]
		round = round[1:]
		if slices.Contains(ending, what) && time.Since(p.started) > p.options.duration/3 {
			continue
		}
		var err error
		if what == serverRestart {
			err = p.restartServer(whole)
		} else {
			err = p.happen(ctx, what)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
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

// happen lets a fault happen to one component, or, if it is that of all, to all of them, and ends it.
func (p *plague) happen(ctx context.Context, what kind) error {
	c := p.components[p.random.IntN(len(p.components))]
	lasts := time.Duration(3000+p.random.IntN(5000)) * time.Millisecond
	end := func() {}
	switch what {
	case metricsGone, metricsFrozen, metricsAbsurd:
		say("fault: %s", what)
		lasts *= 2
	default:
		say("fault: %s, %s", what, c.name)
	}
	on := c.name
	if what == metricsGone {
		on = "" // all components
	}
	defer p.faults.begin(what, on)()
	var err error
	switch what {
	case callsFail:
		lasts *= 3
		end = c.proxy.Inject(faults.Fault{On: faults.Calls, Share: 0.01, Effects: []faults.Effect{faults.AnswerLater(http.StatusTooManyRequests, 1),
			faults.Answer(http.StatusInternalServerError), faults.Answer(http.StatusGatewayTimeout), faults.Reset(), faults.Lose()}})
		conflict := c.proxy.Inject(faults.Fault{On: writes, Share: 0.01, Effects: []faults.Effect{faults.Answer(http.StatusConflict)}})
		defer conflict()
	case callsHang:
		end = c.proxy.Inject(faults.Fault{On: faults.Calls, Share: 0.05, Effects: []faults.Effect{faults.Hang(), faults.Delay(time.Second)}})
	case watchesCut:
		c.proxy.CutWatches(nil)
		lasts = 0
	case watchesGone:
		if _, err := c.proxy.ExpireWatches(nil); err != nil {
			return err
		}
		end = c.proxy.Inject(faults.Fault{On: faults.Watches, Share: 0.5, Effects: []faults.Effect{faults.Answer(http.StatusGone)}})
	case watchesReplay:
		c.proxy.ReplayWatches(nil, 1+p.random.IntN(20))
		lasts = 0
	case watchesLate:
		end = c.proxy.HoldWatches(nil)
	case outage:
		var reopen func() error
		if reopen, err = c.proxy.Outage(); err != nil {
			return err
		}
		end = func() { err = reopen() }
	case killed:
		c.kill()
		lasts = restartAfter
	case stopped:
		if err := c.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		end = func() { err = c.signal(syscall.SIGCONT) }
	case metricsGone:
		var ends []func()
		for _, c := range p.components {
			ends = append(ends, c.proxy.Inject(faults.Fault{On: ofMetrics, Share: 1, Effects: []faults.Effect{faults.Answer(http.StatusServiceUnavailable)}}))
		}
		end = func() {
			for _, one := range ends {
				one()
			}
		}
	case metricsFrozen:
		end = p.usage.freeze()
	case metricsAbsurd:
		end = p.usage.exaggerate()
	}
	pause(ctx, lasts)
	end()
	return err
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
			p.faults.add(machineBusy, started, now)
		}
	}
}

func writes(r faults.Request) bool {
	return faults.Calls(r) && slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb)
}

func ofMetrics(r faults.Request) bool { return r.APIGroup == "metrics.k8s.io" }

// pause waits, and returns false if the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
