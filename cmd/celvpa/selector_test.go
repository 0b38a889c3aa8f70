package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// labelled gives a VPA a label.
func labelled(tier, vpa string) string {
	return strings.Replace(vpa, "namespace: web}", "namespace: web, labels: {tier: "+tier+"}}", 1)
}

// tiers are VPAs of two tiers with pods of their own, which share a disruption budget, and one of tier none whose pods gold has.
func tiers() string {
	second := labelled("none", strings.Replace(farOff("StatefulSet", "gold"), "name: gold,", "name: second,", 1))
	out := second
	for _, name := range []string{"gold", "silver"} {
		out += labelled(name, farOff("StatefulSet", name)) + sized("StatefulSet", "", name, 2) +
			running(name+"-0", name, "StatefulSet", name) + running(name+"-1", name, "StatefulSet", name)
	}
	out += "---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all, namespace: web}, spec: {maxUnavailable: 1, selector: {}}}\n"
	return out + running("bare", "bare", "StatefulSet", "nobody")
}

// TestASelectorChoosesWhatIsAnswered, and nothing else: the other VPAs still have their pods.
func TestASelectorChoosesWhatIsAnswered(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "tiers.yaml", tiers())
	usage := write(t, dir, "usage.csv", "timestamp,namespace,pod,container,resource,value\n"+hour("gold-0", "app")+hour("silver-0", "app"))
	candidate := write(t, dir, "candidate.yaml", twoCores)
	for args, want := range map[string]struct {
		has, lacks []string
		no         bool
	}{
		"list -l tier=gold":                        {has: []string{"web        gold  ", "1 VerticalPodAutoscaler:"}, lacks: []string{"silver", "second"}},
		"list -l tier=none":                        {has: []string{"second", "pods-not-taken"}, lacks: []string{"silver"}},
		"list -l tier!=gold":                       {has: []string{"second", "silver"}, lacks: []string{" gold "}},
		"plan --selector tier=gold":                {has: []string{"web/gold-0", "web/gold-1"}, lacks: []string{"silver", "bare"}},
		"plan -l tier=none":                        {lacks: []string{"POD", "gold-0", "bare"}},
		"admit -o table -l tier=silver":            {has: []string{"web/silver-0"}, lacks: []string{"gold", "bare"}},
		"validate -l tier=silver":                  {has: []string{"web/silver: allowed"}, lacks: []string{"gold", "second"}},
		"recommend -l tier=silver --usage":         {has: []string{"web        silver"}, lacks: []string{"gold"}},
		"backtest -l tier=silver --history":        {has: []string{"1 workload,", "silver"}, lacks: []string{"gold"}},
		"backtest -l tier=none --history":          {},
		"explain -l tier=silver":                   {has: []string{"VerticalPodAutoscaler web/silver"}},
		"rules diff --live CANDIDATE -l tier":      {has: []string{"of 3 VerticalPodAutoscalers", "of 4 pods"}},
		"rules diff --live CANDIDATE -l tier=gold": {has: []string{"of 1 VerticalPodAutoscaler ", "of 2 pods"}, lacks: []string{"silver"}},
	} {
		t.Run(args, func(t *testing.T) {
			words := strings.Fields(strings.Replace(args, "CANDIDATE", candidate, 1))
			if last := words[len(words)-1]; last == "--usage" || last == "--history" {
				words = append(words, usage)
			}
			out, _, err := run("", append(words, "-f", file)...)
			if len(want.has)+len(want.lacks) == 0 {
				require.ErrorContains(t, err, "no usage belongs to a workload of the VerticalPodAutoscalers that are selected")
				return
			}
			require.NoError(t, err)
			for _, text := range want.has {
				require.Contains(t, out, text)
			}
			for _, text := range want.lacks {
				require.NotContains(t, out, text)
			}
		})
	}
}

