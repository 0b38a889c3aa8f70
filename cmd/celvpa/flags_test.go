package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/rules"
)

func TestEveryParameterWithAFlagCanBeSetOnRun(t *testing.T) {
	run, _, err := rootCommand(compileOnce).Find([]string{"run"})
	require.NoError(t, err)
	library, err := policy.Shipped()
	require.NoError(t, err)
	count := 0
	for _, p := range library.Params() {
		if p.Param.Flag == "" {
			continue
		}
		count++
		flag := run.Flags().Lookup(p.Param.Flag)
		require.NotNil(t, flag, "--%s of %s", p.Param.Flag, p.Key)
		require.Equal(t, p.Param.Default.Value, flag.DefValue)
		require.NotEmpty(t, p.Param.Description)
	}
	require.Positive(t, count)
}

// TestTheHelpOfFlagsHasOneStyle: flags of rules, of celvpa and of its libraries begin in lower case, and say CPU.
func TestTheHelpOfFlagsHasOneStyle(t *testing.T) {
	count := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			count++
			require.NotRegexp(t, `^[A-Z]([a-z]|\s)`, f.Usage, "--%s of %s", f.Name, cmd.CommandPath())
			require.NotRegexp(t, `(^|\s)cpu(\s|$)`, f.Usage, "--%s of %s", f.Name, cmd.CommandPath())
		})
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(rootCommand(compileOnce))
	require.Greater(t, count, 200)
}

func TestOnlyGivenFlagsOverrideParameters(t *testing.T) {
	library, err := policy.Shipped()
	require.NoError(t, err)
	o, flags := &options{rules: ruleOptions{params: paramFlags{}}}, pflag.NewFlagSet("test", pflag.ContinueOnError)
	require.NoError(t, o.rules.params.add(flags, library, updaterPart.points...))
	require.NoError(t, flags.Parse([]string{"--min-replicas=3"}))
	got, err := o.rules.options("")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"minReplicas": "3"}, got.Params)
	book, err := load(got)
	require.NoError(t, err)
	shipped, err := load(policy.Options{})
	require.NoError(t, err)
	require.NotEqual(t, shipped.Default().Digest(), book.Default().Digest())
}

// TestAParameterMayBeATimeThatAComponentHasAFlagFor: one flag of celvpa run sets how often the updater looks, and what the
// admission controller, which has a flag of its own elsewhere, warns about.
func TestAParameterMayBeATimeThatAComponentHasAFlagFor(t *testing.T) {
	library, err := policy.Shipped()
	require.NoError(t, err)
	for name, o := range map[string]*options{"with the updater": {rules: ruleOptions{params: paramFlags{}}}, "without it": {rules: ruleOptions{params: paramFlags{}}}} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		if name == "with the updater" {
			o.addUpdater(flags)
		}
		require.NoError(t, o.rules.params.add(flags, library, admissionPart.points...))
		got, err := o.rules.options("")
		require.NoError(t, err)
		require.Empty(t, got.Params, name)
		require.NoError(t, flags.Parse([]string{"--updater-interval=90s"}))
		got, err = o.rules.options("")
		require.NoError(t, err)
		require.Len(t, got.Params, 1, name)
		_, err = load(got)
		require.NoError(t, err, name)
		if name == "with the updater" {
			require.Equal(t, 90*time.Second, o.updater.interval)
		}
	}
}

func TestFeatureGates(t *testing.T) {
	gates, err := parseGates("InPlace=true, PerVPAConfig=false,")
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"InPlace": true, "PerVPAConfig": false}, gates)
	gates, err = parseGates("AllAlpha=true,InPlace=false")
	require.NoError(t, err)
	require.Len(t, gates, 6)
	require.False(t, gates["InPlace"])
	require.True(t, gates["PodLevelResources"])
	for _, bad := range []string{"InPlace", "InPlace=maybe", "InPlaceOrRecreate=true"} {
		_, err := parseGates(bad)
		require.Error(t, err, bad)
	}
}

func TestCRDsArePrinted(t *testing.T) {
	root := rootCommand(compileOnce)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"crd"})
	require.NoError(t, root.Execute())
	require.Contains(t, out.String(), "name: verticalpodautoscalers.autoscaling.k8s.io")
	require.Contains(t, out.String(), "name: verticalpodautoscalercheckpoints.autoscaling.k8s.io")
}

