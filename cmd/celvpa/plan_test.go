package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// planNow is when the updater looks in tests and examples.
const planNow = "2026-01-31T12:00:00Z"

// plannedFrom runs celvpa plan on text, and returns its report, the notes on standard error, and its end.
func plannedFrom(t *testing.T, gates bool, text string) (simulate.Plan, []string, error) {
	t.Helper()
	out, stderr, end := run(text, "plan", "-f", "-", "-o", "json", "--now", planNow, fmt.Sprintf("--feature-gates=AllAlpha=%t", gates))
	var report simulate.Plan
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	return report, notesIn(stderr), end
}

// rows are the pods of a plan, as "pod vpa action rule".
func rows(report simulate.Plan) (out []string) {
	for _, i := range report.Items {
		out = append(out, strings.TrimSpace(strings.Join([]string{strings.TrimPrefix(i.Pod, "web/"), strings.TrimPrefix(i.VPA, "web/"), i.Action, i.Rule}, " ")))
	}
	return out
}

const ofShop = ", ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: shop, controller: true}]"

// TestEveryPodOfTheExamplesIsExplainedInOneLine: what the table says is compared with care, in testdata/plan, with the gates off and on.
// After a change it is what this prints: celvpa plan -o wide -f examples/updater -f … --now 2026-01-31T12:00:00Z --feature-gates AllAlpha=true
func TestEveryPodOfTheExamplesIsExplainedInOneLine(t *testing.T) {
	folders, err := filepath.Glob("../../examples/*")
	require.NoError(t, err)
	folders = slices.DeleteFunc(folders, func(folder string) bool { // overlays of the cookbook would decide on all pods, and TestTheDemo has those of the demo
		return filepath.Base(folder) == "cookbook" || filepath.Base(folder) == "demo"
	})
	set, err := manifests.Read(folders, nil)
	require.NoError(t, err)
	pods, err := set.Pods()
	require.NoError(t, err)
	require.Greater(t, len(pods), 30)
	for on, file := range map[bool]string{false: "gates-off.txt", true: "gates-on.txt"} {
		t.Run(file, func(t *testing.T) {
			args := []string{"plan", "-o", "wide", "--now", "2026-01-31T12:00:00Z", fmt.Sprintf("--feature-gates=AllAlpha=%t", on)}
			for _, folder := range folders {
				args = append(args, "-f", folder)
			}
			out, err := celvpa(t, args...)
			require.NoError(t, err)
			want, err := os.ReadFile(filepath.Join("testdata", "plan", file))
			require.NoError(t, err)
			require.Equal(t, string(want), out)
			for i := range pods {
				key := pods[i].Namespace + "/" + pods[i].Name
				found := 0
				for line := range strings.Lines(out) {
					if f := strings.Fields(line); f[0] == key {
						found++
						require.Greater(t, len(f), 6, line)
					}
				}
				require.Equal(t, 1, found, key)
			}
		})
	}
}

// scaleNoteEnd ends the note about a target whose kind may have no scale subresource.
const scaleNoteEnd = ", counts as one with a scale subresource, without which a cluster finds no pods of it; add its CustomResourceDefinition with -f to make sure"

