package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/simulate"
)

// vpaOf is a VPA in namespace web whose target is a workload of some kind.
func vpaOf(kind, name string) string {
	return fmt.Sprintf("---\n{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: %s, namespace: web}, spec: {targetRef: {apiVersion: apps/v1, kind: %s, name: %s}}}\n", name, kind, name)
}

// deploymentOf is a Deployment in namespace web with pods of these containers.
func deploymentOf(name string, containers ...string) string {
	return workloadOf("Deployment", "", name, containers...)
}

func workloadOf(kind, owner, name string, containers ...string) string {
	var list []string
	for _, c := range containers {
		list = append(list, "{name: "+c+"}")
	}
	return fmt.Sprintf("---\n{apiVersion: apps/v1, kind: %s, metadata: {name: %s, namespace: web%[3]s}, spec: {selector: {matchLabels: {app: %[2]s}}, template: {metadata: {labels: {app: %[2]s}}, spec: {containers: [%[4]s]}}}}\n",
		kind, name, owner, strings.Join(list, ", "))
}

// minutes are rows of usage, one a minute from 2026-01-01 on, with cores and bytes where they are not empty.
func minutes(n int, pod, container string, cpu, memory func(i int) string) string {
	var out strings.Builder
	for i := range n {
		at := 1767225600 + 60*i
		if cpu != nil {
			fmt.Fprintf(&out, "%d,web,%s,%s,cpu,%s\n", at, pod, container, cpu(i))
		}
		if memory != nil {
			fmt.Fprintf(&out, "%d,web,%s,%s,memory,%s\n", at, pod, container, memory(i))
		}
	}
	return out.String()
}

func is(text string) func(int) string { return func(int) string { return text } }

// hour is an hour of 0.1 cores and 200Mi.
func hour(pod, container string) string {
	return minutes(60, pod, container, is("0.1"), is("209715200"))
}

// recommended runs the command on manifests and usage, with the shipped rules. It returns the lines of the table without the
// bounds that are not asked for here, as "vpa container target-cpu target-memory", and what else was printed, notes first. That
// little is known, which all of these examples have in common, is left out: TestLittleUsageIsToldInOneLine is about it.
func recommended(t *testing.T, manifests, usage string) (rows, rest []string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	args := []string{"recommend", "-f", "-"}
	if usage != "" {
		require.NoError(t, os.WriteFile("usage.csv", []byte(usage), 0o600))
		args = append(args, "--usage", "usage.csv")
	}
	out, told, err := run(manifests, args...)
	rest = notesIn(told)
	inTable := true
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			inTable = false
		case strings.HasPrefix(line, unsureText):
		case !inTable:
			rest = append(rest, strings.TrimSpace(line))
		case fields[0] != "NAMESPACE":
			rows = append(rows, strings.Join(fields[1:5], " "))
		}
	}
	return rows, rest, err
}

