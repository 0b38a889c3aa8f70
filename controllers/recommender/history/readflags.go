package history

import (
	"github.com/spf13/pflag"
)

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
	{"prometheus-header", ""},
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
	for _, one := range readDefaults {
		flag := all.Lookup(one.name)
		if flag.DefValue != one.otherwise {
			_ = flag.Value.Set(one.otherwise) // the test of the flags sees that it is one
			flag.DefValue = one.otherwise
		}
		f.AddFlag(flag)
	}
	c.Address, c.Flag = "", address
	f.StringVar(&c.BasicAuthFile, "prometheus-basic-auth-file", "", "file with USER:PASSWORD for Prometheus, instead of a token; else $PROMETHEUS_USERNAME and $PROMETHEUS_PASSWORD")
}
