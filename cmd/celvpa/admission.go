package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	labelsyntax "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/statuslease"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/webhook"
	"github.com/celvpa/celvpa/webhook/certificates"
)

// joinAdmission adds the webhook, its certificates, its registration and its status lease to a process.
func joinAdmission(ctx context.Context, o *options, source *policy.Source, p *process) error {
	w, log := o.webhook, webhook.ShortValues(ctrl.Log.WithName("admission"))
	registration, host, err := w.registration(o.namespaces())
	if err != nil {
		return err
	}
	if registration.Deadlocks() && w.register {
		log.Info("while no admission controller answers, no pod of the only served namespace can start, and this one runs there: use failure policy Ignore, or run it in another namespace",
			"namespace", registration.OwnNamespace)
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
	if w.clients != "" {
		if err := certificates.RequireClientCertificates(config, w.clients, log); err != nil {
			return err
		}
	}
	memory, err := w.memory()
	if err != nil {
		return err
	}
	hpas, err := p.watched(ctx, &autoscalingv2.HorizontalPodAutoscalerList{}, &autoscalingv2.HorizontalPodAutoscaler{}, log,
		"the cluster has no HorizontalPodAutoscalers in autoscaling/v2: none are warned about",
		"HorizontalPodAutoscalers are not read: allow this process to list and watch horizontalpodautoscalers.autoscaling to be warned of those that work against a VPA")
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
	tried, err := p.shadows("admission")
	if err != nil {
		return err
	}
	limits := &limitranges.Cache{Reader: p.manager.GetClient()}
	if err := limits.Follow(ctx, p.manager.GetCache()); err != nil {
		return err
	}
	handler := &webhook.Handler{
		Client:    p.manager.GetClient(),
		Resolver:  p.resolver,
		Limits:    limits,
		Objects:   p.objects,
		Rules:     source.Rules,
		Shadows:   tried,
		Decisions: o.decisions("admission-controller"),
		Clock:     clock.RealClock{},
		Log:       log,
		HPAs:      hpas,
	}
	reviews := webhook.NewServer(webhook.ServerOptions{Handler: handler, Timeout: time.Duration(w.timeoutSeconds) * time.Second, Concurrent: w.concurrent, Memory: memory,
		Clock: clock.RealClock{}, Log: log})
	p.resolver.Scales.LimitWaits(reviews.Slots() / 2)
	server, err := p.webhookServer(w.bindAddress, w.port, config, reviews, log)
	if err != nil {
		return err
	}
	explainer := &webhook.Explainer{Handler: handler, Certificate: certs.GetCertificate}
	p.explains.Admission = explainer.Explain
	serving := server.Started
	p.ready = append(p.ready, serving)
	live, err := client.New(p.manager.GetConfig(), client.Options{Scheme: p.manager.GetScheme(), Mapper: p.manager.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("preparing the client of the registration and the status lease: %w", err)
	}
	if w.register {
		registrar := &webhook.Registrar{Client: live, Clock: clock.RealClock{}, Registration: registration, Certificates: certs, Log: log, Started: serving}
		serving = registrar.Registered
		explainer.Registered = serving
		p.ready = append(p.ready, serving)
		if err := p.manager.Add(registrar); err != nil {
			return err
		}
	}
	if explainer.Prober, err = w.probe(p, o.namespaces(), serving, log); err != nil {
		return err
	}
	return w.renewLease(p, live, serving, explainer.Prober.Unreached)
}

// probe finds out whether API servers reach the webhook; the Prober is nil if nothing does.
func (w webhookOptions) probe(p *process, namespaces target.Namespaces, serving func() error, log logr.Logger) (*webhook.Prober, error) {
	namespace := cmp.Or(namespaces.Only, namespaceOr(""))
	switch {
	case w.probeInterval == 0:
		return nil, nil
	case !namespaces.Serve(namespace):
		log.Info("not finding out whether API servers reach the webhook, because it does not serve its own namespace", "namespace", namespace)
		return nil, nil
	}
	probing, err := webhook.NewProbeClient(p.manager.GetConfig(), client.Options{Scheme: p.manager.GetScheme(), Mapper: p.manager.GetRESTMapper()})
	if err != nil {
		return nil, err
	}
	prober := &webhook.Prober{Client: probing, Namespace: namespace, Interval: w.probeInterval, Started: serving, Clock: clock.RealClock{}, Log: log}
	return prober, p.manager.Add(prober)
}

// memory is --max-review-memory in bytes.
func (w webhookOptions) memory() (int64, error) {
	amount, err := quantity.Parse(w.reviewMemory)
	if err != nil || amount.Value() < webhook.MinReviewMemory {
		return 0, fmt.Errorf("--max-review-memory is %q; give at least 32Mi, such as 64Mi", w.reviewMemory)
	}
	return amount.Value(), nil
}

// certificates come from files if flags name them or they are in their default places; otherwise celvpa makes its own.
func (w webhookOptions) certificates(host string, log logr.Logger) (*certificates.Source, error) {
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	if w.filesGiven() || exists(w.cert) && exists(w.key) {
		log.Info("serving certificates from files", "certificate", w.cert, "key", w.key, "ca", w.caFile, "reload", w.reload)
		return certificates.NewFiles(certificates.FileOptions{CA: w.caFile, Cert: w.cert, Key: w.key, Reload: w.reload, Unpublished: !w.register,
			Hosts: []string{host}, Clock: clock.RealClock{}, Log: log})
	}
	if !w.register {
		log.Info("no API server can trust the webhook: celvpa made a CA that it does not register; with --register-webhook=false set --tls-cert-file and --tls-private-key")
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding this host's name for the webhook's CA: %w", err)
	}
	// Processes on one host, or pods on the network of one node, differ by their port.
	replica := fmt.Sprintf("%s:%d", name, w.port)
	certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{host}, Replica: replica, Measured: true, CALifetime: w.caLifetime, Lifetime: w.certificate, Unpublished: !w.register,
		Clock: clock.RealClock{}, Log: log})
	if err != nil {
		return nil, fmt.Errorf("preparing the webhook's certificate: %w", err)
	}
	return certs, nil
}

