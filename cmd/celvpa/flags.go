package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/features"
	"k8s.io/klog/v2"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/rules"
)

// options hold the flags of the component commands. Names and defaults are upstream's (UPSTREAM.md §8) except where
// marked as celvpa's own.
type options struct {
	program           string // as API servers know it
	kubeconfig        string
	qps               float32
	burst             int
	address           string
	secureMetrics     secureMetrics
	explainAddress    string
	profiling         bool
	logFormat         string
	namespace         string
	ignoredNamespaces string
	decisionsKept     int
	logDecisions      bool

	rules       ruleOptions
	rulesReload time.Duration

	leader leaderOptions

	durations []positiveDuration // flags that must be greater than 0

	recommender recommenderOptions

	updater updaterOptions

	webhook webhookOptions
}

// positiveDuration is a flag that must be greater than 0.
type positiveDuration struct {
	flag  string
	value *time.Duration
}

// durationFlag says what a duration looks like, as params do.
type durationFlag time.Duration

func (d *durationFlag) Set(text string) error {
	value, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 30s, 5m or 24h", text)
	}
	*d = durationFlag(value)
	return nil
}

func (d *durationFlag) String() string { return time.Duration(*d).String() }

func (*durationFlag) Type() string { return "duration" }

// positive adds a duration flag that must be greater than 0.
func (o *options) positive(f *pflag.FlagSet, value *time.Duration, name string, otherwise time.Duration, help string) {
	*value = otherwise
	f.Var((*durationFlag)(value), name, help)
	o.durations = append(o.durations, positiveDuration{flag: name, value: value})
}

// leases is the only lock that client-go still has.
const leases = "leases"

type leaderOptions struct {
	elect             bool
	leaseDuration     time.Duration
	renewDeadline     time.Duration
	retryPeriod       time.Duration
	resourceLock      string
	resourceName      string
	resourceNamespace string
}

func (o *options) addCommon(f *pflag.FlagSet, address string) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "path of a kubeconfig; empty = $KUBECONFIG, the pod's service account or ~/.kube/config")
	f.Float32Var(&o.qps, "kube-api-qps", 50, "requests a second to the API server: one limit for the statuses and checkpoints that a recommender writes, one for what an updater changes")
	f.IntVar(&o.burst, "kube-api-burst", 100, "burst of requests to the API server")
	f.StringVar(&o.address, "address", address, "address that serves /metrics, /health-check, /healthz and /readyz")
	o.secureMetrics.add(f)
	f.StringVar(&o.explainAddress, "explain-address", "", "address that answers celvpa explain, over TLS and only to those whom the API server authorizes; empty = off (celvpa's own)")
	f.BoolVar(&o.profiling, "profiling", false, "serve /debug/pprof on --address")
	f.StringVar(&o.logFormat, "logging-format", "text", "text or json; --log-format is the same (celvpa's own)")
	f.IntVar(&o.decisionsKept, "decisions-kept", answers.DefaultKept, "decisions about each VPA that each component keeps in memory; 0 = none (celvpa's own)")
	f.BoolVar(&o.logDecisions, "log-decisions", false, "write each decision to the log, as a line with message \"decision\" (celvpa's own)")
	f.StringVar(&o.namespace, "vpa-object-namespace", "", "serve only this namespace; empty = all")
	f.StringVar(&o.ignoredNamespaces, "ignored-vpa-object-namespaces", "", "namespaces to ignore, separated by commas")
	f.StringVar(&o.rules.dir, "rules-dir", "", "folder of rule files, or a single file, to lay over the shipped rules (celvpa's own)")
	o.positive(f, &o.rulesReload, "rules-reload-interval", 2*time.Second, "how often --rules-dir is checked for changes (celvpa's own)")
	f.StringVar(&o.rules.pipeline, "pipeline", "", "pipeline to run, name or name@version; empty = default (celvpa's own)")
	f.StringSliceVar(&o.rules.more, "pipelines", nil, "shipped pipelines that VPAs may pin besides, "+strings.Join(rules.PipelineNames, " or ")+"; loading them takes memory for each RuleOverlay (celvpa's own)")
	f.StringVar(&o.rules.gates, "feature-gates", "", "feature gates as Name=true|false, separated by commas:\n"+gateHelp())
}