// TestVersionsShareAFlagAndClashesAreReported: neither may panic, as the flag library would.
func TestVersionsShareAFlagAndClashesAreReported(t *testing.T) {
	dir := ownRules(t, "estimate.yaml", "version: 1.0.0", "version: 1.1.0")
	shipped, err := rules.FS.ReadFile("estimate.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "old.yaml"), shipped, 0o600))
	read, err := policy.Open(policy.Options{Path: dir})
	require.NoError(t, err)
	o, flags := &options{rules: ruleOptions{params: paramFlags{}}}, pflag.NewFlagSet("test", pflag.ContinueOnError)
	require.NoError(t, o.rules.params.add(flags, read.Library, recommenderPart.points...))

	read, err = policy.Open(policy.Options{Path: ownRules(t, "estimate.yaml", "cpu: target-cpu-percentile", "cpu: target-memory-percentile")})
	require.NoError(t, err)
	require.ErrorContains(t, paramFlags{}.add(pflag.NewFlagSet("test", pflag.ContinueOnError), read.Library, recommenderPart.points...),
		"asks for flag --target-memory-percentile, which exists already")
}

func TestTimesOfNothingAreRefused(t *testing.T) {
	for _, name := range []string{"recommender-interval", "updater-interval", "rules-reload-interval"} {
		_, err := celvpa(t, "run", "--"+name+"=0s")
		require.EqualError(t, err, "--"+name+" is 0s; it must be greater than 0")
	}
	_, err := celvpa(t, "run", "--cpu-histogram-decay-half-life=0s")
	require.ErrorContains(t, err, "--cpu-histogram-decay-half-life: 0s is below the least allowed, 1ns")
	_, err = celvpa(t, "run", "--memory-aggregation-interval=0s")
	require.ErrorContains(t, err, "--memory-aggregation-interval: 0s is below the least allowed, 1ns")
	_, err = celvpa(t, "run", "--memory-aggregation-interval-count=0")
	require.ErrorContains(t, err, "--memory-aggregation-interval-count: 0 is below the least allowed, 1")
}

// TestTheRecommendersParametersHaveUpstreamsFlags: names and defaults of UPSTREAM.md §8, whose text may differ in form.
func TestTheRecommendersParametersHaveUpstreamsFlags(t *testing.T) {
	cmd := componentCommand("recommender", "", recommenderPart)
	for name, otherwise := range map[string]string{
		"recommendation-margin-fraction": "0.15", "pod-recommendation-min-cpu-millicores": "25", "pod-recommendation-min-memory-mb": "250",
		"target-cpu-percentile": "0.9", "recommendation-lower-bound-cpu-percentile": "0.5", "recommendation-upper-bound-cpu-percentile": "0.95",
		"target-memory-percentile": "0.9", "recommendation-lower-bound-memory-percentile": "0.5", "recommendation-upper-bound-memory-percentile": "0.95",
		"confidence-interval-cpu": "24h", "confidence-interval-memory": "24h",
		"memory-aggregation-interval": "24h", "memory-aggregation-interval-count": "8", "oom-bump-up-ratio": "1.2", "oom-min-bump-up-bytes": "104857600",
		"humanize-memory": "false", "round-cpu-millicores": "1", "round-memory-bytes": "1", "cpu-integer-post-processor-enabled": "false",
		"container-recommendation-max-allowed-cpu": "", "container-recommendation-max-allowed-memory": "",
	} {
		flag := cmd.Flags().Lookup(name)
		require.NotNil(t, flag, name)
		require.Equal(t, otherwise, flag.DefValue, name)
	}
}

func TestFlagsOfUpstreamAreReadAsUpstreamReadsThem(t *testing.T) {
	library, err := policy.Shipped()
	require.NoError(t, err)
	given := func(args ...string) map[string]string {
		o, flags := &options{rules: ruleOptions{params: paramFlags{}}}, pflag.NewFlagSet("test", pflag.ContinueOnError)
		require.NoError(t, o.rules.params.add(flags, library, recommenderPart.points...))
		require.NoError(t, flags.Parse(args))
		got, err := o.rules.options("")
		require.NoError(t, err)
		_, err = load(got)
		require.NoError(t, err, args)
		return got.Params
	}
	require.Equal(t, map[string]string{"humanize-memory.enabled": "true"}, given("--humanize-memory"), "a switch needs no value")
	require.Equal(t, map[string]string{"humanize-memory.enabled": "false"}, given("--humanize-memory=false"))
	require.Equal(t, map[string]string{"wholeCores": "true"},
		given("--cpu-integer-post-processor-enabled"), "two rule sets share it")
	require.Equal(t, map[string]string{"oom-bump.minBump": "1.048576e+08"}, given("--oom-min-bump-up-bytes=1.048576e+08"), "upstream's is a float")
	for _, fine := range []string{"--oom-bump-up-ratio=1", "--oom-bump-up-ratio=0.5", "--oom-min-bump-up-bytes=-1", "--round-cpu-millicores=-1",
		"--round-memory-bytes=0", "--memory-aggregation-interval=24h0m0s", "--ignore-removed-containers=0", "--zero-memory-is-peak=f"} {
		given(fine)
	}
}

func TestFlagsMayBeWrittenWithUnderscores(t *testing.T) {
	cmd := componentCommand("recommender", "", recommenderPart)
	require.NoError(t, cmd.ParseFlags([]string{"--recommender_interval=5s", "--target-cpu-percentile", "0.8", "--v=2", "--stderrthreshold=info"}))
	require.Equal(t, "5s", cmd.Flags().Lookup("recommender-interval").Value.String())
	require.Equal(t, "0.8", cmd.Flags().Lookup("target-cpu-percentile").Value.String())
}

func TestTheFormerNameOfLoggingFormatIsUnderstood(t *testing.T) {
	for _, name := range []string{"--logging-format", "--log-format", "--log_format"} {
		cmd := componentCommand("updater", "", updaterPart)
		require.NoError(t, cmd.ParseFlags([]string{name + "=json"}), name)
		require.Equal(t, "json", cmd.Flag("logging-format").Value.String(), name)
	}
}

func TestTheDecisionsToKeepAreCounted(t *testing.T) {
	require.Contains(t, called(t, "updater", "--decisions-kept=-1"), "--decisions-kept is -1; it must not be less than 0")
}

// TestTheArgumentsOfOtherChartsAreUnderstood: what upstream's chart 0.11 and Fairwinds' pass to their images, which name no command.
func TestTheArgumentsOfOtherChartsAreUnderstood(t *testing.T) {
	leader := func(name string) []string {
		return []string{"--leader-elect=true", "--leader-elect-resource-namespace=vpa", "--leader-elect-resource-name=" + name,
			"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=2s"}
	}
	log := []string{"--v=4", "--stderrthreshold=info"}
	for _, tt := range []struct {
		chart, image string
		args         []string
	}{
		{"upstream's", "recommender", append(leader("vpa-recommender-lease"), log...)},
		{"upstream's", "updater", append(append(leader("vpa-updater-lease"), log...), "--in-place-skip-disruption-budget=true")},
		{"upstream's", "admission-controller", append([]string{"--register-webhook=false"}, log...)},
		{"upstream's", "admission-controller", append([]string{"--reload-cert=true", "--webhook-service=vpa-webhook"}, log...)},
		{"Fairwinds'", "recommender", []string{"--pod-recommendation-min-cpu-millicores=15", "--pod-recommendation-min-memory-mb=100", "--v=4"}},
		{"Fairwinds'", "updater", nil},
		{"Fairwinds'", "updater", []string{"--min-replicas=1", "--eviction-tolerance=0.5"}},
		{"Fairwinds'", "admission-controller", []string{"--register-webhook=false", "--webhook-service=vpa-webhook", "--client-ca-file=/etc/tls-certs/ca",
			"--tls-cert-file=/etc/tls-certs/cert", "--tls-private-key=/etc/tls-certs/key"}},
	} {
		t.Run(tt.chart+" "+tt.image, func(t *testing.T) {
			said := called(t, tt.image, append(tt.args, "--kubeconfig="+filepath.Join(t.TempDir(), "none"))...)
			require.Regexp(t, `no Kubernetes API to talk to`, said, "the arguments are read before that")
			require.NotContains(t, said, "unknown flag")
		})
	}
}
