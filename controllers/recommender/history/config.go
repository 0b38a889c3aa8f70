package history

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	problems "github.com/celvpa/celvpa/engine/faults" // faults are those of answers here
	prommodel "github.com/prometheus/common/model"
	"github.com/spf13/pflag"
)

// maxSamples bounds how many samples of one container may be asked for; eight days at one second are
// 691,201.
const maxSamples = 1_000_000

// Config says where Prometheus is and how it calls things. Names and defaults of the flags are
// upstream's (UPSTREAM.md §2.18, §8). Durations have Prometheus syntax: 8d, 2w, 1h30m.
type Config struct {
	Address  string // --prometheus-address: an http or https URL; user and password in it are sent
	Flag     string // the name of the flag that gives Address; empty = prometheus-address
	Insecure bool   // --prometheus-insecure: any certificate will do

	Transport http.RoundTripper // carries requests; nil = one of its own

	CadvisorJob  string             // --prometheus-cadvisor-job-name; empty = containers of all jobs
	Length       prommodel.Duration // --history-length: how far back
	Resolution   prommodel.Duration // --history-resolution: time between samples, and window of the CPU rate
	CPUMetric    string             // --history-cpu-metric: a counter of seconds
	MemoryMetric string             // --history-memory-metric: a gauge of bytes
	QueryTimeout prommodel.Duration // --prometheus-query-timeout: of each query

	PodLabelsQuery    string // --metric-for-pod-labels: PromQL of a range or an instant vector
	PodLabelPrefix    string // --pod-label-prefix: what is before the name of a pod's label
	PodNamespaceLabel string // --pod-namespace-label, of PodLabelsQuery
	PodNameLabel      string // --pod-name-label, of PodLabelsQuery

	ContainerNamespaceLabel string // --container-namespace-label, of both metrics
	ContainerPodLabel       string // --container-pod-name-label, of both metrics
	ContainerNameLabel      string // --container-name-label, of both metrics

	// Credentials: a token goes before a user. A user or password that no flag gives comes from the
	// environment, PROMETHEUS_USERNAME and PROMETHEUS_PASSWORD.
	Username        string // --username
	Password        string // --password
	BearerToken     string // --prometheus-bearer-token
	BearerTokenFile string // --prometheus-bearer-token-file: goes before BearerToken; white space around it is cut
	BasicAuthFile   string // --prometheus-basic-auth-file, of AddReadFlags: USER:PASSWORD; white space around it is cut

	Matchers Matchers // --prometheus-matchers: what the series of each query have to match
	Headers  []string // --prometheus-header: NAME: VALUE, sent with each query, such as a tenant's
	QPS      float64  // --prometheus-qps: queries a second; 0 = as fast as they are answered, one after another

	Namespace string // only pods of this namespace; empty = all. It has no flag of its own.
}

