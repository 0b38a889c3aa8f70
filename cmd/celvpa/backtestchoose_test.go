package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/backtest"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

const noOOMs = "ooms == 0 && cpuOver <= upstream.cpuOver"

// chosen runs a choice on the example, in fewer cycles than usual.
func chosen(t *testing.T, wants error, args ...string) (backtest.Report, string) {
	text, err := backtested(t, append([]string{"--interval", "5m", "-o", "json"}, args...)...)
	require.ErrorIs(t, err, wants)
	var out backtest.Report
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	require.NotNil(t, out.Choice)
	return out, text
}

// TestWhatIsChosenIsWhatIsWritten: enforced, the overlay makes the figures that the choice promises, and it is found again.
func TestWhatIsChosenIsWhatIsWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chosen.yaml")
	args := []string{"--sweep", "estimate.marginFraction=0.1,0.2,0.3", "--choose", noOOMs, "--least", "cores", "--class", "namespace", "--write", file}
	report, text := chosen(t, nil, args...)
	_, again := chosen(t, nil, args...)
	require.Equal(t, text, again)
	choice := report.Choice
	require.Equal(t, []string{"payments", "shop"}, []string{choice.Classes[0].Class, choice.Classes[1].Class})
	require.Equal(t, "shipped[estimate.marginFraction=0.2]", choice.Classes[0].Policy)
	require.Equal(t, choice.Split, report.Window.To)
	for i, class := range choice.Classes {
		for _, p := range report.Policies {
			if p.Name == class.Policy {
				require.Equal(t, p.Classes[i].Measures, class.First.Chosen, "the figures by which it was chosen")
			}
		}
	}
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, choice.Apply, string(written))
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(choice.Apply, "mode: Audit", "mode: Enforce", 1)), 0o600))
	out, err := backtested(t, "--interval", "5m", "-o", "json", "-f", file, "--to", choice.Split.Format(time.RFC3339))
	require.NoError(t, err)
	var applied backtest.Report
	require.NoError(t, json.Unmarshal([]byte(out), &applied))
	require.Equal(t, backtest.Shipped, applied.Policies[3].Name)
	require.Equal(t, choice.All.First.Chosen.OOMs, applied.Policies[3].Fleet.OOMs)
	require.Equal(t, choice.All.First.Chosen.Evictions, applied.Policies[3].Fleet.Evictions)
	require.InEpsilon(t, choice.All.First.Chosen.CPU.RequestedCoreHours, applied.Policies[3].Fleet.CPU.RequestedCoreHours, 1e-3)

	_, again = chosen(t, nil, append(args, "-f", file)...)
	require.Equal(t, text, again, "an earlier choice does not count")
}

// TestAPipelineIsChosenByAnOverlay with the params of its sweep, below other overlays.
func TestAPipelineIsChosenByAnOverlay(t *testing.T) {
	dir := t.TempDir()
	other := write(t, dir, "other.yaml", "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: other}\nspec: {priority: -3, match: {namespaces: [nowhere]}, change: [{params: {estimate.marginFraction: 0.9}}]}\n")
	report, _ := chosen(t, nil, "-f", other, "--pipelines", "careful", "--sweep", "estimate.marginFraction=0.5", "--sweep", "recent=2h",
		"--choose", "cores > 1.7 * upstream.cores", "--least", "cpuOver", "--class", "kind")
	for _, class := range report.Choice.Classes {
		require.Equal(t, "careful[estimate.marginFraction=0.5 recent=2h]", class.Policy)
		require.Less(t, class.First.Chosen.CPU.OverRequestShare, class.First.Upstream.CPU.OverRequestShare)
	}
	require.Equal(t, `# Chosen by celvpa backtest, from 2026-03-02T00:00:00Z to 2026-03-07T14:20:00Z:
# the least cpuOver with cores > 1.7 * upstream.cores.
# The components have to run with --pipelines careful@1.0.0.
# Mode Audit only reports; set mode Enforce to apply an overlay.
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata:
  name: chosen-deployment
spec:
  change:
  - use: careful@1.0.0
  - params:
      estimate.marginFraction: 0.5
      recent: 2h
  match:
    kinds:
    - Deployment
  mode: Audit
  priority: -4
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata:
  name: chosen-statefulset
spec:
  change:
  - use: careful@1.0.0
  - params:
      estimate.marginFraction: 0.5
      recent: 2h
  match:
    kinds:
    - StatefulSet
  mode: Audit
  priority: -4
`, report.Choice.Apply)
}

