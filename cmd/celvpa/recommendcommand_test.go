package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/simulate"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// recommendationTable is the table of one container of web/shop.
func recommendationTable(cells string) string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, line := range []string{"NAMESPACE VPA CONTAINER TARGET-CPU CPU-RANGE TARGET-MEMORY MEMORY-RANGE", "web shop app " + cells} {
		fmt.Fprintln(table, strings.ReplaceAll(line, " ", "\t"))
	}
	_ = table.Flush()
	return out.String()
}

// TestTheRecommendCommand: flags, exit codes and what is printed.
func TestTheRecommendCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	write("shop.yaml", vpaOf("Deployment", "shop")+deploymentOf("shop", "app"))
	write("alone.yaml", vpaOf("Deployment", "alone"))
	write("usage.csv", hour("shop-7c5687bd57-659fr", "app"))
	write("falling.csv", minutes(60, "shop-7c5687bd57-659fr", "app", func(i int) string { return map[bool]string{true: "1", false: "0.1"}[i < 30] }, func(i int) string { return map[bool]string{true: "1073741824", false: "209715200"}[i < 30] }))
	write("bad.csv", "soon,web,shop-7c5687bd57-659fr,app,cpu,1\n"+hour("shop-7c5687bd57-659fr", "app"))
	row := recommendationTable("126m 120m..3201m 250Mi 250Mi..5.87Gi")
	const unsure = "\n" + unsureText + "web/shop\n"
	for name, tt := range map[string]struct {
		args, stdin, out, fails string
		no                      bool
	}{
		"a table":                        {args: "-f shop.yaml --usage usage.csv", out: row + unsure},
		"standard input":                 {args: "-f shop.yaml --usage -", stdin: hour("shop-7c5687bd57-659fr", "app"), out: row + unsure},
		"a row that cannot be used":      {args: "-f shop.yaml --usage bad.csv", out: "celvpa: bad.csv:1: \"soon\" is not a time: write it like 2026-01-31T12:00:00Z or as seconds since 1970; this row is left out\n" + row + unsure},
		"a moment in the past":           {args: "-f shop.yaml --usage usage.csv --now 2026-01-01T00:01:00Z", out: "celvpa: ignored 116 rows of usage later than 2026-01-01T00:01:00Z\n" + recommendationTable("126m 25m..182 250Mi 250Mi..333Gi") + unsure},
		"usage that falls":               {args: "-f shop.yaml --usage falling.csv", out: recommendationTable("1168m 120m..29675m 1.15Gi 1.1Gi..29.3Gi") + unsure},
		"params and half-lives":          {args: "-f shop.yaml --usage falling.csv --recommendation-margin-fraction 1 --memory-aggregation-interval 1m --memory-histogram-decay-half-life 1m --cpu-histogram-decay-half-life 1m", out: recommendationTable("220m 209m..5589m 412Mi 392Mi..10.2Gi") + unsure},
		"a file that is missing":         {args: "-f shop.yaml --usage usage.csv --usage missing.csv", out: row + unsure, fails: "cannot read usage from missing.csv: no such file or directory"},
		"a manifest twice":               {args: "-f shop.yaml -f shop.yaml --usage usage.csv", out: "celvpa: shop.yaml:4: Deployment web/shop is already defined at shop.yaml:4; keep one of them; the first counts\n" + row + unsure},
		"two manifests of one":           {args: "-f shop.yaml -f - --usage usage.csv", stdin: strings.Replace(vpaOf("Deployment", "shop"), "spec: {", "spec: {updatePolicy: {updateMode: Initial}, ", 1), fails: "VerticalPodAutoscaler web/shop has different specs at shop.yaml:2 and standard input:2; keep one of them: none is used"},
		"an object that does not fit":    {args: "-f shop.yaml -f - --usage usage.csv", stdin: strings.Replace(vpaOf("Deployment", "odd"), "spec: {", "spec: {updatePolicy: [], ", 1), out: row + unsure, fails: "standard input:2: VerticalPodAutoscaler web/odd cannot be used: spec.updatePolicy cannot be read: it is []"},
		"no VPA":                         {args: "-f -", fails: "there is no VerticalPodAutoscaler in -: nothing was recommended"},
		"a half-life in days":            {args: "-f shop.yaml --cpu-histogram-decay-half-life 1d", fails: `"1d" is not a duration such as 30s, 5m or 24h`},
		"a half-life of nothing":         {args: "-f shop.yaml --memory-histogram-decay-half-life 0s", fails: "--memory-histogram-decay-half-life: 0s is below the least allowed, 1ns"},
		"a time that is none":            {args: "-f shop.yaml --now soon", fails: `--now: "soon" is not a time`},
		"an output that there is not":    {args: "-f shop.yaml -o xml", fails: `--output is "xml"; use table, wide, name, json or yaml`},
		"standard input for two things":  {args: "-f - --usage -", fails: "-f and --usage cannot both be standard input"},
		"no path":                        {fails: "no manifests are named with -f, and there is no cluster to read: "},
		"a path without -f":              {args: "shop.yaml", fails: "files are named with -f: celvpa recommend -f shop.yaml"},
		"rules that are not there":       {args: "-f shop.yaml --pipeline nothing", fails: `pipeline "nothing"`},
		"a quantity that takes for ever": {args: "-f -", stdin: strings.Replace(vpaOf("Deployment", "shop"), "spec: {", "spec: {resourcePolicy: {containerPolicies: [{containerName: a, minAllowed: {cpu: '1e999999999'}}]}, ", 1), fails: "VerticalPodAutoscaler web/shop cannot be used: spec.resourcePolicy.containerPolicies[0].minAllowed.cpu: Invalid value: an exponent has at most three digits"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := piped(t, tt.stdin, append([]string{"recommend"}, strings.Fields(tt.args)...)...)
			require.Equal(t, tt.out, out)
			requireEnd(t, err, tt.fails, tt.no)
		})
	}
}

