package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/events"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/ondemand"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/slim"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine"
)

// part is one component: its flags, the points that it runs, and how it joins a process.
type part struct {
	address string // default of --address
	lease   string // default of --leader-elect-resource-name; empty for a part that every replica runs
	points  []string

	growth              int             // of its heap in percent, where it is alone in its process; 0 = the usual
	writesOverlayStatus bool            // it writes the status of RuleOverlays
	targetOnly          bool            // of recommendations it reads only the target
	templates           bool            // with gate CPUStartupBoost it reads the pod templates of those controllers
	reads               []client.Object // what it reads of all namespaces, besides VPAs and the controllers of pods

	flags func(*options, *cobra.Command)
	join  func(context.Context, *options, *policy.Source, *process) error
}

var (
	recommenderPart = part{
		address: ":8942", lease: "vpa-recommender-lease",
		points: []string{facts.UsageWindow, facts.UsageOOM, facts.ContainerPolicy, facts.ContainerSelect, facts.ContainerEstimate, facts.ContainerRecommend, facts.PodRecommend, facts.VPAOrder}, writesOverlayStatus: true, reads: []client.Object{&corev1.Pod{}},
		flags: func(o *options, c *cobra.Command) { o.addRecommender(c.Flags()) },
		join:  joinRecommender,
	}
	updaterPart = part{
		address: ":8943", lease: "vpa-updater",
		points: []string{facts.VPAUpdate, facts.VPAOrder, facts.ContainerPolicy, facts.PodValidate, facts.PodAdmit, facts.PodFit, facts.PodResources, facts.PodPriority, facts.PodUpdate, facts.PodRefused, facts.PodEvicted, facts.PodUnboost}, reads: []client.Object{&corev1.Pod{}, &corev1.LimitRange{}},
		flags: func(o *options, c *cobra.Command) { o.addUpdater(c.Flags()) },
		join:  joinUpdater, growth: updaterGrowth, templates: true,
	}
	admissionPart = part{
		address: ":8944",
		points:  []string{facts.VPAValidate, facts.VPADefault, facts.VPAOrder, facts.ContainerPolicy, facts.PodValidate, facts.PodAdmit, facts.PodFit, facts.PodResources}, reads: []client.Object{&corev1.LimitRange{}},
		flags: func(o *options, c *cobra.Command) { o.addAdmission(c.Flags()) },
		join:  joinAdmission, targetOnly: true,
	}
)

// componentCommand makes a command that runs parts in one process until it is stopped.
func componentCommand(name, short string, parts ...part) *cobra.Command {
	o := &options{program: "celvpa"}
	if isComponent(name) {
		o.program = "vpa-" + name
	}
	cmd := &cobra.Command{Use: name, Short: short, Example: componentExamples[name], Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.Root().ResetCommands() // the flags of the others take half a megabyte
		// Components have something to put in order when they are stopped; all other commands end on the first signal. The second
		// one ends these, too.
		ctx, usual := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer usual()
		context.AfterFunc(ctx, usual)
		return runParts(ctx, o, parts)
	}
	cmd.Flags().SetNormalizeFunc(normalize)
	o.addCommon(cmd.Flags(), parts[0].address)
	if lease := parts[0].lease; lease != "" {
		o.addLeader(cmd.Flags(), lease)
	}
	for _, p := range parts {
		p.flags(o, cmd)
		o.rules.points = append(o.rules.points, p.points...) // the rules of other points cost memory, and time to start
	}
	addLogging(cmd.Flags())
	addVersionFlag(cmd)
	o.rules.addParams(cmd.Flags(), o.rules.points...)
	return cmd
}

