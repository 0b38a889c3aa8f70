package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest"
)

const (
	backtestObjects = "../../examples/backtest/workloads.yaml"
	backtestHistory = "../../examples/backtest/usage.csv.gz"
)

// backtested runs a backtest of the example with more arguments.
func backtested(t *testing.T, args ...string) (string, error) {
	return celvpa(t, append([]string{"backtest", "-f", backtestObjects, "--history", backtestHistory}, args...)...)
}

// TestABacktestHasTheShapeThatScriptsDependOn, by the words of its first users.
func TestABacktestHasTheShapeThatScriptsDependOn(t *testing.T) {
	out, err := backtested(t, "-o", "json", "--sweep", "estimate.marginFraction=0.5")
	require.NoError(t, err)
	type measures struct {
		CPU struct {
			SlackMean, OverRequestShare, ThrottledCoreSeconds, RequestedCoreHours *float64
		}
		Memory struct {
			SlackMeanBytes, OverRequestShare, RequestedGiBHours *float64
		}
		OOMs, Evictions, Resizes *int
	}
	var report struct {
		Window   struct{ From, To time.Time }
		Policies []struct {
			Name       string
			Params     map[string]string
			Containers []struct {
				Namespace, Workload, Container string
				measures
				FirstRecommendationSeconds *int
			}
			Fleet measures
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, "2026-03-02T00:00:00Z", report.Window.From.Format(time.RFC3339))
	var names []string
	for _, p := range report.Policies {
		names = append(names, p.Name)
		require.Len(t, p.Containers, 3)
		sum, evictions := 0.0, 0
		for _, c := range append([]measures{p.Fleet}, p.Containers[0].measures, p.Containers[1].measures, p.Containers[2].measures) {
			for _, value := range []*float64{c.CPU.SlackMean, c.CPU.OverRequestShare, c.CPU.ThrottledCoreSeconds, c.CPU.RequestedCoreHours, c.Memory.SlackMeanBytes, c.Memory.OverRequestShare, c.Memory.RequestedGiBHours} {
				require.NotNil(t, value)
			}
			require.NotNil(t, c.OOMs)
			require.NotNil(t, c.Resizes)
		}
		for _, c := range p.Containers {
			sum, evictions = sum+*c.CPU.SlackMean, evictions+*c.Evictions
			require.Equal(t, p.Name == backtest.Manifest || p.Name == backtest.Hindsight, c.FirstRecommendationSeconds == nil, p.Name)
		}
		require.InEpsilon(t, sum, *p.Fleet.CPU.SlackMean, 1e-9)
		require.Equal(t, evictions, *p.Fleet.Evictions)
	}
	require.Equal(t, []string{"manifest", "hindsight", "upstream", "shipped", "shipped[estimate.marginFraction=0.5]", "follow", "careful"}, names)
	require.Equal(t, map[string]string{"estimate.marginFraction": "0.5"}, report.Policies[4].Params)
}

// TestABacktestAsCSV has a row for each policy and container, and one for each fleet.
func TestABacktestAsCSV(t *testing.T) {
	out, err := backtested(t, "-o", "csv")
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+6*(3+1))
	require.Equal(t, []string{"policy", "namespace", "workload", "kind", "container", "cpu_slack_mean"}, rows[0][:6])
	require.Equal(t, []string{"shipped", "payments", "books", "StatefulSet", "books"}, rows[13][:5])
	require.Equal(t, []string{"shipped", "", "", "", ""}, rows[16][:5])
}

// TestABacktestOfAPartOfTheHistory, from a moment to another.
func TestABacktestOfAPartOfTheHistory(t *testing.T) {
	out, err := backtested(t, "--from", "2026-03-03T00:00:00Z", "--to", "2026-03-04T00:00:00Z")
	require.NoError(t, err)
	require.Contains(t, out, "2026-03-03T00:00:00Z to 2026-03-04T00:00:00Z, 1d: 3 workloads, 3 containers.")
}

