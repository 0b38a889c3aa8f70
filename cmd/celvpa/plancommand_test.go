package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/simulate"
	"github.com/stretchr/testify/require"
)

// shopPlan is a situation in which the first of two pods is evicted.
func shopPlan() string {
	return farOff("StatefulSet", "shop") + sized("StatefulSet", "", "shop", 2) + running("a", "shop", "StatefulSet", "shop") + running("b", "shop", "StatefulSet", "shop")
}

// TestThePlanCommand: flags, exit codes and what is printed. A plan has no answer that is no.
func TestThePlanCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("shop.yaml", []byte(shopPlan()), 0o600))
	const outside, spent = "update/evict: Its requests are outside the recommended range", "update/budget-spent: With those of this cycle, 1 of 2 replicas are disrupted or not running; at most 1 may be (--eviction-tolerance)"
	const table = "POD ACTION RULE web/a Evict update/evict web/b Wait update/budget-spent " + outside + " " + spent
	const both = "POD ACTION RULE web/a Evict update/evict web/b Evict update/evict " + outside
	const few = "POD ACTION RULE web/a Skip eligibility/too-few-replicas web/b Skip eligibility/too-few-replicas " +
		"eligibility/too-few-replicas: The workload has 2 live pods, fewer than minReplicas (3, set by --min-replicas)"
	const wide = "POD VPA ACTION RULE PRIORITY REASON CHANGE " +
		"web/a web/shop Evict update/evict 11 up outside Its requests are outside the recommended range container app: requests.cpu 100m → 500m; container app: requests.memory 128Mi → 1Gi " +
		"web/b web/shop Wait update/budget-spent 11 up outside With those of this cycle, 1 of 2 replicas are disrupted or not running; at most 1 may be (--eviction-tolerance) container app: requests.cpu 100m → 500m; container app: requests.memory 128Mi → 1Gi"
	for name, tt := range map[string]struct{ args, stdin, out, fails string }{
		"a table":               {args: "-f shop.yaml --now 2026-01-31T12:00:00Z", out: table},
		"seconds since 1970":    {args: "-f shop.yaml --now 1769860800", out: table},
		"now":                   {args: "-f shop.yaml", out: table},
		"standard input":        {args: "-f -", stdin: shopPlan(), out: table},
		"a flag of the updater": {args: "-f shop.yaml --eviction-tolerance 1", out: both},
		"too few replicas":      {args: "-f shop.yaml --min-replicas 3", out: few},
		"all columns":           {args: "-f shop.yaml -o wide", out: wide},
		"several reasons": {args: "-f shop.yaml -f - --min-replicas 1", stdin: strings.ReplaceAll(farOff("StatefulSet", "shop")+sized("StatefulSet", "", "shop", 1)+running("a", "shop", "StatefulSet", "shop")+running("b", "shop", "StatefulSet", "shop"), "web", "other"),
			out: "POD ACTION RULE other/a Evict update/evict other/b Wait update/budget-spent web/a Evict update/evict web/b Wait update/budget-spent " +
				outside + " update/budget-spent: With those of this cycle, 0 of 1 replicas are disrupted or not running; at most 1 may be (--eviction-tolerance); -o wide shows 1 more reason"},
		"a file that is missing":      {args: "-f missing.yaml -f shop.yaml", out: table, fails: "cannot read missing.yaml: no such file or directory"},
		"a pod that cannot be read":   {args: "-f - -f shop.yaml", stdin: strings.Replace(running("odd", "shop", "StatefulSet", "shop"), "100m", "1 core", 1), out: table, fails: `Pod web/odd cannot be read: spec.containers[0].resources.requests.cpu is "1 core", which is not a quantity`},
		"an unreadable VPA":           {args: "-f shop.yaml -f -", stdin: strings.Replace(vpaOf("Deployment", "odd"), "spec: {", "spec: {updatePolicy: [], ", 1), out: table, fails: "VerticalPodAutoscaler web/odd cannot be used: spec.updatePolicy cannot be read: it is []"},
		"a budget of another time":    {args: "-f shop.yaml -f -", stdin: "{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: odd}}", out: table, fails: "PodDisruptionBudget default/odd has apiVersion policy/v1beta1; write policy/v1"},
		"an overlay that is no good":  {args: "-f shop.yaml -f -", stdin: "{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: odd}, spec: {change: [{disable: nothing}]}}", out: table, fails: "RuleOverlay odd cannot be used"},
		"no running pods":             {args: "-f -", stdin: vpaOf("Deployment", "shop") + deploymentOf("shop", "app"), out: "celvpa: VerticalPodAutoscaler web/shop: no pod in the manifests belongs to its target, Deployment web/shop; add running pods with -f, as kubectl get pod -o yaml prints them\n"},
		"nothing to plan for":         {args: "-f -", stdin: deploymentOf("shop", "app"), fails: "there is no pod and no VerticalPodAutoscaler in -: nothing was planned"},
		"an output that there is not": {args: "-f shop.yaml -o xml", fails: `--output is "xml"; use table, wide, name, json or yaml`},
		"a time that is none":         {args: "-f shop.yaml --now soon", fails: `--now: "soon" is not a time`},
		"no path":                     {fails: "no manifests are named with -f, and there is no cluster to read: "},
		"a path without -f":           {args: "shop.yaml", fails: "files are named with -f: celvpa plan -f shop.yaml"},
		"rules that are not there":    {args: "-f shop.yaml --pipeline nothing", fails: `pipeline "nothing"`},
		"a gate that there is not":    {args: "-f shop.yaml --feature-gates Nothing=true", fails: `there is no gate "Nothing"`},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := piped(t, tt.stdin, append([]string{"plan"}, strings.Fields(tt.args)...)...)
			require.Equal(t, strings.Join(strings.Fields(tt.out), " "), strings.Join(strings.Fields(out), " "))
			requireEnd(t, err, tt.fails, false)
		})
	}
}

