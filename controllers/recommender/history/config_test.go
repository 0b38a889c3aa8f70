package history

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	prommodel "github.com/prometheus/common/model"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// parsed is the configuration that flags give.
func parsed(t testing.TB, args ...string) Config {
	t.Helper()
	var c Config
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags, &c)
	require.NoError(t, flags.Parse(args))
	return c
}

func TestFlagsHaveUpstreamsNamesAndDefaults(t *testing.T) {
	want := map[string]string{
		"prometheus-address": "http://prometheus.monitoring.svc", "prometheus-insecure": "false",
		"prometheus-cadvisor-job-name": "kubernetes-cadvisor", "history-length": "8d", "history-resolution": "1h",
		"history-cpu-metric": "container_cpu_usage_seconds_total", "history-memory-metric": "container_memory_working_set_bytes",
		"prometheus-query-timeout": "5m", "pod-label-prefix": "pod_label_", "metric-for-pod-labels": `up{job="kubernetes-pods"}`,
		"pod-namespace-label": "kubernetes_namespace", "pod-name-label": "kubernetes_pod_name",
		"container-namespace-label": "namespace", "container-pod-name-label": "pod_name", "container-name-label": "name",
		"username": "", "password": "", "prometheus-bearer-token": "", "prometheus-bearer-token-file": "",
		"prometheus-matchers": "", "prometheus-header": "[]", "prometheus-qps": "0", // celvpa's own
	}
	var c Config
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags, &c)
	got := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		got[f.Name] = f.DefValue
		require.NotEmpty(t, f.Usage)
	})
	require.Equal(t, want, got)
	require.NoError(t, c.Validate(), "the defaults are valid")
	require.Equal(t, prommodel.Duration(8*24*time.Hour), c.Length)
	require.Equal(t, prommodel.Duration(24*time.Hour*17), parsed(t, "--history-length=2w3d").Length)
}

func TestBadDurationsAreRefusedWithTheirFlag(t *testing.T) {
	for _, name := range []string{"history-length", "history-resolution", "prometheus-query-timeout"} {
		for _, value := range []string{"", "8", "1.5h", "-1h", "1h1d", "999999999y", "nonsense"} {
			var c Config
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			AddFlags(flags, &c)
			require.ErrorContains(t, flags.Parse([]string{"--" + name + "=" + value}), "--"+name, value)
		}
	}
}

