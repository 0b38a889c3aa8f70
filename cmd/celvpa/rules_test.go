package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/rules"
)

func TestRulesAreListedAndShown(t *testing.T) {
	t.Parallel()
	out, err := celvpa(t, "rules", "list", "-o", "wide")
	require.NoError(t, err)
	require.Regexp(t, `^pipeline default@1\.0\.0, digest [0-9a-f]{12}, the default\n`, out)
	require.Regexp(t, `container\.recommend +container-caps@1\.0\.0 +rules/container-caps\.yaml:3:18 `, out)
	out, err = celvpa(t, "rules", "show", "container-caps@1.0.0")
	require.NoError(t, err)
	shipped, err := rules.FS.ReadFile("container-caps.yaml")
	require.NoError(t, err)
	header, source, _ := strings.Cut(out, "\n")
	require.Regexp(t, `^# rules/container-caps\.yaml, digest [0-9a-f]{12}$`, header)
	require.Equal(t, string(shipped), source)
	out, err = celvpa(t, "rules", "show", "container-caps/policy/max-allowed")
	require.NoError(t, err)
	require.Regexp(t, `^# container-caps/policy/max-allowed, digest [0-9a-f]{12}\nname: max-allowed\nwhen: policy\.maxAllowed\[\?resource\]`, out)
	out, err = celvpa(t, "rules", "show", "memory-per-cpu/parses")
	require.NoError(t, err)
	require.Contains(t, out, "expression: isSafeQuantity(self)\n")
	require.Contains(t, out, "\n# isSafeQuantity(amount) is !string(amount).matches(")
	_, err = celvpa(t, "rules", "show", "container-caps/politics")
	require.ErrorContains(t, err, `rule set container-caps@1.0.0 has no "politics"; it has policy`)
	_, err = celvpa(t, "rules", "show", "nothing")
	require.ErrorContains(t, err, `there is no rule set, pipeline or overlay "nothing"; celvpa rules list names all`)
	_, err = celvpa(t, "rules", "show", "budget-spent") // as celvpa list prints it
	require.ErrorContains(t, err, `; did you mean unboost/budget-spent or update/budget-spent? celvpa rules list`)
	out, err = celvpa(t, "rules", "show", "default")
	require.NoError(t, err)
	require.Regexp(t, `^# rules/pipeline\.yaml, digest [0-9a-f]{12}\n`, out)
	out, err = celvpa(t, "rules", "show", "payments", "--rules-dir", write(t, t.TempDir(), "o.yaml", headroom))
	require.NoError(t, err)
	require.Contains(t, out, headroom)

	dir := ownRules(t, "pipeline.yaml", "    - container-caps@1.0.0\n", "")
	out, err = celvpa(t, "rules", "list", "--rules-dir", dir)
	require.NoError(t, err)
	require.Regexp(t, `\(not run\) +container-caps@1\.0\.0 `, out)
	out, err = celvpa(t, "rules", "show", "container-caps", "--rules-dir", dir)
	require.NoError(t, err)
	require.Contains(t, out, "# rules/container-caps.yaml, digest unknown: no pipeline runs it\n")
}

// TestOnePointIsPrintedAlone, with the records that it needs.
func TestOnePointIsPrintedAlone(t *testing.T) {
	out, err := celvpa(t, "rules", "points", "pod.unboost")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(out, "## pod.unboost\n"), out)
	require.Contains(t, out, "| `clock` | int (time) |")
	require.Contains(t, out, "\n| Resources | `cpu` int (cpu): milli-cores<br>`memory` int (memory): bytes |\n")
	require.Contains(t, out, "\n| `group.live` | int | pods not terminating |\n", "not among facts of other points")
	require.Equal(t, 1, strings.Count(out, " Takes "))
	_, err = celvpa(t, "rules", "points", "pod.updat")
	require.EqualError(t, err, `there is no point "pod.updat"; did you mean pod.update?`)
	_, err = celvpa(t, "rules", "points", "pod.update", "pod.fit")
	require.ErrorContains(t, err, "accepts at most 1 arg(s), received 2")
}