// addLeader adds the flags of processes of which only one acts at a time.
func (o *options) addLeader(f *pflag.FlagSet, lease string) {
	f.BoolVar(&o.leader.elect, "leader-elect", false, "elect one of several replicas to act")
	f.DurationVar(&o.leader.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long other replicas wait before they take over")
	f.DurationVar(&o.leader.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader retries to renew the lease before it gives up")
	f.DurationVar(&o.leader.retryPeriod, "leader-elect-retry-period", 2*time.Second, "time between retries")
	f.StringVar(&o.leader.resourceLock, "leader-elect-resource-lock", leases, "kind of the lock; only leases is supported")
	f.StringVar(&o.leader.resourceName, "leader-elect-resource-name", lease, "name of the lease")
	f.StringVar(&o.leader.resourceNamespace, "leader-elect-resource-namespace", "kube-system", "namespace of the lease")
}

// paramFlag is a rule parameter that a flag sets. It is the flag's value, too: text, which the rules read as what it means.
type paramFlag struct {
	kind  string // type of the parameter
	value string
	flag  *pflag.Flag
}

// String implements pflag.Value.
func (p *paramFlag) String() string { return p.value }

// Set implements pflag.Value; the text is checked when the rules are compiled.
func (p *paramFlag) Set(text string) error {
	p.value = text
	return nil
}

// Type implements pflag.Value: it is what the help shows as the flag's argument.
func (p *paramFlag) Type() string {
	if p.kind == "bool" {
		return p.kind // shown without argument
	}
	return "string"
}

// paramFlags are the rule parameters that flags set, by engine.ParamRef.Key.
type paramFlags map[string]*paramFlag

// add makes a flag of each rule parameter that names one, so that flags and rules cannot drift apart. Without points it
// does so for all of them. A rule set of which there are several versions has one flag. A time that a component has a flag for
// already, as the interval of the updater, is read from there; a name that something else has is an error.
func (o paramFlags) add(f *pflag.FlagSet, library *document.Library, points ...string) error {
	for _, p := range library.Params() {
		if p.Param.Flag == "" || o[p.Key] != nil || (len(points) > 0 && !slices.ContainsFunc(points, p.At)) {
			continue
		}
		if other := f.Lookup(p.Param.Flag); sameTime(other, p.Param) {
			o[p.Key] = &paramFlag{kind: p.Param.Type.Value, flag: other}
			continue
		} else if other != nil {
			return fmt.Errorf("%s: param %s asks for flag --%s, which exists already", p.Param.Name.Pos, p.Key, p.Param.Flag)
		}
		value := &paramFlag{kind: p.Param.Type.Value, value: p.Param.Default.Value}
		help := fmt.Sprintf("%s (%s, %s)", uncapitalised(descriptionOf(p)), readers(p), p.Param.Type.Value)
		value.flag = f.VarPF(value, p.Param.Flag, "", help)
		if value.kind == "bool" {
			value.flag.NoOptDefVal = "true"
		}
		o[p.Key] = value
	}
	return nil
}

// descriptionOf is the description of a parameter in prose, where the resource cpu is CPU.
func descriptionOf(p document.ParamRef) string {
	return resourceCPU.ReplaceAllString(p.Param.Description, "${1}CPU${2}")
}

var resourceCPU = regexp.MustCompile(`(^|\s)cpu($|[\s,.;])`)

// uncapitalised begins a flag's help in lower case, as that of all flags, unless it begins with an abbreviation such as API.
func uncapitalised(help string) string {
	if first := []rune(help); len(first) > 1 && !unicode.IsUpper(first[1]) {
		return string(unicode.ToLower(first[0])) + string(first[1:])
	}
	return help
}

// readers names the rule sets that read a parameter.
func readers(p document.ParamRef) string {
	var names []string
	for _, set := range p.RuleSets {
		if !slices.Contains(names, set.Name.Value) {
			names = append(names, set.Name.Value)
		}
	}
	if len(names) == 1 {
		return "rule set " + names[0]
	}
	return "rule sets " + strings.Join(names, ", ")
}

// sameTime reports whether a flag is for a time, with the default of the parameter.
func sameTime(f *pflag.Flag, p document.Param) bool {
	return f != nil && f.Value.Type() == "duration" && p.Type.Value == "duration" && f.DefValue == p.Default.Value
}

// given are the parameters whose flags were given.
func (o paramFlags) given() map[string]string {
	out := map[string]string{}
	for key, p := range o {
		if p.flag.Changed {
			out[key] = p.flag.Value.String()
		}
	}
	return out
}

// checkDurations refuses times that must be greater than 0: a ticker or a half-life of nothing.
func (o *options) checkDurations() error {
	for _, d := range o.durations {
		if *d.value <= 0 {
			return fmt.Errorf("--%s is %s; it must be greater than 0", d.flag, *d.value)
		}
	}
	return nil
}

// check refuses times with which no replica could keep the lead.
func (l *leaderOptions) check() error {
	const jitter = 1.2 // of client-go, on each period
	switch {
	case !l.elect:
		return nil
	case l.retryPeriod <= 0:
		return fmt.Errorf("--leader-elect-retry-period is %s; it must be greater than 0", l.retryPeriod)
	case float64(l.renewDeadline) <= jitter*float64(l.retryPeriod):
		return fmt.Errorf("--leader-elect-renew-deadline is %s; it must be greater than 1.2 times --leader-elect-retry-period, %s", l.renewDeadline, l.retryPeriod)
	case l.leaseDuration <= l.renewDeadline:
		return fmt.Errorf("--leader-elect-lease-duration is %s; it must be greater than --leader-elect-renew-deadline, %s", l.leaseDuration, l.renewDeadline)
	case l.leaseDuration < time.Second:
		return fmt.Errorf("--leader-elect-lease-duration is %s; it must be at least 1s", l.leaseDuration)
	case l.resourceLock != leases:
		return fmt.Errorf("--leader-elect-resource-lock is %q; only %s is supported: leave the flag out", l.resourceLock, leases)
	case l.resourceName == "":
		return errors.New("--leader-elect-resource-name is empty; give the name of the lease by which replicas choose who acts")
	}
	return nil
}

func parseGates(text string) (map[string]bool, error) {
	gates := map[string]bool{}
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		on, err := strconv.ParseBool(value)
		if !found || err != nil {
			return nil, fmt.Errorf("--feature-gates: %q is not of the form Name=true", part)
		}
		switch {
		case name == "AllAlpha":
			for gate := range facts.Gates {
				gates[gate] = on
			}
		case name == "AllBeta": // there are none yet
		default:
			if _, known := facts.Gates[name]; !known {
				return nil, fmt.Errorf("--feature-gates: there is no gate %q; %sknown: %s", name, faults.Near(name, gateNames()), strings.Join(gateNames(), ", "))
			}
			gates[name] = on
		}
	}
	return gates, nil
}

func gateNames() []string {
	return slices.Sorted(maps.Keys(facts.Gates))
}

func gateHelp() string {
	var lines []string
	for _, name := range gateNames() {
		lines = append(lines, name+" (alpha, off): "+facts.Gates[name])
	}
	return strings.Join(lines, "\n")
}

// defaultVerbosity is upstream's.
const defaultVerbosity = 4

// addLogging adds klog's flags.
func addLogging(f *pflag.FlagSet) {
	features.FeatureGates().Enabled(features.WatchListClient) // reads all: later, client-go would log each of them
	set := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(set)
	set.VisitAll(func(one *flag.Flag) {
		if one.Name == "v" {
			one.DefValue = strconv.Itoa(defaultVerbosity)
			_ = one.Value.Set(one.DefValue)
			one.Usage += "; libraries log their details from " + strconv.Itoa(detailedFrom) + " on"
		}
		one.Usage = uncapitalised(one.Usage)
	})
	f.AddGoFlagSet(set)
}

// normalize lets flags be written with underscores, as upstream does, and --logging-format by its former name.
func normalize(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name = strings.ReplaceAll(name, "_", "-"); name == "log-format" {
		name = "logging-format"
	}
	return pflag.NormalizedName(name)
}

// fraction is a flag's value: an exact decimal of at least 0 and less than 1.
type fraction struct{ value *resource.Quantity }

// String implements pflag.Value.
func (f fraction) String() string {
	q := *f.value
	return q.AsDec().String()
}

// Set implements pflag.Value.
func (f fraction) Set(text string) error {
	q, err := quantity.Parse(text)
	if err != nil || q.Sign() < 0 || q.CmpInt64(1) >= 0 {
		return errors.New("it must be a number of at least 0 and less than 1, such as 0.01")
	}
	*f.value = q
	return nil
}

// Type implements pflag.Value: it is what the help shows as the flag's argument.
func (f fraction) Type() string { return "fraction" }