// TestTheJSONOfRecommendIsAContract: scripts depend on its names, and on lists that are there when they are empty. YAML is the
// same.
func TestTheJSONOfRecommendIsAContract(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("usage.csv", []byte(minutes(1, "shop-0", "app", is("0.1"), is("209715200"))), 0o600))
	recommend := func(args ...string) string {
		out, _, err := run(vpaOf("StatefulSet", "shop")+workloadOf("StatefulSet", "", "shop", "app"), append([]string{"recommend", "-f", "-", "--usage", "usage.csv"}, args...)...)
		require.NoError(t, err)
		return out
	}
	book, err := load(policy.Options{})
	require.NoError(t, err)
	got := recommend("-o", "json")
	require.JSONEq(t, `{"items":[{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"name":"shop","namespace":"web"},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"shop"}},
		"status":{"observedGeneration":0,
			"conditions":[
				{"type":"LowConfidence","status":"True","reason":"LittleHistory","message":"little usage is known yet, and bounds are wide, of container app","lastTransitionTime":"2026-01-01T00:00:00Z"},
				{"type":"RecommendationProvided","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},
				{"type":"RulesApplied","status":"True","reason":"default@1.0.0","message":"digest `+book.Default().Digest()+`","lastTransitionTime":"2026-01-01T00:00:00Z"}],
			"recommendation":{"containerRecommendations":[{"containerName":"app",
				"target":{"cpu":"126m","memory":"250Mi"},"uncappedTarget":{"cpu":"126m","memory":"250Mi"},
				"lowerBound":{"cpu":"25m","memory":"250Mi"},"upperBound":{"cpu":"100G","memory":"97656250000Ki"}}]}}}],
		"traces":[]}`, got)
	require.Equal(t, got, recommend("-o", "json"), "it is the same every time")

	var report simulate.Recommendations
	require.NoError(t, yaml.UnmarshalStrict([]byte(recommend("-o", "yaml", "--explain")), &report))
	require.Len(t, report.Traces, 1)
	trace := report.Traces[0]
	require.Equal(t, []string{"web/shop", "app"}, []string{trace.VPA, trace.Container})
	require.Equal(t, engine.Step{RuleSet: "container-mode", Version: "1.0.0", Rule: "scaled", At: trace.Steps[0].At, To: "Scale"}, trace.Steps[0])
	require.Equal(t, engine.Step{RuleSet: "clock-skew", Version: "1.0.0", Stage: "limit", Rule: "max-clock-skew", At: trace.Steps[6].At, Field: "window.clockSkew", From: "unset", To: "1h0m0s"}, trace.Steps[6])
	require.Equal(t, engine.Step{RuleSet: "estimate", Version: "1.0.0", Stage: "bounds", Rule: "target", At: trace.Steps[10].At, Item: "target", Field: "now.cpu", From: "unset", To: "110m"}, trace.Steps[10])
	require.Regexp(t, `^rules/estimate\.yaml:[0-9]+:[0-9]+$`, trace.Steps[10].At)
}