// renewLease renews the status lease, by which the updater knows that this process serves.
func (w webhookOptions) renewLease(p *process, live client.Client, serving, unreached func() error) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding this host's name for the status lease: %w", err)
	}
	return p.manager.Add(&statuslease.Renewer{
		Client: live, Key: client.ObjectKey{Namespace: namespaceOr(w.leaseNamespace), Name: w.leaseName},
		Holder: host, Interval: w.leaseInterval, Clock: clock.RealClock{}, Log: ctrl.Log.WithName("admission"), Serving: serving, Unreached: unreached,
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
	if w.probeInterval < 0 {
		return r, "", fmt.Errorf("--webhook-probe-interval is %s; give a time, or 0 for never", w.probeInterval)
	}
	if w.shutdownDelay < 0 {
		return r, "", fmt.Errorf("--shutdown-delay-duration is %s; it must not be less than 0", w.shutdownDelay)
	}
	r = webhook.Registration{TimeoutSeconds: w.timeoutSeconds, FailurePolicy: admissionregistrationv1.Ignore, Namespaces: namespaces, OwnNamespace: namespaceOr("")}
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
		// API servers would read https://host/:8000 as a path, and fail for every pod.
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

// webhookOptions are the flags of the admission controller.
type webhookOptions struct {
	bindAddress       string
	port              int
	register          bool
	byURL             bool
	address           string
	urlPort           string
	service           string
	timeoutSeconds    int32
	failurePolicyFail bool
	labels            string
	leaseName         string
	leaseNamespace    string
	leaseInterval     time.Duration

	minTLS, ciphers         string
	caFile, cert, key       string
	reload                  bool
	filesGiven              func() bool // one of the three was
	caLifetime, certificate time.Duration
	shutdownDelay           time.Duration
	probeInterval           time.Duration
	concurrent              int
	reviewMemory            string // a quantity
	clients                 string // a file
}

func (o *options) addAdmission(f *pflag.FlagSet) {
	w := &o.webhook
	f.StringVar(&w.bindAddress, "bind-address", "", "address that the webhook listens on; empty = all (celvpa's own)")
	f.IntVar(&w.port, "port", 8000, "port that the webhook listens on")
	f.BoolVar(&w.register, "register-webhook", true, "create and update the MutatingWebhookConfiguration")
	f.BoolVar(&w.byURL, "register-by-url", false, "register --webhook-address instead of a Service")
	f.StringVar(&w.address, "webhook-address", "", "host at which API servers reach the webhook, with --register-by-url")
	f.StringVar(&w.urlPort, "webhook-port", "", "port at which API servers reach the webhook, with --register-by-url; empty = --port")
	f.StringVar(&w.service, "webhook-service", "vpa-webhook", "name of the Service in front of the webhook, in namespace $NAMESPACE or kube-system")
	f.Int32Var(&w.timeoutSeconds, "webhook-timeout-seconds", 30, "how long API servers wait for an answer, 1 to 30")
	f.BoolVar(&w.failurePolicyFail, "webhook-failure-policy-fail", false, "failure policy Fail: API servers reject pods while the webhook does not answer, but not those of its own namespace")
	f.StringVar(&w.labels, "webhook-labels", "", "labels of the MutatingWebhookConfiguration as key:value, separated by commas")
	f.StringVar(&w.leaseName, "status-lease-name", "vpa-admission-controller", "name of the status lease to renew")
	f.StringVar(&w.leaseNamespace, "status-lease-namespace", "", "its namespace; empty = $NAMESPACE or kube-system")
	o.positive(f, &w.leaseInterval, "status-lease-update-interval", 10*time.Second, "how often the status lease is renewed")

	f.StringVar(&w.minTLS, "min-tls-version", "tls1_2", "minimum TLS version: tls1_2 or tls1_3")
	f.StringVar(&w.ciphers, "tls-ciphers", "", "TLS 1.2 cipher suites by their Go names, separated by commas or colons; empty = Go's defaults")
	f.StringVar(&w.caFile, "client-ca-file", certificates.DefaultCAFile, "PEM file of the CA to register; not read with --register-webhook=false")
	f.StringVar(&w.cert, "tls-cert-file", certificates.DefaultCertFile, "PEM file of the serving certificate. Without the three flags and the default files, celvpa creates its own certificates")
	f.StringVar(&w.key, "tls-private-key", certificates.DefaultKeyFile, "PEM file of its key")
	f.BoolVar(&w.reload, "reload-cert", false, "reload the three files when they change")
	o.positive(f, &w.caLifetime, "webhook-ca-lifetime", certificates.DefaultCALifetime, "lifetime of a CA that celvpa creates; it is replaced after half of that (celvpa's own)")
	o.positive(f, &w.certificate, "webhook-certificate-lifetime", certificates.DefaultServingLifetime, "lifetime of a serving certificate that celvpa creates (celvpa's own)")
	f.DurationVar(&w.shutdownDelay, "shutdown-delay-duration", 0, "how long to go on serving after SIGTERM, while /readyz fails and API servers learn to use other replicas (celvpa's own)")
	f.DurationVar(&w.probeInterval, "webhook-probe-interval", 20*time.Second, "how often to find out, by a dry run, whether API servers reach the webhook; 0 = never (celvpa's own)")
	f.IntVar(&w.concurrent, "max-concurrent-reviews", 0, "maximum concurrent reviews; any more are allowed unchanged; 0 = 100 per CPU (celvpa's own)")
	f.StringVar(&w.reviewMemory, "max-review-memory", "64Mi", "maximum memory of all reviews in flight, at least 32Mi; any more are allowed unchanged, or get a 503 before they are read (celvpa's own)")
	f.StringVar(&w.clients, "api-server-client-ca-file", "", "PEM file of the CAs that sign the client certificates of API servers; the webhook then rejects all other clients; empty = serve every client (celvpa's own)")
	w.filesGiven = func() bool {
		return f.Changed("client-ca-file") || f.Changed("tls-cert-file") || f.Changed("tls-private-key")
	}
}