// TestASelectorThatCannotWork is refused, and one that matches nothing says so.
func TestASelectorThatCannotWork(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "tiers.yaml", tiers())
	usage := write(t, dir, "usage.csv", "timestamp,namespace,pod,container,resource,value\n"+hour("gold-0", "app"))
	candidate := write(t, dir, "candidate.yaml", twoCores)
	none := "no VerticalPodAutoscaler in " + file + " matches -l tier=bronze"
	for _, command := range []string{"list", "plan", "admit", "validate", "recommend", "backtest --history " + usage, "rules diff --live " + candidate} {
		_, _, err := run("", append(strings.Fields(command), "-f", file, "-l", "tier=bronze")...)
		require.ErrorContains(t, err, none, command)
	}
	_, _, err := run("", "explain", "-f", file, "-l", "tier=bronze")
	require.EqualError(t, err, "no VerticalPodAutoscaler in any namespace matches -l tier=bronze")
	_, _, err = run("", "explain", "-f", file, "-l", "tier")
	require.EqualError(t, err, "name one object to explain: there are the VerticalPodAutoscalers web/gold, web/second, web/silver")
	_, _, err = run("", "explain", "-f", file, "-l", "tier=gold", "silver")
	require.EqualError(t, err, "name an object, or choose one with -l, but not both: silver -l tier=gold")
	out, _, err := run("", "list", "-f", file, "-l", "")
	require.NoError(t, err)
	require.Contains(t, out, "3 VerticalPodAutoscalers", "an empty selector selects all, as in kubectl")
	_, _, err = run("", "list", "-f", file, "-l", "tier=gold=silver")
	require.ErrorContains(t, err, `invalid argument "tier=gold=silver" for "-l, --selector" flag`)
	_, _, err = run("", "rules", "diff", "shipped", "shipped", "-l", "tier=gold")
	require.ErrorContains(t, err, "--selector and --now are for --live")
	_, _, err = run("", "backtest", "-f", file, "-l", "tier=gold", "--history", os.DevNull, "--choose", "true", "--sweep", "estimate.marginFraction=0.1,0.2")
	require.ErrorContains(t, err, "--class label:KEY")
}

// TestANamespaceNarrowsManifests as it does a cluster: pods of no VPA are still there.
func TestANamespaceNarrowsManifests(t *testing.T) {
	for command, want := range map[string][2]string{"list": {"within-range", "too-few-replicas"}, "plan": {"within-range/api-0", "too-few-replicas/blog-0"}, "admit -o table": {"within-range/api-0", "too-few-replicas/blog-0"}} {
		out, _, err := run("", append(strings.Fields(command), "-f", "../../examples/updater", "-n", "within-range")...)
		require.NoError(t, err, command)
		require.Contains(t, out, want[0], command)
		require.NotContains(t, out, want[1], command)
	}
	out, _, err := run("", "plan", "-f", "../../examples/updater", "-n", "left-alone")
	require.NoError(t, err)
	require.Contains(t, out, "left-alone/lonely")
	_, _, err = run("", "plan", "-f", "../../examples/updater", "-n", "nowhere")
	require.EqualError(t, err, "no VerticalPodAutoscaler in ../../examples/updater of namespace nowhere")
	_, _, err = run("", "explain", "within-range/api", "-f", "../../examples/updater")
	require.EqualError(t, err, `"within-range" is not a kind; for namespace within-range, write api -n within-range`)
}

// TestLabelsOfTwoVPAsOfOneName: regression, the one that came last counted without a word, and with it whether an overlay applied.
func TestLabelsOfTwoVPAsOfOneName(t *testing.T) {
	one := vpaOf("Deployment", "shop")
	two := strings.Replace(one, "metadata: {", "metadata: {annotations: {rules.celvpa.dev/pipeline: default@1.0.0}, ", 1)
	require.NotEqual(t, one, two)
	_, stderr, err := run(one+two, "validate", "-f", "-")
	require.NoError(t, err)
	require.NotContains(t, stderr, "other labels", "each is judged")
	_, stderr, _ = run(one+two, "list", "-f", "-")
	require.Contains(t, stderr, "VerticalPodAutoscaler web/shop has other labels or annotations at standard input:2, which do not count")
}