// TestTheJSONOfPlanIsAContract: scripts depend on its names.
func TestTheJSONOfPlanIsAContract(t *testing.T) {
	report, _, err := plannedFrom(t, false, shopPlan()+running("c", "other", "StatefulSet", "other"))
	require.NoError(t, err)
	got, err := json.Marshal(report)
	require.NoError(t, err)
	const change = `"change":[{"container":"app","field":"requests.cpu","from":"100m","to":"500m"},{"container":"app","field":"requests.memory","from":"128Mi","to":"1Gi"}]`
	require.JSONEq(t, `{"items":[
		{"pod":"web/a","vpa":"web/shop","action":"Evict","rule":"update/evict","reason":"Its requests are outside the recommended range","priority":{"outsideRecommendedRange":true,"scaleUp":true,"resourceDiff":11,"mayEvict":true},`+change+`},
		{"pod":"web/b","vpa":"web/shop","action":"Wait","rule":"update/budget-spent","class":"Waiting","reason":"With those of this cycle, 1 of 2 replicas are disrupted or not running; at most 1 may be (--eviction-tolerance)","priority":{"outsideRecommendedRange":true,"scaleUp":true,"resourceDiff":11,"mayEvict":true},`+change+`},
		{"pod":"web/c","vpa":"","action":"Skip","rule":"","reason":"No VerticalPodAutoscaler controls it: StatefulSet web/other, which owns it, is not in the manifests"}]}`, string(got))

	report, _, err = plannedFrom(t, false, "")
	require.ErrorContains(t, err, "nothing was planned")
	got, err = json.Marshal(report)
	require.NoError(t, err)
	require.JSONEq(t, `{"items":[]}`, string(got))

	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("shop.yaml", []byte(shopPlan()), 0o600))
	out, err := celvpa(t, "plan", "-f", "shop.yaml", "-o", "json", "--explain")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	steps := report.Items[1].Steps
	require.Equal(t, "update-mode/applied", steps[0].Path())
	last := steps[len(steps)-1]
	require.Equal(t, []string{"update/budget-spent", "Wait"}, []string{last.Path(), last.To})
}

// TestAPriorityThatIsNoNumberIsNull: rules may make it so, and JSON has no such number.
func TestAPriorityThatIsNoNumberIsNull(t *testing.T) {
	out, err := piped(t, shopPlan()+"---\n{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: odd}, spec: {mode: Enforce, change: [{after: priority/compare/resource-difference, rule: {name: odd, set: {priority.resourceDiff: 0.0 / 0.0}}}]}}\n", "plan", "-f", "-", "-o", "json")
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(out, `"resourceDiff": null`), out)
}