// TestBacktestsThatCannotRun say what is wrong, and what to do.
func TestBacktestsThatCannotRun(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	overlay := "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: o}\nspec: {change: [{params: {estimate.marginFraction: 1}}]}\n"
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no history":                    {[]string{"-f", backtestObjects}, "--history says where usage comes from: name a file, or the URL of a Prometheus"},
		"a missing file":                {[]string{"-f", backtestObjects, "--history", "missing.csv"}, "cannot read usage from missing.csv: no such file or directory\nthe history is empty: nothing was replayed"},
		"usage of others":               {[]string{"-f", backtestObjects, "--history", file("others.csv", "2026-01-01T00:00:00Z,web,p,app,cpu,1\n")}, "no usage belongs to a workload of the manifests: nothing was replayed; name the workloads with -f"},
		"a form that there is not":      {[]string{"-f", backtestObjects, "--history", backtestHistory, "-o", "xml"}, `--output is "xml"; use `},
		"an interval of nothing":        {[]string{"-f", backtestObjects, "--history", backtestHistory, "--interval", "0s"}, "--interval is 0s; it must be a second or more"},
		"a clock that was never set":    {[]string{"-f", backtestObjects, "--history", file("clock.csv", "1970-01-01T00:00:00Z,payments,books-0,books,cpu,1\n2026-01-01T00:00:00Z,payments,books-0,books,cpu,1\n")}, "the history goes from 1970-01-01T00:00:00Z (pod payments/books-0) to 2026-01-01T00:00:00Z (pod payments/books-0), which is "},
		"an end before the beginning":   {[]string{"-f", backtestObjects, "--history", backtestHistory, "--from", "2026-03-05T00:00:00Z", "--to", "2026-03-04T00:00:00Z"}, "--from 2026-03-05T00:00:00Z is not before --to 2026-03-04T00:00:00Z"},
		"no usage of that time":         {[]string{"-f", backtestObjects, "--history", backtestHistory, "--from", "2027-03-05T00:00:00Z"}, "the history has no usage from 2027-03-05T00:00:00Z on: nothing was replayed; see --from and --to"},
		"no usage before a time":        {[]string{"-f", backtestObjects, "--history", backtestHistory, "--to", "2020-03-05T00:00:00Z"}, "the history has no usage up to 2020-03-05T00:00:00Z: nothing"},
		"no usage between two times":    {[]string{"-f", backtestObjects, "--history", backtestHistory, "--from", "1", "--to", "2"}, "the history has no usage from 1 to 2: nothing"},
		"a history of one moment":       {[]string{"-f", backtestObjects, "--history", file("moment.csv", "2026-01-01T00:00:00Z,payments,books-0,books,cpu,1\n")}, "the history has workloads of the manifests at one time only, 2026-01-01T00:00:00Z: nothing was replayed"},
		"a time that is none":           {[]string{"-f", backtestObjects, "--history", backtestHistory, "--from", "monday"}, "--from: "},
		"a price below 0":               {[]string{"-f", backtestObjects, "--history", backtestHistory, "--price-core-hour", "-1"}, "--price-core-hour and --price-gib-hour must not be less than 0"},
		"series in a table":             {[]string{"-f", backtestObjects, "--history", backtestHistory, "--series", "5"}, "--series is for "},
		"standard input twice":          {[]string{"-f", "-", "--history", "-"}, "-f and --history cannot both be standard input"},
		"a missing folder":              {[]string{"-f", backtestObjects, "--history", backtestHistory, "--rules", "missing"}, "--rules: cannot read missing: no such file or directory; name a folder or file of rules"},
		"folders of one name":           {[]string{"-f", backtestObjects, "--history", backtestHistory, "--rules", file("a/same/o.yaml", overlay), "--rules", file("b/same/o.yaml", overlay)}, `two policies are called "o": rename a folder of rules`},
		"a sweep of nothing":            {[]string{"--sweep", "estimate.marginFraction"}, "--sweep estimate.marginFraction: it is not of the form set.param=value,value, such as estimate.marginFraction=0.05,0.15"},
		"an empty value":                {[]string{"--sweep", "estimate.marginFraction=1,"}, "--sweep estimate.marginFraction=1,: a value is empty; name the values to try, with commas between them"},
		"a value twice":                 {[]string{"--sweep", "estimate.marginFraction=1,1"}, "--sweep estimate.marginFraction=1,1: the value 1 is named twice"},
		"a parameter twice":             {[]string{"--sweep", "estimate.marginFraction=1", "--sweep", "estimate.marginFraction=2"}, "--sweep estimate.marginFraction=2: estimate.marginFraction is swept twice; name all its values at once"},
		"an unknown parameter":          {[]string{"--sweep", "oom-bump.rate=1"}, "--sweep oom-bump.rate=1: policy shipped has no such parameter; did you mean oom-bump.ratio?"},
		"the flag of a parameter":       {[]string{"--sweep", "--recommendation-margin-fraction=1"}, "--sweep --recommendation-margin-fraction=1: policy shipped has no such parameter; did you mean estimate.marginFraction?"},
		"words of flags of parameters":  {[]string{"--sweep", "cpuPercentile=1"}, "--sweep cpuPercentile=1: policy shipped has no such parameter; did you mean estimate.target.cpu or estimate.lower.cpu or estimate.upper.cpu?"},
		"a parameter without its set":   {[]string{"--sweep", "marginFraction=1"}, "--sweep marginFraction=1: policy shipped has no such parameter; did you mean estimate.marginFraction?"},
		"a value of another type":       {[]string{"--sweep", "estimate.marginFraction=much"}, `--sweep estimate.marginFraction=much: --recommendation-margin-fraction: "much" is not a finite number (param marginFraction of RuleSet estimate@1.0.0, at rules/estimate.yaml:24:12)`},
		"a value that is not allowed":   {[]string{"--sweep", "estimate.marginFraction=-1"}, "-1 is below the least allowed, 0"},
		"a parameter that cannot act":   {[]string{"--sweep", "eviction.resizeWithoutAdmission=false"}, "--sweep eviction.resizeWithoutAdmission=false: this parameter does nothing in celvpa backtest"},
		"a parameter behind a gate":     {[]string{"--sweep", "maxBoostedCPU=1,2"}, "behind a feature gate; add --feature-gates=CPUStartupBoost=true"},
		"more combinations than anyone": {[]string{"--sweep", "estimate.marginFraction=" + numbers(15), "--sweep", "oom-bump.ratio=" + numbers(15)}, "--sweep: there are 225 or more combinations of values for 1 sets of rules; the limit is 200 policies: try fewer values at a time"},
	} {
		t.Run(name, func(t *testing.T) {
			args := tt.args
			if args[0] == "--sweep" {
				args = append([]string{"-f", backtestObjects, "--history", backtestHistory}, args...)
			}
			out, err := celvpa(t, append([]string{"backtest"}, args...)...)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, out, "POLICY")
		})
	}
}

