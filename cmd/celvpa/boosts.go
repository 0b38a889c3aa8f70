package main

import (
	"context"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/updater"
	"github.com/celvpa/celvpa/controllers/updater/actuation"
	"github.com/celvpa/celvpa/controllers/updater/boosts"
)

// gateBoost is the feature gate without which nothing is there that ends startup boosts: no index, no handler, no worker.
const gateBoost = "CPUStartupBoost"

// joinBoosts makes the updater end startup boosts. Both share the budgets of workloads. u must not have been started.
func joinBoosts(ctx context.Context, o *options, source *policy.Source, p *process, actuator actuation.Actuator, tried *policy.Shadows, limits updater.Limits, u *updater.Updater) error {
	gates, err := parseGates(o.rules.gates)
	if err != nil || !gates[gateBoost] {
		return err
	}
	if err := boosts.Index(ctx, p.manager.GetFieldIndexer()); err != nil {
		return err
	}
	var turn func(context.Context) error
	if limits.Resizes != nil {
		turn = limits.Resizes.Wait
	}
	ender := &boosts.Controller{
		Cache:      p.manager.GetCache(),
		Client:     p.manager.GetClient(),
		Actuator:   actuator,
		Resolver:   p.resolver,
		Rules:      source.Rules,
		Shadows:    tried,
		Namespaces: o.namespaces(),
		Workers:    o.updater.boostSyncs,
		Turn:       turn,
		Clock:      clock.RealClock{},
		Log:        ctrl.Log.WithName("updater"),
		Beside:     u.Busy,
		Decisions:  u.Decisions,
	}
	u.Beside, u.Unboost = ender.Ending, ender.Preview
	return p.manager.Add(ender)
}