// TestExplainShowsWhatIsWantedAndWhy, below the table.
func TestExplainShowsWhatIsWantedAndWhy(t *testing.T) {
	out, err := piped(t, shopPlan()+running("c", "other", "StatefulSet", "other"), "plan", "-f", "-", "--explain")
	require.NoError(t, err)
	_, explanations, found := strings.Cut(out, "\n\n")
	require.True(t, found)
	parts := strings.Split(explanations, "\n\n")
	require.Len(t, parts, 3)
	require.Regexp(t, `^web/a: Evict \(update/evict\): Its requests are outside the recommended range
  VerticalPodAutoscaler web/shop controls it
  container app: requests.cpu 100m → 500m
  container app: requests.memory 128Mi → 1Gi
  ITEM  FIELD +FROM +TO +RULE +AT +WHY
(?s:.*)  - +do +- +Evict +update/evict +rules/update.yaml:[0-9:]+ +Its requests are outside the recommended range$`, parts[0])
	require.Equal(t, "web/c: Skip: No VerticalPodAutoscaler controls it: StatefulSet web/other, which owns it, is not in the manifests\n  no VerticalPodAutoscaler controls it: StatefulSet web/other, which owns it, is not in the manifests\n", parts[2])
}

// TestAListSaysThatABudgetBlocks: regression, pods that no API server lets go were listed as about to be evicted.
func TestAListSaysThatABudgetBlocks(t *testing.T) {
	pdb := func(status string) string {
		return "---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: web}, spec: {selector: {matchLabels: {app: shop}}}, status: {" + status + "}}\n"
	}
	for status, want := range map[string]string{
		"expectedPods: 2, desiredHealthy: 2, currentHealthy: 2":                        "web shop 100m → 500m 128Mi → 1Gi Misconfigured budget-blocks",
		"expectedPods: 2, desiredHealthy: 1, currentHealthy: 1":                        "web shop 100m → 500m 128Mi → 1Gi - evict",
		"expectedPods: 2, desiredHealthy: 1, currentHealthy: 2, disruptionsAllowed: 1": "web shop 100m → 500m 128Mi → 1Gi - evict",
	} {
		out, err := piped(t, shopPlan()+pdb(status), "list", "-f", "-", "--no-headers")
		require.NoError(t, err)
		require.Contains(t, strings.Join(strings.Fields(out), " "), want, status)
	}
}

// TestBudgetsThatTheAPIServerAsksAreReported, of pods that would be evicted and have started.
func TestBudgetsThatTheAPIServerAsksAreReported(t *testing.T) {
	pdb := func(name, spec, status string) string {
		return "---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: " + name + ", namespace: web}, spec: {" + spec + "}, status: {" + status + "}}\n"
	}
	const selects = "selector: {matchLabels: {app: shop}}"
	for name, tt := range map[string]struct {
		text  string
		notes []string
	}{
		"one that selects the pod":          {shopPlan() + pdb("b", selects, ""), []string{"PodDisruptionBudget web/b applies to the eviction of web/a: the API server may refuse it"}},
		"one that allows nothing":           {shopPlan() + pdb("b", selects, "expectedPods: 2"), []string{"PodDisruptionBudget web/b applies to the eviction of web/a: the API server may refuse it; it allows 0 evictions now"}},
		"one that selects all":              {shopPlan() + pdb("b", "selector: {}", "expectedPods: 2, disruptionsAllowed: 1"), []string{"PodDisruptionBudget web/b applies to the eviction of web/a: the API server may refuse it; it allows 1 eviction now"}},
		"one that selects nothing":          {shopPlan() + pdb("b", "", ""), nil},
		"one of another namespace":          {shopPlan() + strings.Replace(pdb("b", selects, ""), "web", "other", 1), nil},
		"one of other pods":                 {shopPlan() + pdb("b", "selector: {matchLabels: {app: other}}", ""), nil},
		"one that cannot be read":           {shopPlan() + pdb("b", "selector: {matchExpressions: [{key: app, operator: Like}]}", ""), []string{`PodDisruptionBudget web/b is left out: spec.selector: "Like" is not a valid label selector operator`}},
		"two":                               {shopPlan() + pdb("c", selects, "") + pdb("b", selects, ""), []string{"pod web/a: API servers evict no pod that several PodDisruptionBudgets select: b, c", "PodDisruptionBudget web/b applies to the eviction of web/a: the API server may refuse it", "PodDisruptionBudget web/c applies to the eviction of web/a: the API server may refuse it"}},
		"pods are resized":                  {strings.Replace(shopPlan(), "spec: {", "spec: {updatePolicy: {updateMode: InPlaceOrRecreate}, ", 1) + pdb("b", selects, ""), nil},
		"the pods have not started":         {strings.ReplaceAll(shopPlan(), "Running", "Pending") + pdb("b", selects, ""), nil},
		"one that is there twice, at first": {shopPlan() + pdb("b", selects, "") + pdb("b", selects, "expectedPods: 2"), []string{"standard input:14: PodDisruptionBudget web/b is already defined at standard input:12; keep one of them; the first counts", "PodDisruptionBudget web/b applies to the eviction of web/a: the API server may refuse it"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, notes, err := plannedFrom(t, false, tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.notes, notes)
		})
	}
}