// numbers are from 1 on, with commas between them.
func numbers(n int) string {
	var out []string
	for i := range n {
		out = append(out, "1."+strings.Repeat("1", i+1))
	}
	return strings.Join(out, ",")
}

// TestABarSaysHowLongTheRestMayTake on a terminal; a file has nothing of it.
func TestABarSaysHowLongTheRestMayTake(t *testing.T) {
	begin := time.Now().Add(-10 * time.Second)
	for terminal, want := range map[bool]string{true: "\r\x1b[Kcelvpa: replaying [#######                       ] 25%, 30s left", false: ""} {
		var out bytes.Buffer
		p := &progress{to: &out, terminal: terminal}
		p.bar("replaying", begin, 25, 100)
		require.Equal(t, want, out.String())
	}
}

// TestAnAuditedOverlayIsTriedAsIfEnforced, and one that is enforced counts in policy shipped alone. An overlay is laid over the
// rules once.
func TestAnAuditedOverlayIsTriedAsIfEnforced(t *testing.T) {
	overlay := "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: o}\nspec: {mode: MODE, match: {namespaces: [payments]}, change: [{params: {estimate.marginFraction: 0.3}}]}\n"
	type policies struct {
		Policies []struct {
			Name, SameAs string
			Enforces     []string
			Fleet        struct{ OOMs int }
		}
	}
	run := func(mode string) (out policies) {
		text, err := piped(t, strings.Replace(overlay, "MODE", mode, 1), "backtest", "-f", "-", "-f", backtestObjects, "--history", backtestHistory, "-o", "json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(text), &out))
		return out
	}
	audited := run("Audit").Policies
	require.Len(t, audited, 7)
	require.Equal(t, backtest.Upstream, audited[3].SameAs)
	require.Equal(t, 1, audited[3].Fleet.OOMs)
	require.Equal(t, "shipped+o", audited[4].Name)
	require.Equal(t, []string{"o"}, audited[4].Enforces)
	require.Zero(t, audited[4].Fleet.OOMs)
	enforced := run("Enforce").Policies
	require.Len(t, enforced, 6)
	require.Empty(t, enforced[3].SameAs)
	require.Zero(t, enforced[3].Fleet.OOMs)
}

// TestPipelinesThatNobodyAskedForAreInNobodysWay: rules that they do not go with, and a folder with the name of one.
func TestPipelinesThatNobodyAskedForAreInNobodysWay(t *testing.T) {
	dir := t.TempDir()
	const rule = "rules: [{name: target, set: {\"now[resource]\": \"percentile(usage[resource], 0.9)\"}}]"
	bare := write(t, dir, "bare.yaml", "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: estimate}\nspec: {version: 1.0.0, point: container.estimate, stages: [{name: bounds, each: [bound, resource], when: resource in usage, "+rule+"}]}\n")
	args := []string{"backtest", "-f", backtestObjects, "--history", backtestHistory, "--interval", "1h", "--rules", bare}
	out, stderr, err := run("", args...)
	require.NoError(t, err)
	require.Contains(t, stderr, "celvpa: pipelines follow and careful do not go with these rules, and are not tried; --pipelines follow,careful says why\n")
	require.Contains(t, out, "\nbare ")
	require.NotContains(t, out, "\nfollow ")
	_, _, err = run("", append(args, "--pipelines", "follow")...)
	require.ErrorContains(t, err, `has no parameter "estimate.target.cpu"`)

	follow := write(t, dir, "follow.yaml", "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: o}\nspec: {change: [{params: {estimate.marginFraction: 1}}]}\n")
	out, stderr, err = run("", "backtest", "-f", backtestObjects, "--history", backtestHistory, "--interval", "1h", "--rules", follow)
	require.NoError(t, err, stderr)
	require.Equal(t, 1, strings.Count(out, "\nfollow "), "it is the folder's")
	require.Contains(t, out, "\ncareful ")
}
