package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	labelsyntax "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/statuslease"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/webhook"
)

// part is one component: its flags, the points that it runs, and how it joins a process.
type part struct {
	address string // default of --address
	lease   string // default of --leader-elect-resource-name; empty for a part that every replica runs
	points  []string

	reviews       bool            // it answers admission reviews
	gcPercent     int             // see saveMemory; 0 = the usual
	tellsOverlays bool            // it writes the status of RuleOverlays
	reads         []client.Object // what it reads of all namespaces, besides VPAs and the controllers of pods

	flags func(*options, *cobra.Command)
	join  func(context.Context, *options, *policy.Source, *process) error
}

var (
	recommenderPart = part{
		address: ":8942", lease: "vpa-recommender-lease",
		points: []string{facts.UsageWindow, facts.UsageOOM, facts.ContainerSelect, facts.ContainerEstimate, facts.ContainerRecommend, facts.PodRecommend}, tellsOverlays: true, reads: []client.Object{&corev1.Pod{}},
		flags: func(o *options, c *cobra.Command) { o.addRecommender(c.Flags()) },
		join:  joinRecommender,
	}
	updaterPart = part{
		address: ":8943", lease: "vpa-updater",
		points: []string{facts.VPAUpdate, facts.PodFit, facts.PodResources, facts.PodPriority, facts.PodUpdate, facts.PodUnboost}, reads: []client.Object{&corev1.Pod{}, &corev1.LimitRange{}},
		flags: func(o *options, c *cobra.Command) { o.addUpdater(c.Flags()) },
		join:  joinUpdater, gcPercent: updaterPercent,
	}
	admissionPart = part{
		address: ":8944",
		points:  []string{facts.VPAValidate, facts.VPADefault, facts.PodValidate, facts.PodAdmit, facts.PodFit, facts.PodResources}, reads: []client.Object{&corev1.LimitRange{}}, reviews: true,
		flags: func(o *options, c *cobra.Command) { o.addAdmission(c.Flags()) },
		join:  joinAdmission,
	}
)

// componentCommand makes a command that runs parts in one process until it is stopped.
func componentCommand(name, short string, parts ...part) *cobra.Command {
	o := &options{params: paramFlags{}}
	cmd := &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs}
	library, err := policy.Shipped()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err != nil {
			return fmt.Errorf("the shipped rules are broken:\n%w", err)
		}
		return runParts(cmd.Context(), o, parts)
	}
	cmd.Flags().SetNormalizeFunc(normalize)
	o.addCommon(cmd.Flags(), parts[0].address)
	if lease := parts[0].lease; lease != "" {
		o.addLeader(cmd.Flags(), lease)
	}
	var points []string
	for _, p := range parts {
		p.flags(o, cmd)
		points = append(points, p.points...)
	}
	addLogging(cmd.Flags())
	if err == nil {
		err = o.params.add(cmd.Flags(), library, points...)
	}
	return cmd
}