// TestUsageFindsItsVPA: whose pods usage is of is told by the manifests, else by names.
func TestUsageFindsItsVPA(t *testing.T) {
	const few = "shop app 126m 250Mi"
	const none = "shop - - -"
	unknown := func(vpa, status, containers string) string {
		return "web/" + vpa + ": RecommendationProvided=" + status + ": too little usage is known to recommend cpu and memory of container " + containers
	}
	pod := func(name, more string) string {
		return "---\n{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: web, labels: {app: shop}}, spec: {containers: [{name: app}]}" + more + "}\n"
	}
	for name, tt := range map[string]struct {
		manifests, usage string
		rows, rest       []string
		no               bool
	}{
		"the pods of a Deployment": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app"), usage: hour("shop-7c5687bd57-659fr", "app"), rows: []string{few}},
		"a container that used nothing, and one that only usage knows": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app", "quiet"), usage: hour("shop-7c5687bd57-659fr", "app") + hour("shop-7c5687bd57-659fr", "mesh"),
			rows: []string{"shop app 126m 248153480", "shop mesh 126m 248153480"}, rest: []string{unknown("shop", "True", "quiet")}},
		"the longest name counts": {manifests: vpaOf("Deployment", "shop") + vpaOf("DaemonSet", "shop-bcdf") + deploymentOf("shop", "app") + workloadOf("DaemonSet", "", "shop-bcdf", "app"), usage: hour("shop-bcdf-659fr", "app"),
			rows: []string{none, "shop-bcdf app 126m 250Mi"}, rest: []string{unknown("shop", "False", "app")}, no: true},
		"pods among the manifests": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app") + pod("odd", ""), usage: hour("odd", "app"), rows: []string{few}},
		"a container that the manifest of a pod does not have": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app") + pod("odd", "") + deploymentOf("shop", "more"), usage: hour("odd", "app") + hour("odd", "mesh"), rows: []string{few},
			rest: []string{"standard input:8: Deployment web/shop is there already, at standard input:4; keep one of them; the first counts", "pod web/odd has no container mesh in its manifest: its usage is left out"}},
		"pods that are pending":          {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "other") + pod("odd", ", status: {phase: Pending}"), rows: []string{none}, rest: []string{unknown("shop", "False", "other")}, no: true},
		"a workload without usage":       {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "a", "b"), rows: []string{none}, rest: []string{unknown("shop", "False", "a, b")}, no: true},
		"an old ReplicaSet without pods": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app") + strings.Replace(workloadOf("ReplicaSet", ", ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: shop, uid: u, controller: true}]", "shop-6789", "gone"), "app: shop-6789", "app: shop", 2), rows: []string{none}, rest: []string{unknown("shop", "False", "app")}, no: true},
		"names by hand": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app"), usage: hour("shop-one", "app"), rows: []string{few},
			rest: []string{"Deployment web/shop: no pod has a name that it would give; pods whose names begin with shop are taken for its own: 1"}},
		"names of another beside right ones": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app"), usage: hour("shop-7c5687bd57-659fr", "app") + hour("shop-front-0", "nginx"), rows: []string{few},
			rest: []string{"1 pod of usage left out, of no workload among the manifests: web/shop-front-0"}},
		"no workload, names that fit": {manifests: vpaOf("StatefulSet", "shop"), usage: hour("shop-0", "app") + hour("shop-front-0", "nginx"), rows: []string{few},
			rest: []string{"StatefulSet web/shop, the target of VerticalPodAutoscaler web/shop, is not among the manifests; pods whose names are like those that it would give are taken for its own: 1", "1 pod of usage left out, of no workload among the manifests: web/shop-front-0"}},
		"no workload, names that begin alike": {manifests: vpaOf("Deployment", "shop"), usage: hour("shop", "app"), rows: []string{few},
			rest: []string{"Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not among the manifests; pods whose names begin with shop are taken for its own: 1"}},
		"no workload, a pod among the manifests": {manifests: vpaOf("Deployment", "shop") + pod("shop-7c5687bd57-659fr", ""), usage: hour("shop-7c5687bd57-659fr", "app"), rows: []string{few},
			rest: []string{"Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not among the manifests; pods whose names are like those that it would give are taken for its own: 1"}},
		"a custom workload": {manifests: strings.Replace(vpaOf("Rollout", "shop"), "apps/v1", "argoproj.io/v1alpha1", 1) + strings.Replace(workloadOf("Rollout", "", "shop", "app"), "apps/v1", "argoproj.io/v1alpha1", 1), usage: hour("shop-7c5687bd57-659fr", "app"), rows: []string{few}},
		"a custom workload that is not there": {manifests: strings.Replace(vpaOf("Rollout", "shop"), "apps/v1", "argoproj.io/v1alpha1", 1), usage: hour("shop-7c5687bd57-659fr", "app"), rows: []string{few},
			rest: []string{"Rollout web/shop, the target of VerticalPodAutoscaler web/shop, is not among the manifests; pods whose names are like those that it would give are taken for its own: 1"}},
		"neither workload nor pods": {manifests: vpaOf("Deployment", "shop"), usage: strings.ReplaceAll(hour("shop-7c5687bd57-659fr", "app"), ",web,", ",elsewhere,"), no: true, rows: []string{"shop - - -"}, rest: []string{
			"Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not among the manifests, and no pod has a name that begins like it; add its manifest with -f; there are such pods in namespace elsewhere",
			"1 pod of usage left out, of no workload among the manifests: elsewhere/shop-7c5687bd57-659fr",
			"web/shop: ConfigUnsupported=True: Cannot read targetRef. Reason: Deployment web/shop does not exist",
			"web/shop: NoPodsMatched=True: No pods match this VPA object",
			"web/shop: RecommendationProvided=False: No pods match this VPA object"}},
		"a target that is not the topmost": {manifests: vpaOf("ReplicaSet", "shop") + workloadOf("ReplicaSet", ", ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: up, uid: u, controller: true}]", "shop", "app") + deploymentOf("up", "app"), usage: hour("shop-659fr", "app"), no: true, rows: []string{"shop - - -"}, rest: []string{
			"web/shop: ConfigUnsupported=True: The target apps/v1.ReplicaSet/shop has a parent controller but it should point to a topmost well-known or scalable controller",
			"web/shop: NoPodsMatched=True: No pods match this VPA object",
			"web/shop: RecommendationProvided=False: No pods match this VPA object"}},
		"usage of init containers, and what is there twice": {manifests: vpaOf("Deployment", "shop") + strings.Replace(deploymentOf("shop", "app"), "containers:", "initContainers: [{name: first}], containers:", 1), usage: hour("shop-7c5687bd57-659fr", "app") + minutes(1, "shop-7c5687bd57-659fr", "app", is("0.1"), nil) + minutes(2, "shop-7c5687bd57-659fr", "first", is("9"), nil),
			rows: []string{few}, rest: []string{"2 rows of usage left out: the usage of init containers does not count", "1 row of usage left out: of the time of another row of the same container, or of an OOM long before its last one"}},
		"out of memory": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app"), usage: minutes(2, "shop-7c5687bd57-659fr", "app", is("0.1"), is("3145728000")) + "1767225700,web,shop-7c5687bd57-659fr,app,oom,1048576000\n",
			rows: []string{"shop app 126m 4506574562"}}, // the upper end of the bucket of 3600Mi, and 15%
		"pods that are gone long since": {manifests: vpaOf("Deployment", "shop"), usage: hour("shop-7c5687bd57-bbbbb", "old") + strings.ReplaceAll(hour("shop-7c5687bd57-ccccc", "app"), "17672", "17692"), // 23 days later
			rows: []string{few}, rest: []string{"Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not among the manifests; pods whose names are like those that it would give are taken for its own: 2"}},
		"an overlay that is enforced, and one that is tried": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app") + overlayOf("more", "Enforce", "0.5") + overlayOf("less", "Audit", "0.25"), usage: hour("shop-7c5687bd57-659fr", "app"),
			rows: []string{"shop app 165m 323678452"}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, rest, err := recommended(t, tt.manifests, tt.usage)
			if tt.no {
				require.ErrorIs(t, err, errNo)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, tt.rows, rows)
			if !strings.HasPrefix(name, "an overlay") {
				require.Equal(t, tt.rest, rest)
				return
			}
			require.Len(t, rest, 2)
			require.Contains(t, rest[0], "RuleOverlay less (Audit) would change the recommendation: container app target cpu 165m → ")
			require.Regexp(t, `^web/shop: RulesApplied=True: digest [0-9a-f]{12}, overlays more; not enforced: less \(Audit\)$`, rest[1])
		})
	}
}