func TestPointsArePrintedFromTheRegistry(t *testing.T) {
	out, err := celvpa(t, "rules", "points")
	require.NoError(t, err)
	require.Contains(t, out, "## pod.update\n")
	require.Contains(t, out, "| `now` | [Resources](#records) | its value so far (may be set) |\n")
	require.Contains(t, out, "| Resources | `cpu` int (cpu): milli-cores<br>`memory` int (memory): bytes |\n")
	require.Contains(t, out, "| `Evict` | evict the pod |\n")
	require.Contains(t, out, "| `Skip` | nothing to do; also when no row holds, or one fails ([class](#classes)) |\n")
	require.Equal(t, 1, strings.Count(out, "| `group.live` | int | pods not terminating |\n"), "facts of several points are described once")
	require.Contains(t, out, "; has what it has at [pod.fit](#podfit), and: |\n| `template` |", "so are scopes")
	require.Contains(t, out, "\n| `containerMaxAllowed.cpu`<br>`containerMaxAllowed.memory` | cpu, at least 0<br>memory, at least 0 | unset | `--container-recommendation-max-allowed-cpu`<br>"+
		"`--container-recommendation-max-allowed-memory` | Maximum CPU or memory recommended for a container whose policy sets no maximum (rule sets vpa-bounds, container-caps, pod-shares, end-startup-boost) |\n")
}

func TestLintReportsErrorsAndFindings(t *testing.T) {
	t.Parallel()
	out, err := celvpa(t, "rules", "lint", "../../rules")
	require.NoError(t, err, out)
	require.Equal(t, "nothing found\n", out)

	out, err = celvpa(t, "rules", "lint", ownRules(t, "requests.yaml", `"recommended[resource]"}`, `"recomended[resource]"}`))
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, "undeclared reference to 'recomended'")
	require.Contains(t, out, "1 found\n")

	out, err = celvpa(t, "rules", "lint", ownRules(t, "update.yaml", "  variables:\n", "  variables:\n    idle: 1 + 1\n"))
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, "variable idle is never read")

	_, err = celvpa(t, "rules", "lint", filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "none: no such file or directory")
	_, err = celvpa(t, "rules", "lint", t.TempDir())
	require.ErrorContains(t, err, "holds no rule files: they are called *.yaml or *.yml")

	// One file, with a number that does not say what it counts, a table that fails, and a rule set that nothing runs.
	const overlay = "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: o}\nspec: {change: [{before: eligibility/mode-off, decision: {name: young, when: has(pod.age) && pod.age < 10, do: Wait}}]}\n"
	file := write(t, t.TempDir(), "o.yaml", overlay)
	out, err = celvpa(t, "rules", "lint", file)
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, file+":4:104: RuleSet eligibility@1.0.0, decision young, when: 10 counts nanoseconds here; write duration('10ns')\n")
	out, err = celvpa(t, "rules", "lint", write(t, t.TempDir(), "t.yaml", strings.Replace(ownTable, "1150m", "1151m", 1)))
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, `RuleTest margin, row "target": bound.target.now.cpu: want 1151m, got 1150m`)
	out, err = celvpa(t, "rules", "lint", write(t, t.TempDir(), "s.yaml", "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: idle}\nspec: {version: 1.0.0, point: pod.admit, decisions: [{name: a, do: Apply}]}\n"))
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, "RuleSet idle@1.0.0: nothing runs it; name it in a pipeline, or let an overlay add it: {add: idle@1.0.0}")

	// What an overlay takes away is not a mistake of what is left.
	out, err = celvpa(t, "rules", "lint", write(t, t.TempDir(), "d.yaml", "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: o}\nspec: {change: [{disable: container-caps/policy/global-max}]}\n"))
	require.NoError(t, err, out)
	require.NotErrorIs(t, err, errNo)
}

const headroom = `apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: payments}
spec:
  description: Leave payments more room.
  mode: Audit
  match: {namespaces: [payments], vpaSelector: {matchLabels: {tier: gold}}}
  change:
  - {params: {estimate.marginFraction: 0.20}}
  - after: container-caps
    stage: {name: round, each: bound, rules: [{name: mib, when: has(now.memory), set: {now.memory: "ceilTo(now.memory, mem('1Mi'))"}}]}
`

const goldVPA = `apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web, namespace: payments, labels: {tier: gold}}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: v1
kind: Namespace
metadata: {name: payments}
`