func runParts(ctx context.Context, o *options, parts []part) error {
	percent := gcPercent
	if len(parts) == 1 {
		percent = cmp.Or(parts[0].gcPercent, gcPercent)
	}
	thrift := saveMemory(percent, slices.ContainsFunc(parts, func(p part) bool { return p.reviews }))
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
	if err := setupLogging(o.logFormat); err != nil {
		return err
	}
	policyOptions, err := o.policyOptions()
	if err != nil {
		return err
	}
	for _, p := range parts { // the rules of other points cost memory, and time to start
		policyOptions.Points = append(policyOptions.Points, p.points...)
	}
	source, err := policy.NewSource(policyOptions, o.rulesReload, clock.RealClock{}, ctrl.Log.WithName("rules"))
	if err != nil {
		return fmt.Errorf("the rules cannot be used:\n%w", err)
	}
	var reads []client.Object
	for _, p := range parts {
		reads = append(reads, p.reads...)
	}
	proc, err := newProcess(ctx, o, reads)
	if err != nil {
		return err
	}
	overlays, err := proc.followOverlays(ctx, source, ctrl.Log.WithName("rules"))
	if err != nil {
		return err
	}
	if err := proc.manager.Add(source); err != nil {
		return err
	}
	if overlays && slices.ContainsFunc(parts, func(p part) bool { return p.tellsOverlays }) && o.recommender.name == recommender.DefaultName {
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
	if thrift != nil {
		if err := proc.manager.Add(thrift); err != nil {
			return err
		}
	}
	ctrl.Log.Info("starting", "pipeline", source.Rules().Default().Pipeline(), "digest", source.Rules().Default().Digest())
	return proc.start(ctx)
}

// shadows records for one component what overlays that are not enforced would change.
func shadows(p *process, component string) *policy.Shadows {
	return &policy.Shadows{Component: component, Recorder: p.manager.GetEventRecorder("vpa-" + component), Clock: clock.RealClock{}, Log: ctrl.Log.WithName(component)}
}

func (o *options) namespaces() target.Namespaces {
	return target.Namespaces{Only: o.namespace, Ignored: target.SplitNamespaces(o.ignoredNamespaces)}
}

func joinAdmission(ctx context.Context, o *options, source *policy.Source, p *process) error {
	w, log := o.webhook, ctrl.Log.WithName("admission")
	registration, host, err := w.registration(o.namespaces())
	if err != nil {
		return err
	}
	config, err := webhook.TLSConfig(w.minTLS, w.ciphers, log)
	if err != nil {
		return err
	}
	certs, err := w.certificates(host, log)
	if err != nil {
		return err
	}
	if err := p.manager.Add(certs); err != nil {
		return err
	}
	config.GetCertificate = certs.GetCertificate
	hpas, err := p.watched(ctx, &autoscalingv2.HorizontalPodAutoscalerList{}, &autoscalingv2.HorizontalPodAutoscaler{}, log,
		"the cluster has no HorizontalPodAutoscalers in autoscaling/v2: none are warned about",
		"HorizontalPodAutoscalers are not read: allow this process to get, list and watch horizontalpodautoscalers.autoscaling to be warned of those that work against a VPA")
	if err != nil {
		return err
	}
	if err := webhook.IndexTargets(ctx, p.manager.GetFieldIndexer(), hpas); err != nil {
		return err
	}
	ahead := &target.Ahead{
		Cache: p.manager.GetCache(), Client: p.manager.GetClient(), Resolver: p.resolver, Namespaces: o.namespaces(),
		Clock: clock.RealClock{}, Log: ctrl.Log.WithName("admission"),
	}
	if err := p.manager.Add(ahead); err != nil {
		return err
	}
	p.ready = append(p.ready, ahead.Ready)
	handler := &webhook.Handler{
		Client:   p.manager.GetClient(),
		Resolver: p.resolver,
		Rules:    source.Rules,
		Shadows:  shadows(p, "admission"),
		Log:      log,
		HPAs:     hpas,
	}
	reviews := webhook.NewServer(webhook.ServerOptions{Handler: handler, Timeout: time.Duration(w.timeoutSeconds) * time.Second, Concurrent: w.concurrent, Clock: clock.RealClock{}, Log: log})
	server, err := p.webhookServer(w.bindAddress, w.port, config, reviews, log)
	if err != nil {
		return err
	}
	serving := server.Started
	p.ready = append(p.ready, serving)
	live, err := client.New(p.manager.GetConfig(), client.Options{Scheme: p.manager.GetScheme(), Mapper: p.manager.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("preparing the client of the registration and the status lease: %w", err)
	}
	if w.register {
		registrar := &webhook.Registrar{Client: live, Clock: clock.RealClock{}, Registration: registration, Certificates: certs, Log: log, Started: serving}
		serving = registrar.Registered
		p.ready = append(p.ready, serving)
		if err := p.manager.Add(registrar); err != nil {
			return err
		}
	}
	return w.renewLease(p, live, serving)
}

// certificates come from files where flags tell of them or where they are at their default places, and are made otherwise.
func (w webhookOptions) certificates(host string, log logr.Logger) (webhook.Certificates, error) {
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	if w.filesGiven() || exists(w.cert) && exists(w.key) {
		log.Info("the webhook's certificates are those of files", "certificate", w.cert, "key", w.key, "ca", w.caFile, "reload", w.reload)
		return webhook.NewFiles(webhook.FileOptions{CA: w.caFile, Cert: w.cert, Key: w.key, Reload: w.reload, Unpublished: !w.register,
			Hosts: []string{host}, Clock: clock.RealClock{}, Log: log})
	}
	if !w.register {
		log.Info("nobody can know the CA of the webhook, which celvpa makes for itself: with --register-webhook=false give --tls-cert-file and --tls-private-key")
	}
	certs, err := webhook.NewOwn(webhook.OwnOptions{Hosts: []string{host}, CALifetime: w.caLifetime, Lifetime: w.certificate, Unpublished: !w.register,
		Clock: clock.RealClock{}, Log: log})
	if err != nil {
		return nil, fmt.Errorf("preparing the webhook's certificate: %w", err)
	}
	return certs, nil
}

// renewLease tells the updater that this process serves.
func (w webhookOptions) renewLease(p *process, live client.Client, serving func() error) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding this host's name for the status lease: %w", err)
	}
	return p.manager.Add(&statuslease.Renewer{
		Client: live, Key: client.ObjectKey{Namespace: namespaceOr(w.leaseNamespace), Name: w.leaseName},
		Holder: host, Interval: w.leaseInterval, Clock: clock.RealClock{}, Log: ctrl.Log.WithName("admission"), Serving: serving,
	})
}

