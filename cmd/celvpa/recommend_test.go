package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate"
)

// recommended runs the command on manifests and usage, with the shipped rules. It returns the lines of the table without the
// bounds that are not asked for here, as "vpa container target-cpu target-memory", and what else was printed, notes first. That
// little is known, which all of these examples have in common, is left out: TestLittleUsageIsReportedInOneLine is about it.
func recommended(t *testing.T, manifests, usage string, more ...string) (rows, rest []string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	args := []string{"recommend", "-o", "wide", "-f", "-"}
	if usage != "" {
		require.NoError(t, os.WriteFile("usage.csv", []byte(usage), 0o600))
		args = append(args, "--usage", "usage.csv")
	}
	out, stderr, err := run(manifests, append(args, more...)...)
	rest = notesIn(stderr)
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

// TestUsageFindsItsVPA: whose pods usage is of is decided by the manifests, else by names.
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
			rest: []string{"standard input:8: Deployment web/shop is already defined at standard input:4; keep one of them; the first counts", "pod web/odd has no container mesh in its manifest: ignored its usage"}},
		"pods that are pending":          {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "other") + pod("odd", ", status: {phase: Pending}"), rows: []string{none}, rest: []string{unknown("shop", "False", "other")}, no: true},
		"a workload without usage":       {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "a", "b"), rows: []string{none}, rest: []string{unknown("shop", "False", "a, b")}, no: true},
		"an old ReplicaSet without pods": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app") + strings.Replace(workloadOf("ReplicaSet", ", ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: shop, uid: u, controller: true}]", "shop-6789", "gone"), "app: shop-6789", "app: shop", 2), rows: []string{none}, rest: []string{unknown("shop", "False", "app")}, no: true},
		"names by hand": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app"), usage: hour("shop-one", "app"), rows: []string{few},
			rest: []string{"Deployment web/shop: no pod has a name that it would generate; pods whose names begin with shop are counted as its own: 1"}},
		"names of another beside right ones": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app"), usage: hour("shop-7c5687bd57-659fr", "app") + hour("shop-front-0", "nginx"), rows: []string{few},
			rest: []string{"ignored usage of 1 pod that no workload in the manifests owns: web/shop-front-0"}},
		"no workload, names that fit": {manifests: vpaOf("StatefulSet", "shop"), usage: hour("shop-0", "app") + hour("shop-front-0", "nginx"), rows: []string{few},
			rest: []string{"StatefulSet web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests; pods whose names it would generate are counted as its own: 1", "ignored usage of 1 pod that no workload in the manifests owns: web/shop-front-0"}},
		"no workload, names that begin alike": {manifests: vpaOf("Deployment", "shop"), usage: hour("shop", "app"), rows: []string{few},
			rest: []string{"Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests; pods whose names begin with shop are counted as its own: 1"}},
		"no workload, a pod among the manifests": {manifests: vpaOf("Deployment", "shop") + pod("shop-7c5687bd57-659fr", ""), usage: hour("shop-7c5687bd57-659fr", "app"), rows: []string{few},
			rest: []string{"Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests; pods whose names it would generate are counted as its own: 1"}},
		"a custom workload": {manifests: strings.Replace(vpaOf("Rollout", "shop"), "apps/v1", "argoproj.io/v1alpha1", 1) + strings.Replace(workloadOf("Rollout", "", "shop", "app"), "apps/v1", "argoproj.io/v1alpha1", 1), usage: hour("shop-7c5687bd57-659fr", "app"), rows: []string{few},
			rest: []string{"kind Rollout.argoproj.io, the target of VerticalPodAutoscaler web/shop" + scaleNoteEnd}},
		"a custom workload that is not there": {manifests: strings.Replace(vpaOf("Rollout", "shop"), "apps/v1", "argoproj.io/v1alpha1", 1), usage: hour("shop-7c5687bd57-659fr", "app"), rows: []string{few},
			rest: []string{"Rollout web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests; pods whose names it would generate are counted as its own: 1"}},
		"neither workload nor pods": {manifests: vpaOf("Deployment", "shop"), usage: strings.ReplaceAll(hour("shop-7c5687bd57-659fr", "app"), ",web,", ",elsewhere,"), no: true, rows: []string{"shop - - -"}, rest: []string{
			"Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests, and no pod has a name that begins with its name; add its manifest with -f",
			"ignored usage of 1 pod that no workload in the manifests owns: elsewhere/shop-7c5687bd57-659fr",
			"web/shop: ConfigUnsupported=True: Cannot read targetRef. Reason: Deployment web/shop does not exist",
			"web/shop: NoPodsMatched=True: No pods match this VPA object",
			"web/shop: RecommendationProvided=False: No pods match this VPA object"}},
		"a target that is not the topmost": {manifests: vpaOf("ReplicaSet", "shop") + workloadOf("ReplicaSet", ", ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: up, uid: u, controller: true}]", "shop", "app") + deploymentOf("up", "app"), usage: hour("shop-659fr", "app"), no: true, rows: []string{"shop - - -"}, rest: []string{
			"web/shop: ConfigUnsupported=True: The target apps/v1.ReplicaSet/shop has a parent controller but it should point to a topmost well-known or scalable controller",
			"web/shop: NoPodsMatched=True: No pods match this VPA object",
			"web/shop: RecommendationProvided=False: No pods match this VPA object"}},
		"usage of init containers, and what is there twice": {manifests: vpaOf("Deployment", "shop") + strings.Replace(deploymentOf("shop", "app"), "containers:", "initContainers: [{name: first}], containers:", 1), usage: hour("shop-7c5687bd57-659fr", "app") + minutes(1, "shop-7c5687bd57-659fr", "app", is("0.1"), nil) + minutes(2, "shop-7c5687bd57-659fr", "first", is("9"), nil),
			rows: []string{few}, rest: []string{"ignored 2 rows of usage: the usage of init containers does not count", "ignored 1 row of usage: another row of the same container has the same time (series of single cores must be in one file), or an OOM is much older than the last one"}},
		"out of memory": {manifests: vpaOf("Deployment", "shop") + deploymentOf("shop", "app"), usage: minutes(2, "shop-7c5687bd57-659fr", "app", is("0.1"), is("3145728000")) + "1767225700,web,shop-7c5687bd57-659fr,app,oom,1048576000\n",
			rows: []string{"shop app 126m 4506574562"}}, // the upper end of the bucket of 3600Mi, and 15%
		"pods that are gone long since": {manifests: vpaOf("Deployment", "shop"), usage: hour("shop-7c5687bd57-bbbbb", "old") + strings.ReplaceAll(hour("shop-7c5687bd57-ccccc", "app"), "17672", "17692"), // 23 days later
			rows: []string{few}, rest: []string{"Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests; pods whose names it would generate are counted as its own: 2"}},
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
			if tt.usage == "" && tt.no {
				require.Equal(t, "recommendations are made from usage: give a file with --usage, or checkpoints among the objects", rest[0])
				rest = rest[1:]
			}
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

