package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/freshness"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/statuslease"
	"github.com/celvpa/celvpa/controllers/updater"
	"github.com/celvpa/celvpa/controllers/updater/actuation"
)

// updaterOptions are the flags of the updater that are no params of rules.
type updaterOptions struct {
	interval   time.Duration
	concurrent int
	rate       float64
	burst      int
	firstCycle int
	boostSyncs int

	admissionStatus admissionStatusOptions
}

// admissionStatusOptions say how the updater finds out whether admission is alive.
type admissionStatusOptions struct {
	use            bool
	leaseName      string
	leaseNamespace string
	leaseTimeout   time.Duration
}

func (o *options) addUpdater(f *pflag.FlagSet) {
	u := &o.updater
	o.positive(f, &u.interval, "updater-interval", time.Minute, "how often running pods are compared with their recommendation")
	f.IntVar(&u.concurrent, "concurrent-updates", 50, "VPAs whose pods are evicted and resized concurrently (celvpa's own)")
	f.Float64Var(&u.rate, "eviction-rate-limit", -1, "evictions a second, and resizes a second; 0 or less = unlimited")
	f.IntVar(&u.burst, "eviction-rate-burst", 1, "burst of evictions, and of resizes, with --eviction-rate-limit")
	f.IntVar(&u.firstCycle, "first-cycle-evictions", 0, "maximum pods to evict, or restart by a resize, in the first cycle; whenever a cycle needs more, the next has twice the limit; 0 or less = unlimited (celvpa's own)")
	f.IntVar(&u.boostSyncs, "concurrent-cpu-startup-boost-syncs", 1, "concurrent ends of startup boosts, with gate CPUStartupBoost")
	a := &u.admissionStatus
	f.BoolVar(&a.use, "use-admission-controller-status", true, "pause evictions while the admission controller's status lease is expired")
	f.StringVar(&a.leaseName, "admission-controller-status-lease-name", "vpa-admission-controller", "name of the status lease to check")
	f.StringVar(&a.leaseNamespace, "admission-controller-status-lease-namespace", "", "its namespace; empty = $NAMESPACE or kube-system")
	o.positive(f, &a.leaseTimeout, "admission-controller-status-lease-timeout", time.Minute, "age at which the status lease is expired")
}

// check refuses what cannot work.
func (u *updaterOptions) check() error {
	switch {
	case u.concurrent < 1:
		return fmt.Errorf("--concurrent-updates is %d; it must be at least 1", u.concurrent)
	case u.boostSyncs < 1:
		return fmt.Errorf("--concurrent-cpu-startup-boost-syncs is %d; it must be at least 1", u.boostSyncs)
	case math.IsNaN(u.rate):
		return fmt.Errorf("--eviction-rate-limit is %g; give a number of evictions a second, or -1 for no limit", u.rate)
	case u.rate > 0 && u.burst < 1:
		return fmt.Errorf("--eviction-rate-burst is %d, with which --eviction-rate-limit=%g would let no pod be evicted; it must be at least 1", u.burst, u.rate)
	}
	return nil
}

func joinUpdater(ctx context.Context, o *options, source *policy.Source, p *process) error {
	flags, log := o.updater, ctrl.Log.WithName("updater")
	if err := flags.check(); err != nil {
		return err
	}
	var admissionAlive func(context.Context) error
	if a := flags.admissionStatus; a.use {
		checker := &statuslease.Checker{
			Client: p.manager.GetAPIReader(), Key: client.ObjectKey{Namespace: namespaceOr(a.leaseNamespace), Name: a.leaseName},
			Timeout: a.leaseTimeout, Clock: clock.RealClock{},
		}
		admissionAlive = checker.Alive
	}
	writes, err := p.live(o, func(next http.RoundTripper) http.RoundTripper { return freshness.Guard(impatient{next}, p.outdated) })
	if err != nil {
		return fmt.Errorf("preparing the client that evicts and resizes: %w", err)
	}
	tried, err := p.shadows("updater")
	if err != nil {
		return err
	}
	u := updater.New(updater.Options{
		Admission:  admissionAlive,
		Client:     p.manager.GetClient(),
		Pods:       p.pods.List,
		Actuator:   actuation.Actuator{Client: writes, Recorder: tried.Recorder},
		Resolver:   p.resolver,
		Rules:      source.Rules,
		Shadows:    tried,
		Clock:      clock.RealClock{},
		Log:        log,
		Interval:   flags.interval,
		Namespaces: o.namespaces(),
		Objects:    p.objects,
		Concurrent: flags.concurrent,
		Limits:     updater.NewLimits(flags.rate, flags.burst),
		FirstCycle: flags.firstCycle,
		Decisions:  o.decisions("updater"),
		Outdated:   p.outdated,
	})
	p.explains.Updater = u.Explain
	p.healthy = append(p.healthy, u.Healthy)
	if err := p.manager.Add(u); err != nil {
		return err
	}
	return endBoosts(ctx, o, p, u)
}

// gateBoost is the feature gate without which nothing is there that ends startup boosts: no index, no handler, no worker.
const gateBoost = "CPUStartupBoost"

// endBoosts makes the updater end startup boosts. u must not have been started.
func endBoosts(ctx context.Context, o *options, p *process, u *updater.Updater) error {
	gates, err := parseGates(o.rules.gates)
	if err != nil || !gates[gateBoost] {
		return err
	}
	boosts, err := u.EndBoosts(ctx, p.manager.GetFieldIndexer(), p.manager.GetCache(), o.updater.boostSyncs)
	if err != nil {
		return err
	}
	return p.manager.Add(boosts)
}

// impatient keeps client-go from waiting for a PodDisruptionBudget that the API server has not looked at yet: of that it says to
// come back in 10 s, which client-go does ten times, while other evictions wait. The next cycle comes back, too. What an API
// server says that has too much to do is in plain text, and heeded.
type impatient struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i impatient) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := i.next.RoundTrip(request)
	if err == nil && answer.StatusCode == http.StatusTooManyRequests && strings.HasSuffix(request.URL.Path, "/eviction") &&
		!strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain") {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}