// TestOverlaysThatAreOnlyTriedAreReported, and change nothing.
func TestOverlaysThatAreOnlyTriedAreReported(t *testing.T) {
	overlay := func(mode, change string) string {
		return "---\n{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: o}, spec: {mode: " + mode + ", match: {namespaces: [web]}, change: [" + change + "]}}\n"
	}
	const never = "{before: eligibility/mode-off, decision: {name: never, when: 'true', do: Skip, reason: Not today}}"
	const leave = "{before: update-mode/applied, decision: {name: leave, when: 'true', do: Ignore}}"
	boosted := inMode("Off", "StatefulSet", "shop") + sized("StatefulSet", "", "shop", 1) + running("a", "shop", "StatefulSet", "shop", ", annotations: {vpaCpuStartupBoost/app: '{}'}", "", ", conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-01-31T11:30:00Z'}]")
	rowsNow := []string{"a shop Evict update/evict", "b shop Wait update/budget-spent"}
	for name, tt := range map[string]struct {
		text        string
		gates       bool
		rows, notes []string
	}{
		"what is done with pods": {text: shopPlan() + overlay("Audit", never), rows: rowsNow, notes: []string{
			"pod web/a: RuleOverlay o (Audit) would change what is done with it: Evict (update/evict) → Skip (eligibility/never)",
			"pod web/b: RuleOverlay o (Audit) would change what is done with it: Evict (update/evict) → Skip (eligibility/never)"}},
		"what they are given": {text: shopPlan() + overlay("Warn", "{disable: 'requests/recommended/request[cpu]'}"), rows: rowsNow, notes: []string{
			"pod web/a: RuleOverlay o (Warn) would change what is done with it: container app request cpu 500m → unset",
			"pod web/b: RuleOverlay o (Warn) would change what is done with it: container app request cpu 500m → unset"}},
		"which come first": {text: shopPlan() + overlay("Audit", "{disable: priority/compare/scale-up}"), rows: rowsNow, notes: []string{
			"pod web/a: RuleOverlay o (Audit) would change what is done with it: order (1, 11) → (0, 11)",
			"pod web/b: RuleOverlay o (Audit) would change what is done with it: order (1, 11) → (0, 11)"}},
		"which VPAs are left out": {text: shopPlan() + overlay("Audit", leave), rows: rowsNow, notes: []string{
			"web/shop: RuleOverlay o (Audit) would change whether running pods are changed: Apply (update-mode/applied) → Ignore (update-mode/leave)"}},
		"when boosts end": {gates: true, text: boosted + overlay("Audit", "{before: unboost/gate-off, decision: {name: never, when: 'true', do: Wait}}"), rows: []string{"a shop InPlace unboost/boost-over"}, notes: []string{
			"pod web/a: RuleOverlay o (Audit) would change what is done with its startup boost: InPlace (unboost/boost-over) → Wait (unboost/never)"}},
		"what is enforced counts": {text: shopPlan() + overlay("Enforce", never), rows: []string{"a shop Skip eligibility/never", "b shop Skip eligibility/never"}},
	} {
		t.Run(name, func(t *testing.T) {
			report, notes, err := plannedFrom(t, tt.gates, tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.rows, rows(report))
			require.Equal(t, tt.notes, notes)
		})
	}
}