// TestLittleUsageIsReportedInOneLine: of a few VPAs by name, and not once a VPA.
func TestLittleUsageIsReportedInOneLine(t *testing.T) {
	report := &simulate.Recommendations{}
	conditions := func() string {
		var out strings.Builder
		p := newPage(&out)
		printConditions(p, report)
		require.NoError(t, p.Flush())
		return out.String()
	}
	require.Empty(t, conditions())
	for i := range 7 {
		v := vpav1.VerticalPodAutoscaler{}
		v.Namespace, v.Name = "web", fmt.Sprintf("shop-%d", i)
		if i != 1 {
			v.Status.Conditions = []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.LowConfidence, Status: corev1.ConditionTrue, Message: "m"}, {Type: vpav1.RecommendationProvided, Status: corev1.ConditionTrue}}
		}
		report.Items = append(report.Items, v)
		switch i {
		case 1:
			require.Equal(t, "\nLowConfidence: little usage is known yet, and bounds are wide: web/shop-0\n", conditions())
		case 5:
			require.Equal(t, "\nLowConfidence: little usage is known yet, and bounds are wide: web/shop-0, web/shop-2, web/shop-3, web/shop-4, web/shop-5\n", conditions())
		}
	}
	report.Items[1].Status.Conditions = []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.NoPodsMatched, Status: corev1.ConditionTrue}}
	require.Equal(t, "\nweb/shop-1: NoPodsMatched=True\nLowConfidence: little usage is known yet, and bounds are wide: web/shop-0, web/shop-2, web/shop-3, web/shop-4, web/shop-5, …\n", conditions())
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
	out, stderr, err := run(manifests.String(), "recommend", "-f", "-", "--usage", "usage.csv", "-o", "json", "--recommendation-min-samples=0")
	require.NoError(t, err)
	require.Empty(t, stderr)
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

// TestAMonthOfUsageIsReadQuickly: 5 minutes apart, of both resources, it is 17,280 rows.
func TestAMonthOfUsageIsReadQuickly(t *testing.T) {
	usage := minutes(30*288, "shop-7c5687bd57-659fr", "app", is("0.123456"), is("209715200.75"))
	bytes := hang.Bytes(t, func() {
		rows, _, err := recommended(t, vpaOf("Deployment", "shop"), usage)
		require.NoError(t, err)
		require.Len(t, rows, 1)
	})
	require.Less(t, bytes, uint64(128<<20))
}