// TestWhichPodsAreUpdatedAndWhyOthersAreNot: pods are listed as "pod vpa action rule", in the order in which the updater goes.
func TestWhichPodsAreUpdatedAndWhyOthersAreNot(t *testing.T) {
	deployment := sized("Deployment", "", "shop", 2) + sized("ReplicaSet", ofShop, "shop-7c5687bd57", 2)
	deployment = strings.Replace(deployment, "app: shop-7c5687bd57", "app: shop", 2)
	two := running("a", "shop", "ReplicaSet", "shop-7c5687bd57") + running("b", "shop", "ReplicaSet", "shop-7c5687bd57")
	const evicted, waits = "a shop Evict update/evict", "b shop Wait update/budget-spent"
	statefulSet := sized("StatefulSet", "", "shop", 2)
	circle := sized("ReplicaSet", strings.Replace(strings.Replace(ofShop, "Deployment", "ReplicaSet", 1), "shop", "b", 1), "a", 2) + sized("ReplicaSet", strings.Replace(strings.Replace(ofShop, "Deployment", "ReplicaSet", 1), "shop", "a", 1), "b", 2)
	for name, tt := range map[string]struct {
		text   string
		gates  bool
		rows   []string
		reason string // of the first pod
		notes  []string
	}{
		"one of two, and the other one waits":    {text: farOff("Deployment", "shop") + deployment + two, rows: []string{evicted, waits}, reason: "Its requests are outside the recommended range"},
		"pods are written in another order":      {text: running("b", "shop", "ReplicaSet", "shop-7c5687bd57") + running("a", "shop", "ReplicaSet", "shop-7c5687bd57") + deployment + farOff("Deployment", "shop"), rows: []string{evicted, waits}},
		"the one that needs more comes first":    {text: farOff("StatefulSet", "shop") + statefulSet + running("a", "shop", "StatefulSet", "shop") + strings.Replace(running("b", "shop", "StatefulSet", "shop"), "100m", "10m", 1), rows: []string{"b shop Evict update/evict", "a shop Wait update/budget-spent"}},
		"VPAs by name":                           {text: farOff("StatefulSet", "shop") + farOff("StatefulSet", "art") + statefulSet + sized("StatefulSet", "", "art", 2) + running("a", "shop", "StatefulSet", "shop") + running("b", "art", "StatefulSet", "art"), rows: []string{"b art Skip eligibility/too-few-replicas", "a shop Skip eligibility/too-few-replicas"}},
		"a resize takes its place in the budget": {text: inMode("InPlaceOrRecreate", "StatefulSet", "shop") + statefulSet + running("a", "shop", "StatefulSet", "shop") + running("b", "shop", "StatefulSet", "shop"), rows: []string{"a shop InPlace update/resize", waits}},
		"a pod that is pending takes none":       {text: farOff("StatefulSet", "shop") + sized("StatefulSet", "", "shop", 3) + strings.Replace(running("a", "shop", "StatefulSet", "shop"), "Running", "Pending", 1) + running("b", "shop", "StatefulSet", "shop") + running("c", "shop", "StatefulSet", "shop"), rows: []string{"a shop Evict update/evict-pending", "b shop Wait update/budget-spent", "c shop Wait update/budget-spent"}},
		"the ReplicaSet is missing":              {text: farOff("Deployment", "shop") + sized("Deployment", "", "shop", 5) + two, rows: []string{evicted, waits}, notes: []string{"ReplicaSet web/shop-7c5687bd57 is not in the manifests: the number of its pods counts as its replicas: 2"}},
		"the Deployment is missing, too": {text: farOff("Deployment", "shop") + two, rows: []string{evicted, waits}, notes: []string{
			"Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests; pods of a ReplicaSet whose name it would generate are counted as its own",
			"ReplicaSet web/shop-7c5687bd57 is not in the manifests: the number of its pods counts as its replicas: 2"}},
		"a DaemonSet without status":            {text: farOff("DaemonSet", "shop") + workloadOf("DaemonSet", "", "shop", "app") + running("a", "shop", "DaemonSet", "shop") + running("b", "shop", "DaemonSet", "shop"), rows: []string{evicted, waits}, notes: []string{"DaemonSet web/shop has no status.desiredNumberScheduled: the number of its pods counts as its replicas: 2"}},
		"a custom workload":                     {text: farOff("Rollout", "shop") + sized("Rollout", "", "shop", 4) + running("a", "shop", "Rollout", "shop") + running("b", "shop", "Rollout", "shop") + running("c", "shop", "Rollout", "shop"), rows: []string{evicted, waits, "c shop Wait update/budget-spent"}, notes: []string{"kind Rollout.apps, the target of VerticalPodAutoscaler web/shop" + scaleNoteEnd}},
		"a custom workload that does not count": {text: farOff("Rollout", "shop") + workloadOf("Rollout", "", "shop", "app") + running("a", "shop", "Rollout", "shop") + running("b", "shop", "Rollout", "shop"), rows: []string{evicted, waits}, notes: []string{"kind Rollout.apps, the target of VerticalPodAutoscaler web/shop" + scaleNoteEnd, "Rollout web/shop has no spec.replicas: the number of its pods counts as its replicas: 2"}},
		"a workload of no pods":                 {text: farOff("StatefulSet", "shop") + sized("StatefulSet", "", "shop", 0) + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a shop Skip eligibility/replicas-unknown"}},
		"a Job has as many as there are":        {text: farOff("Job", "shop") + "---\n{apiVersion: batch/v1, kind: Job, metadata: {name: shop, namespace: web}, spec: {selector: {matchLabels: {app: shop}}, template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: app}]}}}}\n" + running("a", "shop", "Job", "shop") + running("b", "shop", "Job", "shop"), rows: []string{evicted, waits}},

		"the update mode":             {text: inMode("Off", "StatefulSet", "shop") + statefulSet + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a shop Skip update-mode/not-in-this-mode"}, reason: "Update mode Off leaves running pods alone"},
		"an unknown update mode":      {text: inMode("Sometimes", "StatefulSet", "shop") + statefulSet + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a shop Skip eligibility/mode-unknown"}},
		"pods that are not looked at": {text: farOff("StatefulSet", "shop") + statefulSet + running("a", "shop", "StatefulSet", "shop", ", deletionTimestamp: '2026-01-31T12:00:00Z'") + strings.Replace(running("b", "shop", "StatefulSet", "shop"), "Running", "Failed", 1) + strings.Replace(running("c", "shop", "StatefulSet", "shop"), "nodeName: node, ", "", 1) + running("z", "shop", "StatefulSet", "shop"), rows: []string{"z shop Skip eligibility/too-few-replicas", "a shop Skip", "b shop Skip", "c shop Skip"}},
		"no VPA":                      {text: statefulSet + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a  Skip"}, reason: "No VerticalPodAutoscaler controls it: none has the target StatefulSet web/shop"},
		"no VPA, and it has finished": {text: statefulSet + strings.Replace(running("a", "shop", "StatefulSet", "shop"), "Running", "Succeeded", 1), rows: []string{"a  Skip"}, reason: "The pod has finished"},
		"a pod of a node":             {text: farOff("StatefulSet", "shop") + statefulSet + running("a", "shop", "Node", "node"), rows: []string{"a  Skip"}, reason: "No VerticalPodAutoscaler controls it: its node owns it", notes: []string{"VerticalPodAutoscaler web/shop: no pod in the manifests belongs to its target, StatefulSet web/shop; add running pods with -f, as kubectl get pod -o yaml prints them"}},
		"owners that go round in circles": {text: farOff("ReplicaSet", "a") + circle + running("p", "a", "ReplicaSet", "a"), rows: []string{"p  Skip"},
			reason: "No VerticalPodAutoscaler controls it: finding the topmost controller of pod web/p: the owners of apps/v1.ReplicaSet/a go round in circles",
			notes:  []string{"VerticalPodAutoscaler web/a cannot be used: Error checking if target apps/v1.ReplicaSet/a is a topmost well-known or scalable controller: the owners of apps/v1.ReplicaSet/a go round in circles"}},
		"objects of a custom kind own targets": {text: farOff("StatefulSet", "shop") + farOff("StatefulSet", "art") + sized("StatefulSet", ofOperator, "shop", 2) + sized("StatefulSet", ofOperator, "art", 2) + running("a", "shop", "StatefulSet", "shop") + running("b", "art", "StatefulSet", "art"), rows: []string{"b art Skip eligibility/too-few-replicas", "a shop Skip eligibility/too-few-replicas"}},
		"the owner of a target is one, too": {text: farOff("StatefulSet", "shop") + strings.Replace(farOff("Operator", "all"), "apps/v1", "example.com/v1", 1) + sized("StatefulSet", ofOperator, "shop", 2) + strings.Replace(sized("Operator", "", "all", 2), "apps/v1", "example.com/v1", 1) + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a  Skip"},
			reason: "No VerticalPodAutoscaler controls it: VerticalPodAutoscaler web/shop cannot be used: The target apps/v1.StatefulSet/shop has a parent controller but it should point to a topmost well-known or scalable controller; VerticalPodAutoscaler web/all has a target whose selector app=all does not match its labels",
			notes: []string{"kind Operator.example.com, the target of VerticalPodAutoscaler web/all" + scaleNoteEnd,
				"VerticalPodAutoscaler web/all: no pod in the manifests belongs to its target, Operator web/all; add running pods with -f, as kubectl get pod -o yaml prints them",
				"VerticalPodAutoscaler web/shop cannot be used: The target apps/v1.StatefulSet/shop has a parent controller but it should point to a topmost well-known or scalable controller"}},
		"a Node that owns a target is not a parent":   {text: farOff("StatefulSet", "shop") + sized("StatefulSet", ", ownerReferences: [{apiVersion: v1, kind: Node, name: node, controller: true}]", "shop", 2) + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a shop Skip eligibility/too-few-replicas"}},
		"an owner that does not say that it controls": {text: farOff("StatefulSet", "shop") + statefulSet + strings.Replace(running("a", "shop", "StatefulSet", "shop"), "[{apiVersion", "[{apiVersion: v1, kind: Other, name: x}, {apiVersion", 1), rows: []string{"a shop Skip eligibility/too-few-replicas"}},
		"a target that has vanished":                  {text: farOff("StatefulSet", "gone") + statefulSet + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a  Skip"}, notes: []string{"StatefulSet web/gone, the target of VerticalPodAutoscaler web/gone, is not in the manifests, and no pod belongs to it; add its manifest with -f"}},
		"a VPA without a target": {text: "---\n{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: shop, namespace: web}, spec: {}}\n" + statefulSet + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a  Skip"},
			notes: []string{"VerticalPodAutoscaler web/shop cannot be used: Cannot read targetRef. Reason: targetRef not defined. If this is a v1beta1 object, switch to v1"}},
		"a pod without status":            {text: farOff("StatefulSet", "shop") + statefulSet + strings.Replace(ownedPod("a", "shop", "StatefulSet", "shop"), "spec: {", "spec: {nodeName: node, ", 1) + running("b", "shop", "StatefulSet", "shop"), rows: []string{"a shop Evict update/evict", "b shop Wait update/budget-spent"}},
		"annotations that cannot be read": {gates: true, text: farOff("StatefulSet", "shop") + statefulSet + running("a", "shop", "StatefulSet", "shop", ", annotations: {vpaObservedContainers: 'a b', vpaCpuStartupBoost/app: '{'}") + running("b", "shop", "StatefulSet", "shop", ", annotations: {vpaObservedContainers: 'A,b', vpaCpuStartupBoost/other: '{'}"), rows: []string{"a shop Wait unboost/not-over", "b shop Evict update/evict"}},
		"a pod without containers":        {text: farOff("StatefulSet", "shop") + statefulSet + "---\n{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: web, labels: {app: shop}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: shop, controller: true}]}, spec: {nodeName: node}}\n", rows: []string{"a shop Skip eligibility/no-recommendation"}, notes: []string{"VerticalPodAutoscaler web/shop: what it recommends for container app is left out: no pod of its target has such a container"}},
		"a sidecar keeps what it has": {text: farOff("StatefulSet", "shop") + statefulSet + strings.Replace(running("a", "shop", "StatefulSet", "shop"), "containers: [{name: app", "initContainers: [{name: app, restartPolicy: Always}], containers: [{name: main", 1), rows: []string{"a shop Skip eligibility/no-recommendation"}, notes: []string{
			"VerticalPodAutoscaler web/shop: what it recommends for container app is left out: it is an init container, and those, sidecars too, keep their resources"}},
		"two VPAs for one": {text: farOff("StatefulSet", "shop") + strings.Replace(farOff("StatefulSet", "shop"), "name: shop", "name: younger", 1) + statefulSet + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a shop Skip eligibility/too-few-replicas"}, notes: []string{
			"VerticalPodAutoscaler web/younger: the pods of its target, StatefulSet web/shop, belong to VerticalPodAutoscaler web/shop, which has the same"}},
		"two VPAs for one, of which the older one is off": {text: inMode("Off", "StatefulSet", "shop") + strings.Replace(farOff("StatefulSet", "shop"), "name: shop", "name: younger", 1) + statefulSet + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a younger Skip eligibility/too-few-replicas"}, notes: []string{
			"VerticalPodAutoscaler web/shop: the pods of its target, StatefulSet web/shop, belong to VerticalPodAutoscaler web/younger, which has the same"}},
		"a pod that is there twice":          {text: farOff("StatefulSet", "shop") + statefulSet + running("a", "shop", "StatefulSet", "shop") + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a shop Skip eligibility/too-few-replicas"}, notes: []string{"standard input:9: Pod web/a is already defined at standard input:6; keep one of them; the first counts"}},
		"a pipeline that is not there":       {text: strings.Replace(farOff("StatefulSet", "shop"), "namespace: web}", "namespace: web, annotations: {rules.celvpa.dev/pipeline: other}}", 1) + statefulSet + running("a", "shop", "StatefulSet", "shop"), rows: []string{"a shop Skip"}, reason: `The rules that the VPA asks for cannot be used: pipeline "other" is not loaded; write it as name@version, there is default@1.0.0; --pipelines and --rules-dir load others`, notes: []string{`VerticalPodAutoscaler web/shop: pipeline "other" is not loaded; write it as name@version, there is default@1.0.0; --pipelines and --rules-dir load others; its running pods are left alone`}},
		"what is no pod, workload or VPA":    {text: farOff("StatefulSet", "shop") + statefulSet + running("a", "shop", "StatefulSet", "shop") + "---\n{apiVersion: v1, kind: Service, metadata: {name: shop}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: node}}\n", rows: []string{"a shop Skip eligibility/too-few-replicas"}},
		"a LimitRange bounds what is wanted": {text: farOff("StatefulSet", "shop") + statefulSet + running("a", "shop", "StatefulSet", "shop") + running("b", "shop", "StatefulSet", "shop") + "---\n{apiVersion: v1, kind: LimitRange, metadata: {name: r, namespace: web}, spec: {limits: [{type: Container, max: {cpu: 100m, memory: 128Mi}}]}}\n", rows: []string{"a shop Skip eligibility/within-recommended-range", "b shop Skip eligibility/within-recommended-range"}},
		"a boost ends in mode Off":           {gates: true, text: inMode("Off", "StatefulSet", "shop") + statefulSet + running("a", "shop", "StatefulSet", "shop", ", annotations: {vpaCpuStartupBoost/app: '{\"requests\":{\"cpu\":\"50m\"}}'}", "", ", conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-01-31T11:30:00Z'}]") + running("b", "shop", "StatefulSet", "shop"), rows: []string{"a shop InPlace unboost/boost-over", "b shop Skip update-mode/not-in-this-mode"}},
		"no boost ends without its gate":     {text: inMode("Off", "StatefulSet", "shop") + statefulSet + running("a", "shop", "StatefulSet", "shop", ", annotations: {vpaCpuStartupBoost/app: '{}'}"), rows: []string{"a shop Skip unboost/gate-off"}, reason: "Startup boosts need --feature-gates=CPUStartupBoost=true"},
	} {
		t.Run(name, func(t *testing.T) {
			report, notes, err := plannedFrom(t, tt.gates, tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.rows, rows(report), notes)
			for _, i := range report.Items {
				require.NotEmpty(t, i.Reason, i.Pod)
				require.NotContains(t, i.Reason, "\n", i.Pod)
			}
			if tt.reason != "" {
				require.Equal(t, tt.reason, report.Items[0].Reason)
			}
			require.Equal(t, tt.notes, notes)
		})
	}
}

// TestRunningPodsHaveTheRequestsThatAPIServersFillIn, of containers and at pod level, so that they are compared with what is
// recommended and limits keep their proportion.
func TestRunningPodsHaveTheRequestsThatAPIServersFillIn(t *testing.T) {
	recommended := strings.Replace(farOff("StatefulSet", "shop"), "containerRecommendations", "podRecommendation: {target: {cpu: 600m, memory: 2Gi}}, containerRecommendations", 1)
	pod := func(spec, resources string) string {
		pod := strings.Replace(running("a", "shop", "StatefulSet", "shop"), "requests: {cpu: 100m, memory: 128Mi}", resources, 1)
		return recommended + sized("StatefulSet", "", "shop", 1) + strings.Replace(pod, "nodeName: node, ", "nodeName: node, "+spec, 1)
	}
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"a container's limits": {pod("", "limits: {cpu: 100m, memory: 128Mi}"),
			[]string{"container app: requests.cpu 100m → 500m", "container app: requests.memory 128Mi → 1Gi", "container app: limits.cpu 100m → 500m", "container app: limits.memory 128Mi → 1Gi"}},
		"the pod's limits": {pod("resources: {limits: {cpu: '1', memory: 1Gi}}, ", ""),
			[]string{"the pod: requests.cpu 1 → 600m", "the pod: requests.memory 1Gi → 2Gi", "the pod: limits.cpu 1 → 600m", "the pod: limits.memory 1Gi → 2Gi"}},
	} {
		t.Run(name, func(t *testing.T) {
			report, notes, err := plannedFrom(t, true, tt.text)
			require.NoError(t, err)
			require.Len(t, report.Items, 1, notes)
			var got []string
			for _, change := range report.Items[0].Change {
				got = append(got, change.String())
			}
			require.Equal(t, tt.want, got)
		})
	}
}