// TestLittleUsageIsToldInOneLine: of a few VPAs by name, and not once a VPA.
func TestLittleUsageIsToldInOneLine(t *testing.T) {
	report := &simulate.Recommendations{}
	told := func() string {
		var out strings.Builder
		p := newPage(&out)
		printConditions(p, report)
		require.NoError(t, p.Flush())
		return out.String()
	}
	require.Empty(t, told())
	for i := range 7 {
		v := vpav1.VerticalPodAutoscaler{}
		v.Namespace, v.Name = "web", fmt.Sprintf("shop-%d", i)
		if i != 1 {
			v.Status.Conditions = []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.LowConfidence, Status: corev1.ConditionTrue, Message: "m"}, {Type: vpav1.RecommendationProvided, Status: corev1.ConditionTrue}}
		}
		report.Items = append(report.Items, v)
		switch i {
		case 1:
			require.Equal(t, "\nLowConfidence: little usage is known yet, and bounds are wide: web/shop-0\n", told())
		case 5:
			require.Equal(t, "\nLowConfidence: little usage is known yet, and bounds are wide: web/shop-0, web/shop-2, web/shop-3, web/shop-4, web/shop-5\n", told())
		}
	}
	report.Items[1].Status.Conditions = []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.NoPodsMatched, Status: corev1.ConditionTrue}}
	require.Equal(t, "\nweb/shop-1: NoPodsMatched=True\nLowConfidence: little usage is known yet, and bounds are wide: web/shop-0, web/shop-2, web/shop-3, web/shop-4, web/shop-5, …\n", told())
}