// TestAFieldWithATypingErrorIsReported: a bound that is none would go unseen.
func TestAFieldWithATypingErrorIsReported(t *testing.T) {
	file := write(t, t.TempDir(), "typo.yaml", strings.Replace(vpaOf("Deployment", "shop"), "spec: {", "spec: {resourcePolicy: {containerPolicies: [{containerName: app, maxAlowed: {memory: 1Gi}}]}, ", 1))
	out, err := celvpa(t, "recommend", "-f", file)
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, `VerticalPodAutoscaler web/shop: unknown field "spec.resourcePolicy.containerPolicies[0].maxAlowed"; it has no effect`)
}

// TestFilesForgetWhatAClusterForgets: containers that no pod has any more, and usage that has expired.
func TestFilesForgetWhatAClusterForgets(t *testing.T) {
	renamed := vpaOf("Deployment", "shop") + deploymentOf("shop", "new")
	const pod = "---\n{apiVersion: v1, kind: Pod, metadata: {name: shop-7c5687bd57-bcdfg, namespace: web, labels: {app: shop}}, spec: {containers: [{name: new}]}, status: {phase: Running}}\n"
	at := func(pod, container string, times ...string) string {
		var out strings.Builder
		for _, moment := range times {
			for resource, amount := range map[string]string{"cpu": "0.001", "memory": "1048576"} {
				fmt.Fprintf(&out, "2026-02-%sZ,web,%s,%s,%s,%s\n", moment, pod, container, resource, amount)
			}
		}
		return out.String()
	}
	const old, running = "shop-6c5687bd57-659fr", "shop-7c5687bd57-bcdfg"
	both := at(old, "old", "01T10:00:00") + at(running, "new", "01T11:05:00", "01T12:30:00")
	const alone = "shop new 25m 250Mi"
	const ended = "web/shop: RecommendationProvided=False: the last usage is too long ago of container new"
	for name, tt := range map[string]struct {
		manifests, usage, more string
		rows, rest             []string
	}{
		"a container that was renamed":                        {manifests: renamed, usage: both, rows: []string{alone}},
		"its new pod is among the manifests":                  {manifests: renamed + pod, usage: both, rows: []string{alone}},
		"the old pod was there a minute ago":                  {manifests: renamed + pod, usage: both + at(old, "old", "01T12:29:00"), rows: []string{alone}},
		"the new pod has no usage yet":                        {manifests: renamed + pod, usage: at(old, "old", "01T10:00:00"), rows: []string{"shop - - -"}, rest: []string{"web/shop: RecommendationProvided=False: too little usage is known to recommend cpu and memory of container new"}},
		"a rollout that is under way":                         {manifests: renamed, usage: both + at(old, "old", "01T12:29:00"), rows: []string{"shop new 12m 125Mi", "shop old 12m 125Mi"}},
		"eight days but a second after the last row":          {manifests: renamed + pod, usage: both, more: "--now=2026-02-09T12:29:59Z", rows: []string{alone}},
		"eight days after the last row":                       {manifests: renamed + pod, usage: both, more: "--now=2026-02-09T12:30:00Z", rows: []string{"shop - - -"}, rest: []string{ended}},
		"the same without the pod":                            {manifests: renamed, usage: both, more: "--now=2026-03-01T00:00:00Z", rows: []string{"shop - - -"}, rest: []string{ended}},
		"history that expired while another container ran on": {manifests: renamed + deploymentOf("other", "app"), usage: at(running, "new", "01T10:00:00", "09T12:00:00") + at("other-7c5687bd57-bcdfg", "app", "09T10:00:00"), more: "--recommendation-min-samples=2", rows: []string{"shop - - -"}, rest: []string{"web/shop: RecommendationProvided=False: too little usage is known to recommend cpu and memory of container new"}},
		"an earlier time, before the new pod was created": {manifests: vpaOf("Deployment", "shop") + strings.Replace(pod, "labels:", "creationTimestamp: 2026-02-01T11:00:00Z, labels:", 1), usage: both, more: "--now=2026-02-01T10:30:00Z", rows: []string{"shop old 25m 250Mi"},
			rest: []string{"ignored 4 rows of usage later than 2026-02-01T10:30:00Z", "ignored 1 pod created later than 2026-02-01T10:30:00Z",
				"Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests; pods whose names it would generate are counted as its own: 1"}},
		"a new pod that was created after the last row": {manifests: renamed + strings.Replace(pod, "labels:", "creationTimestamp: 2026-02-01T12:31:00Z, labels:", 1), usage: both, rows: []string{alone}},
		"history that all containers continue at once":  {manifests: renamed + deploymentOf("other", "app"), usage: at(running, "new", "01T10:00:00", "09T12:00:00") + at("other-7c5687bd57-bcdfg", "app", "09T12:00:00"), more: "--recommendation-min-samples=2", rows: []string{alone}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, rest, _ := recommended(t, tt.manifests, tt.usage, strings.Fields(tt.more)...)
			require.Equal(t, tt.rows, rows)
			require.Equal(t, tt.rest, rest)
		})
	}
}