func TestDiffSaysInWordsWhatAnOverlayWouldChange(t *testing.T) {
	t.Parallel()
	dir, vpa := t.TempDir(), write(t, t.TempDir(), "vpa.yaml", goldVPA)
	write(t, dir, "payments.yaml", headroom)
	changes := "  estimate: param marginFraction 0.15 → 0.20\n  container-caps/round is new, after policy\n"
	out, err := celvpa(t, "rules", "diff", "shipped", dir)
	require.NoError(t, err)
	require.Equal(t, "pipeline default@1.0.0: nothing changes\n"+
		"overlay payments (Audit, for namespaces payments, tier=gold) on default@1.0.0 is new:\n"+changes, out)

	out, err = celvpa(t, "rules", "diff", "shipped", dir, "--vpa", vpa)
	require.NoError(t, err)
	require.Equal(t, "VerticalPodAutoscaler payments/web: nothing changes\n"+
		"VerticalPodAutoscaler payments/web, overlay payments in mode Audit would change:\n"+changes, out)

	write(t, dir, "payments.yaml", strings.Replace(headroom, "mode: Audit", "mode: Enforce", 1))
	out, err = celvpa(t, "rules", "diff", "shipped", dir, "--vpa", vpa)
	require.NoError(t, err)
	require.Equal(t, "VerticalPodAutoscaler payments/web:\n"+changes, out)
	out, err = celvpa(t, "rules", "list", "--rules-dir", dir, "-o", "wide")
	require.NoError(t, err)
	require.Regexp(t, `payments +Enforce +0 +namespaces payments, tier=gold +\S+payments\.yaml:3:18 +Leave payments more room\.`, out)

	out, err = celvpa(t, "rules", "render", "--rules-dir", dir, "--vpa", vpa)
	require.NoError(t, err)
	require.Contains(t, out, "# the rules for VerticalPodAutoscaler payments/web\n")
	require.Contains(t, out, ", with overlays payments\n")
	require.Contains(t, out, "{name: marginFraction, type: double, default: 0.20, min: 0, flag: recommendation-margin-fraction,")
	require.Contains(t, out, "# from RuleOverlay payments\n")

	_, err = celvpa(t, "rules", "render", "--vpa", write(t, dir, "pod.json", `{"apiVersion":"v1","kind":"Pod"}`))
	require.ErrorContains(t, err, "has no VerticalPodAutoscaler")
	_, err = celvpa(t, "rules", "diff", "shipped", filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "none: no such file or directory; name a folder or file of rules, or write shipped for the rules of the program alone")
}

// TestRenderedRulesMeanTheSame loads what render prints and finds no difference.
func TestRenderedRulesMeanTheSame(t *testing.T) {
	out, err := celvpa(t, "rules", "render")
	require.NoError(t, err)
	dir := t.TempDir()
	write(t, dir, "all.yaml", out)
	out, err = celvpa(t, "rules", "diff", "shipped", dir)
	require.NoError(t, err)
	require.Equal(t, "pipeline default@1.0.0: nothing changes\n", out)
	out, err = celvpa(t, "rules", "lint", dir)
	require.NoError(t, err, out)
}

func TestDiffReportsEveryKindOfChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ file, from, to, want string }{
		{"container-caps.yaml", "now[resource] < policy.minAllowed[resource]", "now[resource] <= policy.minAllowed[resource]", "container-caps/policy/min-allowed: when resource in policy.minAllowed && resource in now"},
		{"container-caps.yaml", "    - name: global-max", "    - name: worldwide", "container-caps/policy/global-max is gone"},
		{"integer-cpu.yaml", "cpu('1'))\"}", "cpu('1'))\", now.memory: now.memory}", "integer-cpu/round-up/cpu: sets now.memory to now.memory"},
		{"pipeline.yaml", "default: 0.1,", "default: 0.2,", "param updateThreshold 0.1 → 0.2"},
		{"rounding.yaml", "each: [bound, resource]", "each: [bound, resource]\n    without: [cpu]", "rounding/round-up: without unset → cpu"},
		{"estimate.yaml", "default: 0.5,", "default: 0.6,", "estimate: param lower.cpu 0.5 → 0.6"},
		{"estimate.yaml", "double(duration('1m'))", "double(duration('2m'))", "estimate/low-confidence: variable samplesPerInterval interval / double(duration('1m')) → interval / double(duration('2m'))"},
		{"eligibility.yaml", `isOff(vpa.?updateMode)", do: Skip`, `isOff(vpa.?updateMode)", do: Wait`, "eligibility/mode-off: do Skip → Wait"},
		{"vpa-object.yaml", "at most one recommender can serve an object", "one only", "vpa-object/one-recommender: message at most one"},
		{"bounds.yaml", "{resource} capped to minAllowed", "{resource} raised", "bounds/policy/min-allowed: note {resource} capped to minAllowed → {resource} raised"},
		{"pipeline.yaml", "    - requests@1.0.0\n    - cpu-startup-boost@1.0.0\n", "    - cpu-startup-boost@1.0.0\n    - requests@1.0.0\n",
			"pod.resources: the order is cpu-startup-boost, requests, end-startup-boost, proportional-limits, valid-limits, report-missing; it was requests, cpu-startup-boost, end-startup-boost, proportional-limits, valid-limits, report-missing"},
		{"pipeline.yaml", "    - ceilings@1.0.0\n", "", "pod.fit: rule set ceilings@1.0.0 no longer runs"},
	} {
		out, err := celvpa(t, "rules", "diff", "shipped", ownRules(t, tt.file, tt.from, tt.to))
		require.NoError(t, err)
		require.Contains(t, out, tt.want)
	}
}

func TestDiffReportsWhichAnswersChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "payments.yaml", headroom)
	table := write(t, t.TempDir(), "table.yaml", ownTable)
	out, err := celvpa(t, "rules", "diff", "shipped", dir, "--tests", table)
	require.NoError(t, err)
	require.Contains(t, out, "answers of the test tables: nothing changes\nanswers with overlay payments:\n"+
		"  margin/target ("+table+":8:5)\n    bound.target.now.cpu = 1150m → 1200m\n    bound.target.now.memory = 1234803097 → 1288490188\n")

	out, err = celvpa(t, "rules", "diff", "shipped", ownRules(t, "eligibility.yaml", `isOff(vpa.?updateMode)", do: Skip`, `isOff(vpa.?updateMode)", do: Wait`), "--answers")
	require.NoError(t, err)
	require.Regexp(t, `answers of the test tables:\n  pod-update/\S.* \(conformance/rules/\S+:\d+:5\)\n    do = Skip \(eligibility/mode-off\) → Wait \(eligibility/mode-off\)\n`, out)
}

const ownTable = `apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleTest
metadata: {name: margin}
spec:
  point: container.estimate
  given: {usage: {cpu: {1: 1}, memory: {1: 1Gi}}, history: {span: 24h, samples: 1440}, containers: 1}
  rows:
  - name: target
    given: {bound: {target: {}}}
    expect: {bound: {target: {now: {cpu: 1150m, memory: 1234803097}}}}
`

// TestLintReportsFaultsOfAllKindsAtOnce: keys, names, params and types were four rounds, each of which showed the next one's faults.
func TestLintReportsFaultsOfAllKindsAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, ".", "a.yaml", `apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: mine}
spec:
  modee: Audit
  change:
  - {params: {container-caps.nope: 3}}
  - {params: {containerMaxAllowed.cpu: lots}}
  - {disable: container-caps/polici}
  - after: container-caps
    stage: {name: s, each: bound, rules: [{name: r, set: {now.memory: now.memory * 1.5}}]}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: rounding}
spec:
  version: 1.0.0
  point: container.recommend
  stages:
  - {name: s, each: bound, rules: [{name: r, set: {now.memory: nope}}]}
`)
	out, err := celvpa(t, "rules", "lint", "a.yaml", "-o", "json")
	require.ErrorIs(t, err, errNo)
	var found ruleProblems
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	var at []string
	for _, p := range found.Problems {
		at = append(at, strings.TrimPrefix(p.At, "a.yaml:"))
	}
	require.Equal(t, []string{"5:3", "7:15", "8:40", "9:15", "11:82", "20:64"}, at, out)

	write(t, ".", "a.yaml", "kind: RuleSett\n---\napiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: mine}\nspec: {change: [{add: mine@1.0.0}]}\n")
	out, err = celvpa(t, "rules", "lint", "a.yaml")
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, "a.yaml:1:1: kind \"RuleSett\" is not known here")
	require.Contains(t, out, "1 found", "that the rule set is missing follows from it")
}

func TestEveryPointIsCompiledByAComponent(t *testing.T) {
	registry, err := policy.Registry()
	require.NoError(t, err)
	var run []string
	for _, p := range []part{recommenderPart, updaterPart, admissionPart} {
		require.NotEmpty(t, p.points, "none would mean all")
		_, err := load(policy.Options{Points: p.points})
		require.NoError(t, err)
		run = append(run, p.points...)
	}
	for _, point := range registry.Points() {
		require.True(t, slices.Contains(run, point.Name), point.Name)
	}
}