// AddFlags adds the flags of c and gives c their defaults.
func AddFlags(f *pflag.FlagSet, c *Config) {
	duration := func(value *prommodel.Duration, name string, otherwise time.Duration, help string) {
		*value = prommodel.Duration(otherwise)
		f.Var(value, name, help)
	}
	f.StringVar(&c.Address, "prometheus-address", "http://prometheus.monitoring.svc", "URL of Prometheus, for history with --storage=prometheus")
	f.BoolVar(&c.Insecure, "prometheus-insecure", false, "do not verify the certificate of Prometheus")
	f.Var(&c.Matchers, "prometheus-matchers", "matcher in PromQL to add to each query, such as cluster=\"a\" if Prometheus has several clusters;\ncan be repeated, and all must hold (celvpa's own)")
	f.StringArrayVar(&c.Headers, "prometheus-header", nil, "header to send to Prometheus, as NAME: VALUE, such as the tenant of Mimir or Thanos,\nX-Scope-OrgID: team-a; can be repeated (celvpa's own)")
	f.Float64Var(&c.QPS, "prometheus-qps", 0, "maximum queries to Prometheus a second; 0 = one after another, without a pause (celvpa's own)")
	f.StringVar(&c.CadvisorJob, "prometheus-cadvisor-job-name", "kubernetes-cadvisor", "label job of the series with container usage; empty = any")
	duration(&c.Length, "history-length", 8*24*time.Hour, "length of history to read, such as 8d, 2w or 36h")
	duration(&c.Resolution, "history-resolution", time.Hour, "time between samples of history; CPU usage is averaged over it")
	f.StringVar(&c.CPUMetric, "history-cpu-metric", "container_cpu_usage_seconds_total", "counter of the CPU seconds a container used")
	f.StringVar(&c.MemoryMetric, "history-memory-metric", "container_memory_working_set_bytes", "gauge of the bytes a container uses")
	duration(&c.QueryTimeout, "prometheus-query-timeout", 5*time.Minute, "timeout of a query to Prometheus")
	f.StringVar(&c.PodLabelsQuery, "metric-for-pod-labels", `up{job="kubernetes-pods"}`,
		"query whose series have the labels of pods; with a range, as in kube_pod_labels[8d],\nit includes deleted pods")
	f.StringVar(&c.PodLabelPrefix, "pod-label-prefix", "pod_label_", "prefix of pod labels in --metric-for-pod-labels, such as label_ in kube_pod_labels")
	f.StringVar(&c.PodNamespaceLabel, "pod-namespace-label", "kubernetes_namespace", "label in --metric-for-pod-labels with the namespace")
	f.StringVar(&c.PodNameLabel, "pod-name-label", "kubernetes_pod_name", "label in --metric-for-pod-labels with the pod's name")
	f.StringVar(&c.ContainerNamespaceLabel, "container-namespace-label", "namespace", "label in the usage metrics with the namespace")
	f.StringVar(&c.ContainerPodLabel, "container-pod-name-label", "pod_name", "label in the usage metrics with the pod's name; pod since Kubernetes 1.16")
	f.StringVar(&c.ContainerNameLabel, "container-name-label", "name", "label in the usage metrics with the container's name; container since Kubernetes 1.16")
	f.StringVar(&c.Username, "username", "", "user name for Prometheus; empty = $PROMETHEUS_USERNAME")
	f.StringVar(&c.Password, "password", "", "password for Prometheus; empty = $PROMETHEUS_PASSWORD")
	f.StringVar(&c.BearerToken, "prometheus-bearer-token", "", "bearer token for Prometheus, instead of a user name")
	f.StringVar(&c.BearerTokenFile, "prometheus-bearer-token-file", "", "file with the bearer token for Prometheus; takes precedence over --prometheus-bearer-token")
}