// TestIfNoPolicyWillDo the class keeps its own, the nearest is named, and the answer is no.
func TestIfNoPolicyWillDo(t *testing.T) {
	out, err := backtested(t, "--interval", "5m", "--sweep", "estimate.marginFraction=0.3", "--choose", "ooms < 0 && cores < 2.1", "--train", "120h")
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, "2026-03-02T00:00:00Z to 2026-03-07T00:00:00Z, 5d: ")
	require.Regexp(t, `Class all keeps shipped, because no policy satisfies the condition\. shipped(\[estimate\.marginFraction=0\.3\])? comes closest, but fails ooms < 0 \(\d and 0\)`, strings.Join(strings.Fields(out), " "))
	require.Contains(t, out, "# There is nothing to apply: every class keeps its policy.\n")
}

func TestClassesAreWhatOverlaysMatch(t *testing.T) {
	v := &vpav1.VerticalPodAutoscaler{}
	v.Namespace, v.Labels = "shop", map[string]string{"tier": "gold"}
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{Kind: "Deployment"}
	pinned := v.DeepCopy()
	metav1.SetMetaDataAnnotation(&pinned.ObjectMeta, "rules.celvpa.dev/pipeline", "follow@1.0.0")
	for class, want := range map[string][3]string{ // of the VPA, its match, and the name of its overlay
		"all":        {"all", "null", "chosen"},
		"namespace":  {"shop", `{"namespaces":["shop"]}`, "chosen-shop"},
		"kind":       {"Deployment", `{"kinds":["Deployment"]}`, "chosen-deployment"},
		"label:tier": {"gold", `{"vpaSelector":{"matchLabels":{"tier":"gold"}}}`, "chosen-gold"},
		"label:team": {"-", `{"vpaSelector":{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}}`, "chosen"},
	} {
		c := &chooser{class: class}
		require.Equal(t, want[0], c.classOf(v), class)
		require.Empty(t, c.classOf(pinned), class)
		match, err := json.Marshal(c.match(c.classOf(v)))
		require.NoError(t, err)
		require.JSONEq(t, want[1], string(match), class)
		require.Equal(t, want[2], (&orders{}).name(c.classOf(v)), class)
	}
}

func TestChoicesThatCannotBeMade(t *testing.T) {
	sweep := []string{"--sweep", "estimate.marginFraction=0.3"}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"least without choose":    {append(sweep, "--least", "cores"), "--least is for --choose: say which policies will do, such as --choose 'ooms <= upstream.ooms'"},
		"class without choose":    {append(sweep, "--class", "kind"), "--class is for --choose: "},
		"train without choose":    {append(sweep, "--train", "50%"), "--train is for --choose: "},
		"write without choose":    {append(sweep, "--write", "x.yaml"), "--write is for --choose: "},
		"nothing to choose from":  {[]string{"--choose", "true", "--pipelines", ""}, "--choose has nothing to choose from: add --sweep, or leave out --pipelines"},
		"an empty condition":      {append(sweep, "--choose", ""), "--choose: it is empty: write a condition, such as ooms <= upstream.ooms"},
		"an unknown figure":       {append(sweep, "--choose", "evictoins == 0"), "--choose: there is no figure evictoins; did you mean evictions? figures are cores, gib, "},
		"no condition":            {append(sweep, "--choose", "cores"), "--choose: it is not a condition but of type double: compare it with something"},
		"an unknown least":        {append(sweep, "--choose", "true", "--least", "corse"), "--least: there is no figure corse; did you mean cores? "},
		"an unknown class":        {append(sweep, "--choose", "true", "--class", "label:"), `--class is "label:"; it is all, namespace, kind or label:KEY`},
		"no part":                 {append(sweep, "--choose", "true", "--train", "all"), `--train is "all"; it is a share of the history, such as 70%, or a duration, such as 120h`},
		"the whole":               {append(sweep, "--choose", "true", "--train", "100%"), `--train is "100%"; `},
		"a part of no length":     {append(sweep, "--choose", "true", "--train", "0s"), `--train is "0s"; `},
		"as CSV":                  {append(sweep, "--choose", "true", "-o", "csv"), "--choose is for -o table, wide, json and yaml"},
		"a history too short":     {append(sweep, "--choose", "true", "--from", "2026-03-09T00:00:00Z"), "--train 70%: the history is 23h long, the first part would be 16h and the rest 7h9m: either must be 24h or longer, "},
		"a file that is a folder": {append(sweep, "--choose", "true", "--interval", "1h", "--write", "/"), "--write: open /: is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := backtested(t, tt.args...)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