func overlayOf(name, mode, margin string) string {
	return "---\n{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: " + name + "}, spec: {priority: " + fmt.Sprint(10-len(mode)) + ", mode: " + mode + ", change: [{params: {estimate.marginFraction: " + margin + "}}]}}\n"
}

// TestFilesAreRecommendedWhatAClusterIs: the golden vectors of UPSTREAM.md §2.13, each as a VPA of its own, with upstream's answer
// to what was never sampled.
func TestFilesAreRecommendedWhatAClusterIs(t *testing.T) {
	number := func(f func(i int) int) func(int) string { return func(i int) string { return fmt.Sprint(f(i)) } }
	milli := func(f func(i int) int) func(int) string {
		return func(i int) string { return fmt.Sprintf("%d.%03d", f(i)/1000, f(i)%1000) }
	}
	var manifests, usage strings.Builder
	want := map[string]string{}
	for _, tt := range []struct {
		name                 string
		containers           []string
		minutes              int
		cpu, memory          func(int) string
		target, lower, upper string // milli-cores and bytes
	}{
		{"none", []string{"a"}, 0, nil, nil, "25 262144000", "25 262144000", "25 262144000"},
		{"none-of-three", []string{"a", "b", "c"}, 0, nil, nil, "8 87381333", "8 87381333", "8 87381333"},
		{"one", []string{"a"}, 1, is("0.1"), is("209715200"), "126 262144000", "25 262144000", "100000000000000 100000000000000"},
		{"two", []string{"a"}, 2, is("0.1"), is("209715200"), "126 262144000", "25 262144000", "181566 357589164680"},
		{"five-minutes", []string{"a"}, 5, is("0.1"), is("209715200"), "126 262144000", "68 262144000", "45486 89583406280"},
		{"hour", []string{"a"}, 60, is("0.1"), is("209715200"), "126 262144000", "120 262144000", "3201 6304780788"},
		{"day", []string{"a"}, 1440, is("0.1"), is("209715200"), "126 262144000", "125 262144000", "252 496479408"},
		{"day-of-one", []string{"a"}, 1440, is("1"), is("1073741824"), "1168 1238659775", "1165 1236184450", "2336 2478180328"},
		{"week-of-one", []string{"a"}, 8 * 1440, is("1"), is("1073741824"), "1168 1238659775", "1167 1238350141", "1314 1393505688"},
		{"ramp", []string{"a"}, 1440, milli(func(i int) int { return i }), number(func(i int) int { return 1e6 * (i + 1) }), "1554 1738144563", "975 1734671072", "3287 3477497009"},
		{"ramps", []string{"a"}, 8 * 1440, milli(func(i int) int { return i % 1440 }), number(func(i int) int { return 1e8 + 1e6*(i%1440) }), "1554 1836551791", "976 1836092699", "1848 2066140694"},
		{"memory-alone", []string{"a"}, 10, nil, is("1e9"), "25 1168723596", "25 262144000", "25 100000000000000"},
		{"memory-from-0", []string{"a"}, 10, is("0.5"), number(func(i int) int { return min(i, 1) * 1e9 }), "587 262144000", "436 262144000", "94507 1851500000"},
	} {
		manifests.WriteString(vpaOf("Deployment", tt.name) + deploymentOf(tt.name, tt.containers...))
		usage.WriteString(minutes(tt.minutes, tt.name+"-7c5687bd57-659fr", "a", tt.cpu, tt.memory))
		for _, c := range tt.containers {
			want[tt.name+" "+c] = tt.target + ", " + tt.lower + ", " + tt.upper
		}
	}
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("usage.csv", []byte(usage.String()), 0o600))
	out, told, err := run(manifests.String(), "recommend", "-f", "-", "--usage", "usage.csv", "-o", "json", "--recommendation-min-samples=0")
	require.NoError(t, err)
	require.Empty(t, told)
	var report simulate.Recommendations
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	got := map[string]string{}
	for _, v := range report.Items {
		for _, c := range v.Status.Recommendation.ContainerRecommendations {
			require.Equal(t, c.Target, c.UncappedTarget)
			got[v.Name+" "+c.ContainerName] = fmt.Sprintf("%d %d, %d %d, %d %d", c.Target.Cpu().MilliValue(), c.Target.Memory().Value(),
				c.LowerBound.Cpu().MilliValue(), c.LowerBound.Memory().Value(), c.UpperBound.Cpu().MilliValue(), c.UpperBound.Memory().Value())
		}
	}
	require.Equal(t, want, got)
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
	const header = "NAMESPACE  VPA   CONTAINER  TARGET-CPU  TARGET-MEMORY  LOWER-CPU  LOWER-MEMORY  UPPER-CPU  UPPER-MEMORY  UNCAPPED-CPU  UNCAPPED-MEMORY\n"
	const row = "web        shop  app        126m        250Mi          120m       250Mi         3201m      6304780788    126m          250Mi\n"
	const unsure = "\n" + unsureText + "web/shop\n"
	for name, tt := range map[string]struct {
		args, stdin, out, fails string
		no                      bool
	}{
		"a table":                        {args: "-f shop.yaml --usage usage.csv", out: header + row + unsure},
		"standard input":                 {args: "-f shop.yaml --usage -", stdin: hour("shop-7c5687bd57-659fr", "app"), out: header + row + unsure},
		"a row that cannot be used":      {args: "-f shop.yaml --usage bad.csv", out: "celvpa: bad.csv:1: time \"soon\" is no number: write it like 2026-01-31T12:00:00Z or as seconds since 1970; this row is left out\n" + header + row + unsure},
		"a moment in the past":           {args: "-f shop.yaml --usage usage.csv --now 2026-01-01T00:01:00Z", out: "celvpa: 116 rows of usage left out: later than 2026-01-01T00:01:00Z\n" + header + "web        shop  app        126m        250Mi          25m        250Mi         181566m    357589164680  126m          250Mi\n" + unsure},
		"usage that falls":               {args: "-f shop.yaml --usage falling.csv", out: header + "web        shop  app        1168m       1238659775     120m       1180340057    29675m     31470355978   1168m         1238659775\n" + unsure},
		"params and half-lives":          {args: "-f shop.yaml --usage falling.csv --recommendation-margin-fraction 1 --memory-aggregation-interval 1m --memory-histogram-decay-half-life 1m --cpu-histogram-decay-half-life 1m", out: header + "web        shop  app        220m        431571270      209m       411251635     5589m      10964836164   220m          431571270\n" + unsure},
		"a file that is missing":         {args: "-f shop.yaml --usage usage.csv --usage missing.csv", out: header + row + unsure, fails: "cannot read usage from missing.csv: no such file or directory"},
		"a manifest twice":               {args: "-f shop.yaml -f shop.yaml --usage usage.csv", out: "celvpa: shop.yaml:4: Deployment web/shop is there already, at shop.yaml:4; keep one of them; the first counts\n" + header + row + unsure},
		"two manifests of one":           {args: "-f shop.yaml -f - --usage usage.csv", stdin: strings.Replace(vpaOf("Deployment", "shop"), "spec: {", "spec: {updatePolicy: {updateMode: Initial}, ", 1), fails: "VerticalPodAutoscaler web/shop has different specs at shop.yaml:2 and standard input:2; keep one of them: none is used"},
		"an object that does not fit":    {args: "-f shop.yaml -f - --usage usage.csv", stdin: strings.Replace(vpaOf("Deployment", "odd"), "spec: {", "spec: {updatePolicy: [], ", 1), out: header + row + unsure, fails: "standard input:2: VerticalPodAutoscaler web/odd cannot be used: spec.updatePolicy cannot be read: it is []"},
		"no VPA":                         {args: "-f -", fails: "there is no VerticalPodAutoscaler in -: nothing was recommended"},
		"a half-life of nothing":         {args: "-f shop.yaml --memory-histogram-decay-half-life 0s", fails: "--memory-histogram-decay-half-life is 0s; it must be greater than 0"},
		"a time that is none":            {args: "-f shop.yaml --now soon", fails: `--now: time "soon" is no number`},
		"an output that there is not":    {args: "-f shop.yaml -o xml", fails: `--output is "xml"; use table, wide, json or yaml`},
		"standard input for two things":  {args: "-f - --usage -", fails: "-f and --usage cannot both be standard input"},
		"no path":                        {fails: "no manifests are named: use -f with a file, a folder, or - for standard input"},
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
	require.Equal(t, engine.Step{RuleSet: "clock-skew", Version: "1.0.0", Stage: "limit", Rule: "max-clock-skew", At: trace.Steps[4].At, Field: "window.clockSkew", From: "unset", To: "1h0m0s"}, trace.Steps[4])
	require.Equal(t, engine.Step{RuleSet: "estimate", Version: "1.0.0", Stage: "bounds", Rule: "target", At: trace.Steps[6].At, Item: "target", Field: "now.cpu", From: "unset", To: "110m"}, trace.Steps[6])
	require.Regexp(t, `^rules/estimate\.yaml:[0-9]+:[0-9]+$`, trace.Steps[6].At)
}

