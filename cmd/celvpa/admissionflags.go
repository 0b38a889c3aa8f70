package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/celvpa/celvpa/webhook/certificates"
)

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