// Validate checks what needs neither files nor the network. Each fault names its flag; there may be
// several.
func (c *Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := c.url(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.headers(); err != nil {
		errs = append(errs, err)
	}
	for _, d := range []struct {
		flag  string
		value prommodel.Duration
	}{
		{"history-length", c.Length}, {"history-resolution", c.Resolution}, {"prometheus-query-timeout", c.QueryTimeout},
	} {
		if time.Duration(d.value) < time.Millisecond {
			fault("--%s=%s: use a time greater than 0, such as 8d, 1h or 30s", d.flag, d.value)
		}
	}
	if c.Resolution.Milliseconds() > 0 && c.Length.Milliseconds()/c.Resolution.Milliseconds() >= maxSamples {
		fault("--history-length=%s with --history-resolution=%s asks for more than %d samples of every container: lower the first or raise the second",
			c.Length, c.Resolution, maxSamples)
	}
	for _, n := range []struct{ flag, value string }{
		{"history-cpu-metric", c.CPUMetric}, {"history-memory-metric", c.MemoryMetric},
		{"pod-namespace-label", c.PodNamespaceLabel}, {"pod-name-label", c.PodNameLabel},
		{"container-namespace-label", c.ContainerNamespaceLabel}, {"container-pod-name-label", c.ContainerPodLabel},
		{"container-name-label", c.ContainerNameLabel},
	} {
		// Prometheus allows any text as a name, but these characters betray an expression.
		if !prommodel.UTF8Validation.IsValidLabelName(n.value) || strings.ContainsAny(n.value, "{}[]()\" ") {
			fault("--%s=%q: use one plain name, without selectors or functions", n.flag, n.value)
		}
	}
	if strings.TrimSpace(c.PodLabelsQuery) == "" {
		fault("--metric-for-pod-labels is empty: use a query whose series carry pod labels, such as kube_pod_labels[8d]")
	}
	if _, _, err := c.podLabels(); err != nil {
		fault("--metric-for-pod-labels=%q: --prometheus-matchers cannot be added, as it is not PromQL: %w", c.PodLabelsQuery, err)
	}
	if c.QPS < 0 || math.IsNaN(c.QPS) || math.IsInf(c.QPS, 0) {
		fault("--prometheus-qps=%v: use a number of queries a second, such as 2 or 0.5, or 0 for no limit", c.QPS)
	}
	if c.Username != "" {
		for _, t := range []struct{ flag, value string }{
			{"prometheus-bearer-token", c.BearerToken}, {"prometheus-bearer-token-file", c.BearerTokenFile}, {"prometheus-basic-auth-file", c.BasicAuthFile},
		} {
			if t.value != "" {
				fault("--username and --%s exclude each other: use one of them", t.flag)
			}
		}
	}
	if c.BasicAuthFile != "" && c.BearerTokenFile != "" {
		fault("--prometheus-basic-auth-file and --prometheus-bearer-token-file exclude each other: use one of them")
	}
	return problems.Join(errs...)
}

// addressFlag is the flag that gives the address, as users write it.
func (c *Config) addressFlag() string { return "--" + cmp.Or(c.Flag, "prometheus-address") }

// Redacted is the address without a password.
func (c *Config) Redacted() string {
	u, err := c.url()
	if err != nil {
		return c.addressFlag()
	}
	return u.Redacted()
}

// url parses the address. The error does not quote it, as it may hold a password or a token.
func (c *Config) url() (*url.URL, error) {
	u, err := url.Parse(c.Address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(u.Path, "@") {
		return nil, fmt.Errorf("%s: use a URL with http or https, a host, and nothing after the path, such as http://prometheus.monitoring.svc:9090; "+
			"in a user name and a password write / as %%2F, ? as %%3F, # as %%23 and %% as %%25", c.addressFlag())
	}
	return u, nil
}

// readDefaults are the flags of a command that reads a Prometheus of today, for the user and not for
// a recommender that starts: they have the recommender's names, and other defaults.
var readDefaults = []struct{ name, otherwise string }{
	{"history-length", "30d"},
	{"history-resolution", "5m"},
	{"history-cpu-metric", "container_cpu_usage_seconds_total"},
	{"history-memory-metric", "container_memory_working_set_bytes"},
	{"prometheus-query-timeout", "2m"},
	{"prometheus-insecure", "false"},
	{"prometheus-cadvisor-job-name", ""},
	{"prometheus-bearer-token-file", ""},
	{"prometheus-matchers", ""},
	{"prometheus-header", "[]"},
	{"prometheus-qps", "0"},
	{"container-namespace-label", "namespace"},
	{"container-pod-name-label", "pod"},
	{"container-name-label", "container"},
}

// AddReadFlags adds the flags of a command that reads usage with Pieces, and gives c their defaults.
// The address comes from the flag of that name.
func AddReadFlags(f *pflag.FlagSet, c *Config, address string) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(all, c)
	for _, setting := range readDefaults {
		flag := all.Lookup(setting.name)
		if flag.DefValue != setting.otherwise {
			_ = flag.Value.Set(setting.otherwise) // the test of the flags sees that it is one
			flag.DefValue = setting.otherwise
		}
		f.AddFlag(flag)
	}
	c.Address, c.Flag = "", address
	f.StringVar(&c.BasicAuthFile, "prometheus-basic-auth-file", "", "file with USER:PASSWORD for Prometheus, instead of a token; else $PROMETHEUS_USERNAME and $PROMETHEUS_PASSWORD")
}