func runParts(ctx context.Context, o *options, parts []part) error {
	growth := usualGrowth
	if len(parts) == 1 {
		growth = cmp.Or(parts[0].growth, usualGrowth)
	}
	thrift := saveMemory(growth)
	if o.profiling {
		runtime.MemProfileRate = profileRate
	}
	if o.namespace != "" && o.ignoredNamespaces != "" {
		return errors.New("--vpa-object-namespace and --ignored-vpa-object-namespaces exclude each other: give one")
	}
	if err := o.checkDurations(); err != nil {
		return err
	}
	if err := o.leader.check(); err != nil {
		return err
	}
	if o.burst < 0 {
		return fmt.Errorf("--kube-api-burst is %d; it must not be less than 0", o.burst)
	}
	if o.decisionsKept < 0 {
		return fmt.Errorf("--decisions-kept is %d; it must not be less than 0", o.decisionsKept)
	}
	if err := setupLogging(o.logFormat); err != nil {
		return err
	}
	policyOptions, err := o.rules.options(o.rules.dir)
	if err != nil {
		return err
	}
	var objects *ondemand.Objects
	policyOptions.Labels = policy.LabelsOf(func() facts.Objects { return objects }) // once all is prepared
	source, err := policy.NewSource(policyOptions, o.rulesReload, clock.RealClock{}, ctrl.Log.WithName("rules"))
	if err != nil {
		return fmt.Errorf("the rules cannot be used:\n%w", err)
	}
	ctrl.Log.Info("starting", o.started(source.Rules().Default())...)
	var reads []client.Object
	for _, p := range parts {
		reads = append(reads, p.reads...)
	}
	kept := slim.ByObject(!slices.ContainsFunc(parts, func(p part) bool { return !p.targetOnly }))
	if policyOptions.Gates[gateBoost] && slices.ContainsFunc(parts, func(p part) bool { return p.templates }) {
		slim.KeepTemplates(kept)
	}
	proc, err := newProcess(ctx, o, reads, kept)
	if err != nil {
		return err
	}
	objects = proc.objects
	overlays, err := proc.followOverlays(ctx, source, ctrl.Log.WithName("rules"))
	if err != nil {
		return err
	}
	if err := proc.manager.Add(source); err != nil {
		return err
	}
	if overlays && slices.ContainsFunc(parts, func(p part) bool { return p.writesOverlayStatus }) && o.recommender.name == recommender.DefaultName {
		status := &policy.OverlayStatus{Client: proc.manager.GetClient(), Source: source, Every: o.rulesReload, Clock: clock.RealClock{}, Log: ctrl.Log.WithName("rules")}
		if err := proc.manager.Add(status); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if err := p.join(ctx, o, source, proc); err != nil {
			return err
		}
	}
	if err := proc.explain(o); err != nil {
		return err
	}
	if thrift != nil {
		if err := proc.manager.Add(thrift); err != nil {
			return err
		}
	}
	return proc.start(ctx, o.webhook.shutdownDelay)
}

// started is what the first line of the log says.
func (o *options) started(rules *engine.Plan) []any {
	out := []any{"version", newBuildInfo().Version, "pipeline", rules.Pipeline(), "digest", rules.Digest()}
	if every := o.recommender.interval; every > 0 {
		out = append(out, "recommenderInterval", every.String())
	}
	if every := o.updater.interval; every > 0 {
		out = append(out, "updaterInterval", every.String())
	}
	return out
}

// shadows records for one component what overlays that are not enforced would change. Its recorder is the one of the component.
func (p *process) shadows(component string) (*policy.Shadows, error) {
	log := ctrl.Log.WithName(component)
	recorder, err := p.events("vpa-"+component, log)
	return &policy.Shadows{Component: component, Recorder: recorder, Clock: clock.RealClock{}, Log: log}, err
}

// live is a client without cache, for what one component writes. Its requests share one limit, that of --kube-api-qps, whatever
// they are about: controller-runtime's own have one for each client and kind. wrap may be nil.
func (p *process) live(o *options, wrap transport.WrapperFunc) (client.Client, error) {
	return p.clientOf(p.limited(o, wrap))
}

// limited configures clients that share one limit.
func (p *process) limited(o *options, wrap transport.WrapperFunc) *rest.Config {
	config := rest.CopyConfig(p.manager.GetConfig())
	if o.qps > 0 {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.qps, cmp.Or(o.burst, rest.DefaultBurst))
	}
	if wrap != nil {
		config.Wrap(wrap)
	}
	return config
}

func (p *process) clientOf(config *rest.Config) (client.Client, error) {
	return client.New(config, client.Options{Scheme: p.manager.GetScheme(), Mapper: p.manager.GetRESTMapper()})
}

// What the events of a component may ask of the API server, beside --kube-api-qps: two come of each eviction.
const (
	eventQPS   = 100
	eventBurst = 200
)

// events writes events of a component, under the name that users see, by a client of their own, so that nothing waits for them,
// nor they for anything.
func (p *process) events(name string, log logr.Logger) (*events.Writer, error) {
	config := rest.CopyConfig(p.manager.GetConfig())
	config.QPS, config.Burst = eventQPS, eventBurst
	client, err := events.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the client of events: %w", err)
	}
	recorder := events.New(client, p.manager.GetScheme(), name, clock.RealClock{}, log)
	return recorder, p.manager.Add(recorder)
}

// decisions keeps the last decisions of one component.
func (o *options) decisions(component string) *answers.Log {
	return answers.NewLog(answers.LogOptions{Component: component, Kept: o.decisionsKept, Logged: o.logDecisions, Log: ctrl.Log.WithName(component)})
}

func (o *options) namespaces() target.Namespaces {
	return target.Namespaces{Only: o.namespace, Ignored: target.SplitNamespaces(o.ignoredNamespaces)}
}
