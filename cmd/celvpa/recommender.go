package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/recommender/oom"
	"github.com/celvpa/celvpa/controllers/recommender/usage"
	"github.com/celvpa/celvpa/controllers/target"
)

// The values of --storage. Upstream takes whatever is not prometheus for checkpoint.
const (
	checkpointStorage = "checkpoint"
	prometheusStorage = "prometheus"
)

// ignoredMinCheckpoints is the default of --min-checkpoints, which upstream no longer heeds either.
const ignoredMinCheckpoints = 10

// recommenderOptions are the flags of the recommender that are no params of rules.
type recommenderOptions struct {
	name        string
	interval    time.Duration
	unusedGrace time.Duration
	grace       time.Duration

	storage            string
	prometheus         history.Config
	checkpointTimeout  time.Duration
	checkpointInterval time.Duration
	minCheckpoints     int

	workers     int
	memorySaver bool
	tolerance   resource.Quantity

	external             bool
	externalCPUMetric    string
	externalMemoryMetric string
}

func (o *options) addRecommender(f *pflag.FlagSet) {
	r := &o.recommender
	f.StringVar(&r.name, "recommender-name", recommender.DefaultName, "serve VPAs that name this recommender; default also serves VPAs that name none")
	o.positive(f, &r.interval, "recommender-interval", time.Minute, "how often usage is sampled and recommendations are made")
	f.DurationVar(&r.unusedGrace, "unused-history-grace", model.UnusedGrace, "how long to keep usage of deleted pods that no VPA selects; upstream keeps it for 192h (celvpa's own)")
	f.DurationVar(&r.grace, "target-grace-period", 30*time.Minute, "how long to use the last known pods while a VPA's target cannot be read or does not exist any more (celvpa's own)")
	f.StringVar(&r.storage, "storage", "", "source of history at start-up: checkpoint or prometheus; empty = checkpoint")
	o.positive(f, &r.checkpointTimeout, "checkpoints-timeout", time.Minute, "maximum time for writing checkpoints in one cycle")
	o.positive(f, &r.checkpointInterval, "checkpoints-gc-interval", 10*time.Minute, "how often unneeded checkpoints are deleted")
	f.IntVar(&r.minCheckpoints, "min-checkpoints", ignoredMinCheckpoints, "ignored; accepted for upstream's manifests")
	f.IntVar(&r.workers, "update-worker-count", 10, "concurrent writes to the API server")
	f.BoolVar(&r.memorySaver, "memory-saver", false, "remember only pods that a VPA selects")
	f.Var(fraction{&r.tolerance}, "bounds-tolerance", "write a status for bounds alone only if one moved by more than this fraction, such as 0.01; targets are always written; 0 = write every digit, as upstream does (celvpa's own)")
	f.BoolVar(&r.external, "use-external-metrics", false, "read usage from external.metrics.k8s.io instead of metrics.k8s.io")
	f.StringVar(&r.externalCPUMetric, "external-metrics-cpu-metric", "", "external metric with the CPU cores that a container uses; empty = none")
	f.StringVar(&r.externalMemoryMetric, "external-metrics-memory-metric", "", "external metric with the bytes that a container uses; empty = none")
	history.AddFlags(f, &r.prometheus)
}

// check refuses what cannot work, and logs what is ignored.
func (r *recommenderOptions) check(log logr.Logger) error {
	switch r.storage {
	case "", checkpointStorage, prometheusStorage:
	default:
		log.Error(nil, "--storage has an unknown value; checkpoints are used, as upstream does", "given", r.storage, "known", []string{checkpointStorage, prometheusStorage})
	}
	if r.minCheckpoints != ignoredMinCheckpoints {
		log.Info("--min-checkpoints is ignored: a checkpoint is written when what it holds changed", "given", r.minCheckpoints)
	}
	if r.workers < 1 {
		return fmt.Errorf("--update-worker-count is %d; it must be at least 1", r.workers)
	}
	if r.unusedGrace < 0 {
		return fmt.Errorf("--unused-history-grace is %s; it must not be less than 0", r.unusedGrace)
	}
	if r.grace < 0 {
		return fmt.Errorf("--target-grace-period is %s; it must not be less than 0", r.grace)
	}
	if r.external && r.externalCPUMetric == "" && r.externalMemoryMetric == "" {
		return errors.New("--use-external-metrics needs --external-metrics-cpu-metric, --external-metrics-memory-metric or both")
	}
	return nil
}

func joinRecommender(ctx context.Context, o *options, source *policy.Source, p *process) error {
	log := ctrl.Log.WithName("recommender")
	flags := o.recommender
	if err := flags.check(log); err != nil {
		return err
	}
	namespaces := o.namespaces()
	ooms := oom.NewObserver(log, namespaces.Serve)
	evictions, err := p.watched(ctx, &corev1.EventList{}, &corev1.Event{}, log, "the cluster has no events: evictions under memory pressure go unnoticed",
		"evictions under memory pressure go unnoticed: allow this process to list and watch events")
	if err != nil {
		return err
	}
	// Before anything runs, and whoever leads: what happens before the first cycle is not missed.
	if err := ooms.Register(ctx, p.manager.GetCache(), evictions); err != nil {
		return err
	}
	tried, err := p.shadows("recommender")
	if err != nil {
		return err
	}
	limited := p.limited(o, nil)
	live, err := p.clientOf(limited)
	if err != nil {
		return fmt.Errorf("preparing the client that writes statuses and checkpoints: %w", err)
	}
	pages, err := recommender.NewPages(limited)
	if err != nil {
		return err
	}
	options := recommender.Options{
		Client:      p.manager.GetClient(),
		Live:        live,
		Pages:       pages,
		OOMs:        ooms.Drain,
		Targets:     &target.Selectors{Resolver: p.resolver, Clock: clock.RealClock{}, Grace: flags.grace},
		Rules:       source.Rules,
		Shadows:     tried,
		Decisions:   o.decisions("recommender"),
		Clock:       clock.RealClock{},
		Log:         log,
		Name:        flags.name,
		Interval:    flags.interval,
		Workers:     flags.workers,
		Namespaces:  namespaces,
		UnusedGrace: flags.unusedGrace,
		MemorySaver: flags.memorySaver,

		BoundsTolerance: flags.tolerance,
	}
	if flags.storage == prometheusStorage {
		flags.prometheus.Namespace = o.namespace
		if options.History, err = history.New(flags.prometheus, clock.RealClock{}, log); err != nil {
			return err
		}
	} else {
		options.Checkpoints = &recommender.Checkpoints{Timeout: flags.checkpointTimeout, Interval: flags.checkpointInterval}
	}
	r := recommender.New(options)
	r.Objects = p.objects
	if r.Source, err = flags.usage(o, p, r); err != nil {
		return err
	}
	p.explains.Recommender = r.Explain
	p.healthy = append(p.healthy, r.Healthy)
	return p.manager.Add(r)
}

// usage is where samples come from.
func (r *recommenderOptions) usage(o *options, p *process, by *recommender.Recommender) (usage.Source, error) {
	if !r.external {
		return usage.NewMetricsAPI(p.manager.GetConfig(), o.namespace)
	}
	metrics, err := usage.NewExternalClient(p.manager.GetConfig())
	if err != nil {
		return nil, err
	}
	return &usage.External{
		Client: metrics, CPUMetric: r.externalCPUMetric, MemoryMetric: r.externalMemoryMetric,
		ContainerLabel: r.prometheus.ContainerNameLabel, Workloads: by.Selected,
	}, nil
}