func TestValidateNamesTheFlagAndTheWayOut(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"an address without a scheme":     {[]string{"--prometheus-address=prometheus:9090"}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"an address without a host":       {[]string{"--prometheus-address=http://"}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"an empty address":                {[]string{"--prometheus-address="}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"an address with a query":         {[]string{"--prometheus-address=http://a?b=c"}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"a password in a path":            {[]string{"--prometheus-address=http://u:1/secret@a"}, "--prometheus-address: use a URL"},
		"a port that is none":             {[]string{"--prometheus-address=http://u:secret@a:port"}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"a password with a slash":         {[]string{"--prometheus-address=http://u:sec/secret@a"}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"a password with a number first":  {[]string{"--prometheus-address=http://u:1/secret@a"}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"a password with a question mark": {[]string{"--prometheus-address=https://u:sec?secret@a"}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"a password with a hash":          {[]string{"--prometheus-address=https://u:sec#secret@a"}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"a password without a scheme":     {[]string{"--prometheus-address=u:secret@a"}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"a token in a query":              {[]string{"--prometheus-address=http://a?token=secret"}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"a password with a percent sign":  {[]string{"--prometheus-address=http://u:p%zsecret@a"}, "--prometheus-address: use a URL with http or https, a host, and nothing after the path"},
		"no length":                       {[]string{"--history-length=0"}, "--history-length=0s: use a time greater than 0"},
		"no resolution":                   {[]string{"--history-resolution=0s"}, "--history-resolution=0s: use a time greater than 0"},
		"no time for queries":             {[]string{"--prometheus-query-timeout=0s"}, "--prometheus-query-timeout=0s: use a time"},
		"more samples than memory":        {[]string{"--history-length=1y", "--history-resolution=1s"}, "--history-length=1y with --history-resolution=1s asks for more than 1000000 samples"},
		"an expression instead of a name": {[]string{`--history-cpu-metric=cpu{a="b"}`}, "--history-cpu-metric="},
		"an empty metric":                 {[]string{"--history-memory-metric="}, `--history-memory-metric=""`},
		"an empty label":                  {[]string{"--container-name-label="}, `--container-name-label=""`},
		"no query for labels":             {[]string{"--metric-for-pod-labels= "}, "--metric-for-pod-labels is empty"},
		"a user and a token":              {[]string{"--username=u", "--prometheus-bearer-token=t"}, "--username and --prometheus-bearer-token exclude each other"},
		"a user and a token file":         {[]string{"--username=u", "--prometheus-bearer-token-file=f"}, "--username and --prometheus-bearer-token-file exclude each other"},
	} {
		t.Run(name, func(t *testing.T) {
			c := parsed(t, row.args...)
			err := c.Validate()
			require.ErrorContains(t, err, row.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
	c := parsed(t, "--prometheus-address=x", "--history-length=0", "--username=u", "--prometheus-bearer-token=t")
	require.ErrorContains(t, c.Validate(), "--prometheus-address: use a URL")
	require.ErrorContains(t, c.Validate(), "exclude each other", "all faults are reported at once")
}

func TestCredentialsHaveAnOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for name, row := range map[string]struct {
		args     []string
		env      [2]string
		file     string
		want     credentials
		wantErr  string
		unwanted string
	}{
		"none at all":                          {},
		"a user of flags":                      {args: []string{"--username=u", "--password=p"}, want: credentials{username: "u", password: "p"}},
		"a user of the environment":            {env: [2]string{"u", "p"}, want: credentials{username: "u", password: "p"}},
		"flags before the environment":         {args: []string{"--username=u", "--password=p"}, env: [2]string{"eu", "ep"}, want: credentials{username: "u", password: "p"}},
		"a flag's user, a secret password":     {args: []string{"--username=u"}, env: [2]string{"", "ep"}, want: credentials{username: "u", password: "ep"}},
		"a password in the environment alone":  {env: [2]string{"", "ep"}},
		"a password flag without a user":       {args: []string{"--password=secret"}, wantErr: "--password is set without a user", unwanted: "secret"},
		"a token":                              {args: []string{"--prometheus-bearer-token=t"}, want: credentials{token: "t"}},
		"a token before the environment":       {args: []string{"--prometheus-bearer-token=t"}, env: [2]string{"eu", "ep"}, want: credentials{token: "t"}},
		"a token file, trimmed, before a flag": {args: []string{"--prometheus-bearer-token=t", "--prometheus-bearer-token-file=" + file}, file: "\n from-file \n", want: credentials{token: "from-file"}},
		"an empty token file":                  {args: []string{"--prometheus-bearer-token-file=" + file}, file: " \n", wantErr: "--prometheus-bearer-token-file=" + file + " is empty"},
		"a token file of two lines":            {args: []string{"--prometheus-bearer-token-file=" + file}, file: "secret\ntwo", wantErr: "--prometheus-bearer-token-file=" + file + " holds characters", unwanted: "secret"},
		"a token file that is missing":         {args: []string{"--prometheus-bearer-token-file=" + file + "-none"}, wantErr: "--prometheus-bearer-token-file=" + file + "-none: open"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PROMETHEUS_USERNAME", row.env[0])
			t.Setenv("PROMETHEUS_PASSWORD", row.env[1])
			require.NoError(t, os.WriteFile(file, []byte(row.file), 0o600))
			c := parsed(t, row.args...)
			got, err := c.credentials()
			if row.wantErr != "" {
				require.ErrorContains(t, err, row.wantErr)
				if row.unwanted != "" {
					require.NotContains(t, err.Error(), row.unwanted)
				}
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
}

func TestQueriesQuoteWhatTheyAreGiven(t *testing.T) {
	for name, row := range map[string]struct {
		args      []string
		namespace string
		cpu       string
	}{
		"defaults": {cpu: `max by (namespace, pod_name, name) (rate(container_cpu_usage_seconds_total{job="kubernetes-cadvisor", pod_name=~".+", name!="POD", name!="", cpu=~"|total"}[1h]) or sum without (cpu) (rate(container_cpu_usage_seconds_total{job="kubernetes-cadvisor", pod_name=~".+", name!="POD", name!="", cpu!~"|total"}[1h])))`},
		"no job, one namespace, today's labels": {
			args:      []string{"--prometheus-cadvisor-job-name=", "--container-pod-name-label=pod", "--container-name-label=container", "--history-resolution=90s"},
			namespace: "shop",
			cpu:       `max by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{pod=~".+", container!="POD", container!="", namespace="shop", cpu=~"|total"}[1m30s]) or sum without (cpu) (rate(container_cpu_usage_seconds_total{pod=~".+", container!="POD", container!="", namespace="shop", cpu!~"|total"}[1m30s])))`,
		},
		"a job that tries to break out": {
			args: []string{`--prometheus-cadvisor-job-name=a"} or b{c="\` + "\n"},
			cpu:  `max by (namespace, pod_name, name) (rate(container_cpu_usage_seconds_total{job="a\"} or b{c=\"\\\n", pod_name=~".+", name!="POD", name!="", cpu=~"|total"}[1h]) or sum without (cpu) (rate(container_cpu_usage_seconds_total{job="a\"} or b{c=\"\\\n", pod_name=~".+", name!="POD", name!="", cpu!~"|total"}[1h])))`,
		},
		"names that only Prometheus 3 knows": {
			args: []string{"--prometheus-cadvisor-job-name=", "--history-cpu-metric=container.cpu.time", "--container-pod-name-label=k8s.pod.name", "--container-name-label=k8s.container.name"},
			cpu:  `max by (namespace, "k8s.pod.name", "k8s.container.name") (rate({"container.cpu.time", "k8s.pod.name"=~".+", "k8s.container.name"!="POD", "k8s.container.name"!="", cpu=~"|total"}[1h]) or sum without (cpu) (rate({"container.cpu.time", "k8s.pod.name"=~".+", "k8s.container.name"!="POD", "k8s.container.name"!="", cpu!~"|total"}[1h])))`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := parsed(t, row.args...)
			c.Namespace = row.namespace
			require.NoError(t, c.Validate())
			require.Equal(t, row.cpu, c.cpuQuery())
		})
	}
}

func TestFlagsOfCommandsSuitAPrometheusOfToday(t *testing.T) {
	var c Config
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddReadFlags(flags, &c, "history")
	for _, setting := range readDefaults {
		flag := flags.Lookup(setting.name)
		require.Equal(t, setting.otherwise, flag.Value.String(), setting.name)
		require.Equal(t, setting.otherwise, flag.DefValue, setting.name)
		require.False(t, flag.Changed, setting.name)
	}
	c.Address = "http://a"
	require.NoError(t, c.Validate(), "the defaults are valid")
	c.Address = "http://user:secret@a?x"
	require.ErrorContains(t, c.Validate(), "--history: use a URL with http or https, a host, and nothing after the path")
	require.NotContains(t, c.Validate().Error(), "secret")
}