// namespaceOr is a namespace flag, or the namespace of this process.
func namespaceOr(given string) string {
	for _, name := range []string{given, os.Getenv("NAMESPACE")} {
		if name != "" {
			return name
		}
	}
	return "kube-system"
}

// registration reads the webhook flags; host is the name that the serving certificate must carry.
func (w webhookOptions) registration(namespaces target.Namespaces) (r webhook.Registration, host string, err error) {
	if w.concurrent < 0 {
		return r, "", fmt.Errorf("--max-concurrent-reviews is %d; it must be greater than 0, or 0 for the default", w.concurrent)
	}
	if w.timeoutSeconds < 1 || w.timeoutSeconds > 30 {
		return r, "", fmt.Errorf("--webhook-timeout-seconds is %d; Kubernetes allows 1 to 30", w.timeoutSeconds)
	}
	r = webhook.Registration{TimeoutSeconds: w.timeoutSeconds, FailurePolicy: admissionregistrationv1.Ignore, Namespaces: namespaces}
	if w.failurePolicyFail {
		r.FailurePolicy = admissionregistrationv1.Fail
	}
	if r.Labels, err = parseLabels(w.labels); err != nil {
		return r, "", err
	}
	if w.byURL {
		if w.address == "" {
			return r, "", errors.New("--register-by-url needs --webhook-address, the host by which API servers reach this process")
		}
		port, flag := w.urlPort, "--webhook-port"
		if port == "" {
			port, flag = strconv.Itoa(w.port), "--port"
		}
		host = strings.Trim(strings.TrimPrefix(w.address, "https://"), "[]")
		// API servers take https://host/:8000 for a path of host, and find nobody there, pod after pod.
		if net.ParseIP(host) == nil && len(labelsyntax.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(host, ".")))) > 0 {
			return r, "", fmt.Errorf("--webhook-address is %q; give a host name or an IP address, and the port by --webhook-port", w.address)
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return r, "", fmt.Errorf("%s is %q; give the number of the port by which API servers reach this process, 1 to 65535", flag, port)
		}
		r.URL = "https://" + net.JoinHostPort(host, port)
		return r, host, nil
	}
	r.ServiceNamespace, r.ServiceName = namespaceOr(""), w.service
	return r, r.ServiceName + "." + r.ServiceNamespace + ".svc", nil
}

// bare is a text without the blanks and quotes around it, which shells and charts leave behind.
func bare(text string) string { return strings.Trim(text, " \t\n'\"") }

// parseLabels reads key:value pairs that commas separate.
func parseLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for _, part := range strings.Split(text, ",") {
		if part = bare(part); part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, ":")
		if key, value = bare(key), bare(value); !ok {
			return nil, fmt.Errorf("--webhook-labels: %q is not of the form key:value", part)
		}
		// API servers would refuse it, again and again.
		if faults := append(labelsyntax.IsQualifiedName(key), labelsyntax.IsValidLabelValue(value)...); len(faults) > 0 {
			return nil, fmt.Errorf("--webhook-labels: %q: %s", part, strings.Join(faults, "; "))
		}
		labels[key] = value
	}
	return labels, nil
}