// TestFeaturesBehindGatesWorkOnFiles: pod-level recommendations (AEP-7571), memory per CPU with the examples of AEP-8459, and
// bumps after OOMs by the VPA (AEP-8026). Without its gate, each does nothing. Most have no usage, and so the minimums.
func TestFeaturesBehindGatesWorkOnFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	vpa := func(policy string) string {
		return strings.Replace(vpaOf("Deployment", "shop"), "spec: {", "spec: {resourcePolicy: {"+policy+"}, ", 1)
	}
	pod := strings.Replace(deploymentOf("shop", "app", "proxy"), "containers:", "resources: {requests: {cpu: 100m}}, containers:", 1)
	write("pod.yaml", vpa("podPolicies: {maxAllowed: {cpu: 15m, memory: 100Mi}}")+pod)
	write("free.yaml", vpaOf("Deployment", "shop")+pod)
	limited := func(name string) string {
		return vpaOf("Deployment", "shop") + strings.Replace(pod, "{requests: {cpu: 100m}}", "{limits: {"+name+": 4}}", 1)
	}
	write("limited.yaml", limited("cpu"))
	write("pages.yaml", limited("hugepages-2Mi"))
	write("limitedpod.yaml", vpaOf("Deployment", "shop")+deploymentOf("shop", "app", "proxy")+"---\n{apiVersion: v1, kind: Pod, metadata: {name: shop-7c5687bd57-659fr, namespace: web, labels: {app: shop}}, spec: {resources: {limits: {cpu: 1}}, containers: [{name: app}, {name: proxy}]}, status: {phase: Running}}\n")
	write("limitrange.yaml", limited("hugepages-2Mi")+"---\n{apiVersion: v1, kind: LimitRange, metadata: {name: few, namespace: web}, spec: {limits: [{type: Container, defaultRequest: {memory: 100Mi}}]}}\n")
	write("ratio.yaml", vpa("containerPolicies: [{containerName: app, memoryPerCPU: 4Gi}]")+deploymentOf("shop", "app"))
	write("capped.yaml", vpa("containerPolicies: [{containerName: app, memoryPerCPU: 4Gi, maxAllowed: {memory: 6Gi}}]")+deploymentOf("shop", "app"))
	write("oom.yaml", vpa("containerPolicies: [{containerName: app, oomBumpUpRatio: 1.5}]")+deploymentOf("shop", "app"))
	write("oom.csv", minutes(2, "shop-7c5687bd57-659fr", "app", is("0.1"), is("838860800"))+"1767225700,web,shop-7c5687bd57-659fr,app,oom,1000000000\n")
	const least = "app 12m 125Mi 12m 125Mi, proxy 12m 125Mi 12m 125Mi"
	for name, tt := range map[string]struct{ args, rows string }{ // container, target, uncapped target
		"a pod held by its policy":              {"-f pod.yaml --feature-gates=PodLevelResources=true", "app 7m 50Mi 12m 125Mi, proxy 7m 50Mi 12m 125Mi, (pod) 15m 100Mi 24m 250Mi"},
		"a pod without its gate":                {"-f pod.yaml", least},
		"a pod without bounds":                  {"-f free.yaml --feature-gates=PodLevelResources=true", least + ", (pod) 24m 250Mi 24m 250Mi"},
		"a pod with a limit only":               {"-f limited.yaml --feature-gates=PodLevelResources=true", least + ", (pod) 24m 250Mi 24m 250Mi"},
		"a running pod with a limit only":       {"-f limitedpod.yaml --feature-gates=PodLevelResources=true", least + ", (pod) 24m 250Mi 24m 250Mi"},
		"a pod with a limit of something else":  {"-f pages.yaml --feature-gates=PodLevelResources=true", least},
		"and a LimitRange's requests":           {"-f limitrange.yaml --feature-gates=PodLevelResources=true", least + ", (pod) 24m 250Mi 24m 250Mi"},
		"a pod held by a flag":                  {"-f free.yaml --feature-gates=PodLevelResources=true --pod-recommendation-max-allowed-cpu=20m", "app 10m 125Mi 12m 125Mi, proxy 10m 125Mi 12m 125Mi, (pod) 20m 250Mi 24m 250Mi"},
		"AEP-8459, example 1":                   {"-f ratio.yaml --feature-gates=MemoryPerCPURatio=true --pod-recommendation-min-cpu-millicores=1000 --pod-recommendation-min-memory-mb=8192", "app 2 8Gi 2 8Gi"},
		"AEP-8459, example 2":                   {"-f ratio.yaml --feature-gates=MemoryPerCPURatio=true --pod-recommendation-min-cpu-millicores=2000 --pod-recommendation-min-memory-mb=4096", "app 2 8Gi 2 8Gi"},
		"AEP-8459, example 3, by a flag":        {"-f ratio.yaml --feature-gates=MemoryPerCPURatio=true --pod-recommendation-min-cpu-millicores=2000 --pod-recommendation-min-memory-mb=4096 --container-recommendation-max-allowed-memory=7Gi", "app 2 7Gi 2 8Gi"},
		"AEP-8459, example 3, by the VPA":       {"-f capped.yaml --feature-gates=MemoryPerCPURatio=true --pod-recommendation-min-cpu-millicores=2000 --pod-recommendation-min-memory-mb=4096", "app 2 6Gi 2 8Gi"},
		"AEP-8459, example 2, without its gate": {"-f ratio.yaml --pod-recommendation-min-cpu-millicores=2000 --pod-recommendation-min-memory-mb=4096", "app 2 4Gi 2 4Gi"},
		"an OOM, half as much more":             {"-f oom.yaml --usage oom.csv --feature-gates=PerVPAConfig=true", "app 126m 1738144563 126m 1738144563"}, // the upper end of the bucket of 1.5e9, and 15%
		"an OOM without the gate":               {"-f oom.yaml --usage oom.csv", "app 126m 1389197403 126m 1389197403"},                                   // that of 1.2e9
	} {
		t.Run(name, func(t *testing.T) {
			out, err := celvpa(t, append([]string{"recommend", "--recommendation-min-samples=0"}, strings.Fields(tt.args)...)...)
			require.NoError(t, err)
			var rows []string
			for line := range strings.Lines(out) {
				if f := strings.Fields(line); len(f) == 11 && f[0] == "web" {
					rows = append(rows, strings.Join([]string{f[2], f[3], f[4], f[9], f[10]}, " "))
				}
			}
			require.Equal(t, tt.rows, strings.Join(rows, ", "), out)
		})
	}
	out, err := celvpa(t, "recommend", "-f", "pod.yaml", "--recommendation-min-samples=0", "--feature-gates=PodLevelResources=true", "--explain")
	require.NoError(t, err)
	_, trace, found := strings.Cut(out, "\nweb/shop, the pod\n")
	require.True(t, found, out)
	require.NotContains(t, trace, "web/shop, ", "that of the pod is the last")
	require.Regexp(t, `target +now\.cpu +24m +15m +pod-bounds/target/max `, trace)
	require.Regexp(t, `proxy +target\.cpu +12m +7m +pod-shares/apply/target `, trace)
	out, err = celvpa(t, "recommend", "-f", "pod.yaml", "--recommendation-min-samples=0", "--explain")
	require.NoError(t, err)
	require.NotContains(t, out, "web/shop, the pod", "no rule runs for it with the gate off")

	out, err = celvpa(t, "recommend", "-f", "pod.yaml", "--recommendation-min-samples=0", "--feature-gates=PodLevelResources=true", "--explain", "-o", "json")
	require.NoError(t, err)
	var report simulate.Recommendations
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, "15m", report.Items[0].Status.Recommendation.PodRecommendation.Target.Cpu().String())
	require.Len(t, report.Traces, 3)
	require.Empty(t, report.Traces[2].Container)
}

// TestAMonthOfUsageIsReadQuickly: 5 minutes apart, of both resources, it is 17,280 rows.
func TestAMonthOfUsageIsReadQuickly(t *testing.T) {
	usage := minutes(30*288, "shop-7c5687bd57-659fr", "app", is("0.123456"), is("209715200.75"))
	begin := time.Now()
	rows, _, err := recommended(t, vpaOf("Deployment", "shop"), usage)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Less(t, time.Since(begin), 5*time.Second, "it should take a tenth of a second")
}

// TestAFieldWithATypingErrorIsTold: a bound that is none would go unseen.
func TestAFieldWithATypingErrorIsTold(t *testing.T) {
	file := write(t, t.TempDir(), "typo.yaml", strings.Replace(vpaOf("Deployment", "shop"), "spec: {", "spec: {resourcePolicy: {containerPolicies: [{containerName: app, maxAlowed: {memory: 1Gi}}]}, ", 1))
	out, err := celvpa(t, "recommend", "-f", file)
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, `VerticalPodAutoscaler web/shop: unknown field "spec.resourcePolicy.containerPolicies[0].maxAlowed"; it has no effect`)
}