// TestRulesThatFailLeavePodsAlone, and a note says which and why.
func TestRulesThatFailLeavePodsAlone(t *testing.T) {
	overlay := func(change string) string {
		return "---\n{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: o}, spec: {mode: Enforce, change: [" + change + "]}}\n"
	}
	report, notes, err := plannedFrom(t, false, shopPlan()+overlay("{before: eligibility/mode-off, decision: {name: odd, when: 1 / (group.live - group.live) > 0, do: Evict}}"))
	require.NoError(t, err)
	require.Equal(t, []string{"a shop Skip eligibility/odd", "b shop Skip eligibility/odd"}, rows(report))
	require.Contains(t, report.Items[0].Reason, "division by zero")
	require.Len(t, notes, 2)
	require.Regexp(t, `^pod web/a: rule eligibility/odd .* failed: .*; it is left alone$`, notes[0])

	report, notes, err = plannedFrom(t, false, shopPlan()+overlay("{before: update-mode/applied, decision: {name: odd, when: 1 / (size(vpa.evictionRequirements) * 0) > 0, do: Apply}}"))
	require.NoError(t, err)
	require.Equal(t, []string{"a shop Skip update-mode/odd", "b shop Skip update-mode/odd"}, rows(report))
	require.Regexp(t, `^VerticalPodAutoscaler web/shop: rule update-mode/odd .* failed: .*; it changes no running pods$`, notes[0])
}

// TestManyPodsArePlannedForSoon: 2000 of 200 StatefulSets.
func TestManyPodsArePlannedForSoon(t *testing.T) {
	var all strings.Builder
	for i := range 200 {
		name := fmt.Sprintf("shop%d", i)
		all.WriteString(farOff("StatefulSet", name) + sized("StatefulSet", "", name, 10))
		for n := range 10 {
			all.WriteString(running(fmt.Sprintf("%s-%d", name, n), name, "StatefulSet", name))
		}
	}
	var report simulate.Plan
	bytes := hang.Bytes(t, func() {
		var err error
		report, _, err = plannedFrom(t, false, all.String())
		require.NoError(t, err)
	})
	require.Less(t, bytes, uint64(1<<30))
	evicted := 0
	for _, item := range report.Items {
		if item.Action == "Evict" {
			evicted++
		}
	}
	require.Equal(t, 200*5, evicted, "half of each")
}

// FuzzPlan: whatever is written, pods are answered the same every time and in one line each, or an error says why not.
func FuzzPlan(f *testing.F) {
	for _, seed := range []string{
		"", shopPlan(), strings.Replace(shopPlan(), "spec: {", "spec: {updatePolicy: {updateMode: InPlace}, ", 1),
		farOff("Rollout", "shop") + workloadOf("Rollout", "", "shop", "app") + running("a", "shop", "Rollout", "shop", ", annotations: {vpaCpuStartupBoost/app: '{'}", ", resources: {limits: {cpu: -1}}", ", conditions: [{type: PodResizePending, status: 'True', reason: Infeasible}], containerStatuses: [{name: app, lastState: {terminated: {reason: OOMKilled}}}, {name: app, resources: {}}]"),
		farOff("StatefulSet", "shop") + running("a", "shop", "StatefulSet", "shop", ", deletionTimestamp: '2026-01-31T12:00:00Z'") + "---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: web}, spec: {selector: {}}}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		plan := func(output string) (string, string, error) {
			return run(text, "plan", "-f", "-", "-o", output, "--now", planNow, "--feature-gates=AllAlpha=true", fmt.Sprintf("--explain=%t", output == "json"))
		}
		out, stderr, err := plan("json")
		again, stderrAgain, errAgain := plan("json")
		require.Equal(t, out, again)
		require.Equal(t, stderr, stderrAgain)
		require.Equal(t, fmt.Sprint(err), fmt.Sprint(errAgain))
		require.NotContains(t, stderr, "please report this")
		var report simulate.Plan
		require.NoError(t, json.Unmarshal([]byte(out), &report))
		table, _, _ := plan("wide")
		if n := len(report.Items); n > 0 {
			require.Equal(t, n+1, strings.Count(table, "\n"))
		}
	})
}
