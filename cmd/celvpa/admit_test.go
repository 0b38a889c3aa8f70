package main

import (
	jsonpatch "github.com/evanphx/json-patch/v5"

	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/simulate"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/yaml"
)

// admittedFrom runs celvpa admit on text, and returns its report, what it prints to standard error, and its end.
func admittedFrom(t *testing.T, text string) (simulate.Admissions, string, error) {
	t.Helper()
	out, stderr, end := run(text, "admit", "-f", "-", "-o", "json", "--explain")
	var report simulate.Admissions
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	return report, stderr, end
}

// TestWhichVPAChangesAPod, and why none does: as in a cluster, and where owners are missing by their names. Pods are named by
// name and why.
func TestWhichVPAChangesAPod(t *testing.T) {
	const alone = "---\n{apiVersion: v1, kind: Pod, metadata: {name: alone, namespace: web, labels: {app: shop}}, spec: {containers: [{name: app}]}}\n"
	off := strings.Replace(recommends("Deployment", "shop"), "spec: {", "spec: {updatePolicy: {updateMode: 'Off'}, ", 1)
	const mine = ": VerticalPodAutoscaler web/shop controls it"
	const none = ": no VerticalPodAutoscaler controls it: "
	for name, tt := range map[string]struct{ text, why, note string }{
		"a Deployment's":                      {text: recommends("Deployment", "shop") + deploymentOf("shop", "app"), why: "pod web/shop- of Deployment web/shop" + mine},
		"a CronJob's":                         {text: recommends("CronJob", "shop") + "---\n{apiVersion: batch/v1, kind: CronJob, metadata: {name: shop, namespace: web}, spec: {jobTemplate: {spec: {template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: app}]}}}}}}", why: "pod web/shop- of CronJob web/shop" + mine},
		"a Job's":                             {text: recommends("Job", "shop") + "---\n{apiVersion: batch/v1, kind: Job, metadata: {name: shop, namespace: web}, spec: {template: {spec: {containers: [{name: app}]}}}}", why: "pod web/shop- of Job web/shop" + mine},
		"a custom workload's":                 {text: recommends("Rollout", "shop") + workloadOf("Rollout", "", "shop", "app"), why: "pod web/shop- of Rollout web/shop" + mine, note: "celvpa: kind Rollout.apps, the target of VerticalPodAutoscaler web/shop" + scaleNoteEnd + "\n"},
		"a pod of a ReplicaSet that is there": {text: recommends("Deployment", "shop") + deploymentOf("shop", "app") + workloadOf("ReplicaSet", ", ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: shop, controller: true}]", "new", "app") + ownedPod("p", "new", "ReplicaSet", "new"), why: "pod web/p" + none + "VerticalPodAutoscaler web/shop has a target whose selector app=shop does not match its labels"},
		"a pod of a ReplicaSet that is not":   {text: recommends("Deployment", "shop") + deploymentOf("shop", "app") + ownedPod("p", "shop", "ReplicaSet", "shop-7c5687bd57"), why: "pod web/p" + mine},
		"a pod of a Deployment that is not":   {text: recommends("Deployment", "shop") + ownedPod("p", "shop", "ReplicaSet", "shop-7c5687bd57"), why: "pod web/p" + mine, note: "celvpa: Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests; pods of a ReplicaSet whose name it would generate are counted as its own\n"},
		"a pod of a StatefulSet that is not":  {text: recommends("StatefulSet", "shop") + ownedPod("p", "shop", "StatefulSet", "shop"), why: "pod web/p" + mine, note: "celvpa: StatefulSet web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests; pods that it owns are counted as its own\n"},
		"a pod of a stranger":                 {text: recommends("Deployment", "shop") + deploymentOf("shop", "app") + ownedPod("p", "shop", "ReplicaSet", "stranger-7c5687bd57"), why: "pod web/p" + none + "ReplicaSet web/stranger-7c5687bd57, which owns it, is not in the manifests"},
		"a pod of the longest name that fits": {text: recommends("Deployment", "shop") + deploymentOf("shop", "app") + deploymentOf("shop-bcd", "app") + ownedPod("p", "shop", "ReplicaSet", "shop-bcd-7c5687bd57"), why: "pod web/p" + none + "none has the target Deployment web/shop-bcd"},
		"a pod of nobody":                     {text: recommends("Deployment", "shop") + deploymentOf("shop", "app") + alone, why: "pod web/alone" + none + "no controller owns it (metadata.ownerReferences)"},
		"a target that is missing":            {text: recommends("Deployment", "shop") + alone, why: "pod web/alone" + none + "no controller owns it (metadata.ownerReferences)", note: "celvpa: Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests, and no pod belongs to it; add its manifest with -f\n"},
		"no VPA of that target":               {text: recommends("StatefulSet", "shop") + workloadOf("StatefulSet", "", "shop", "app") + deploymentOf("other", "app"), why: "pod web/other- of Deployment web/other" + none + "none has the target Deployment web/other"},
		"the mode is Off":                     {text: off + deploymentOf("shop", "app"), why: "pod web/shop- of Deployment web/shop" + none + "VerticalPodAutoscaler web/shop leaves new pods alone: The update mode is Off (rule admission-mode/mode-off)"},
		"nothing is recommended":              {text: vpaOf("Deployment", "shop") + deploymentOf("shop", "app"), why: "pod web/shop- of Deployment web/shop" + mine + ", but has no recommendation"},
		"a target that something else owns":   {text: recommends("ReplicaSet", "rs") + deploymentOf("shop", "app") + workloadOf("ReplicaSet", ", ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: shop, controller: true}]", "rs", "app") + ownedPod("p", "rs", "ReplicaSet", "rs"), why: "pod web/p" + none + "VerticalPodAutoscaler web/rs cannot be used: The target apps/v1.ReplicaSet/rs has a parent controller but it should point to a topmost well-known or scalable controller"},
		"owners that go round in circles":     {text: recommends("ReplicaSet", "a") + workloadOf("ReplicaSet", ", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: b, controller: true}]", "a", "app") + workloadOf("ReplicaSet", ", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: a, controller: true}]", "b", "app") + ownedPod("p", "a", "ReplicaSet", "a"), why: "pod web/p" + none + "finding the topmost controller of pod web/p: the owner references of apps/v1.ReplicaSet/a form a cycle"},
		"a custom workload of another": {text: recommends("Rollout", "shop") + recommends("Fleet", "all") + workloadOf("Fleet", "", "all") + workloadOf("Rollout", ", ownerReferences: [{apiVersion: apps/v1, kind: Fleet, name: all, controller: true}]", "shop", "app") + ownedPod("p", "shop", "Rollout", "shop"), why: "pod web/p" + mine,
			note: "celvpa: kind Fleet.apps, the target of VerticalPodAutoscaler web/all" + scaleNoteEnd + "\ncelvpa: kind Rollout.apps, the target of VerticalPodAutoscaler web/shop" + scaleNoteEnd + "\n"},
		"a workload that a custom kind owns":    {text: recommends("StatefulSet", "shop") + workloadOf("StatefulSet", ofOperator, "shop", "app"), why: "pod web/shop-0 of StatefulSet web/shop" + mine},
		"two VPAs for one":                      {text: recommends("Deployment", "shop") + strings.Replace(recommends("Deployment", "shop"), "name: shop", "name: younger", 1) + deploymentOf("shop", "app"), why: "pod web/shop- of Deployment web/shop" + mine + "; web/younger has the same target, and comes after it (point vpa.order)"},
		"in another namespace":                  {text: strings.Replace(recommends("Deployment", "shop"), "namespace: web", "namespace: other", 1) + deploymentOf("shop", "app"), why: "pod web/shop- of Deployment web/shop" + none + "none has the target Deployment web/shop", note: "celvpa: Deployment other/shop, the target of VerticalPodAutoscaler other/shop, is not in the manifests, and no pod belongs to it; add its manifest with -f\n"},
		"recommended, and then as it was":       {text: recommends("Deployment", "shop") + vpaOf("Deployment", "shop") + deploymentOf("shop", "app"), why: "pod web/shop- of Deployment web/shop" + mine},
		"recommended for what is there no more": {text: recommends("Deployment", "shop") + deploymentOf("shop", "new"), why: "pod web/shop- of Deployment web/shop" + mine, note: "celvpa: VerticalPodAutoscaler web/shop: what it recommends for container app is left out: no pod of its target has such a container\n"},
	} {
		t.Run(name, func(t *testing.T) {
			report, stderr, err := admittedFrom(t, tt.text)
			require.NoError(t, err)
			require.Contains(t, stderr, "\n"+tt.why)
			notes, _, _ := strings.Cut(stderr, "\npod ")
			require.Equal(t, tt.note, notes)
			again, same, err := admittedFrom(t, tt.text)
			require.NoError(t, err)
			require.Equal(t, report, again, "it is the same every time")
			require.Equal(t, stderr, same)
		})
	}
}

// TestAPodIsPatchedAsItWasWritten: the patch makes what it writes into, keeps what nobody knows, and leads to the object.
func TestAPodIsPatchedAsItWasWritten(t *testing.T) {
	for name, tt := range map[string]struct{ metadata, container, want string }{
		"nothing there":         {"", "", `{"requests":{"cpu":"500m","memory":"1Gi"}}`},
		"nulls":                 {", annotations: null", ", resources: null", `{"requests":{"cpu":"500m","memory":"1Gi"}}`},
		"nulls further down":    {"", ", resources: {requests: null, limits: {cpu: 1}}", `{"limits":{"cpu":"500m"},"requests":{"cpu":"500m","memory":"1Gi"}}`},
		"empty":                 {", annotations: {}", ", resources: {requests: {}}", `{"requests":{"cpu":"500m","memory":"1Gi"}}`},
		"limits only":           {", annotations: {a: b}", ", resources: {limits: {cpu: 1, example.com/gpu: 1}}", `{"limits":{"cpu":"500m","example.com/gpu":1},"requests":{"cpu":"500m","memory":"1Gi"}}`},
		"fields of the future":  {"", ", resources: {wishes: {cpu: 1}}", `{"requests":{"cpu":"500m","memory":"1Gi"},"wishes":{"cpu":1}}`},
		"claims are left alone": {"", ", resources: {claims: [{name: a}]}", `{"claims":[{"name":"a"}],"requests":{"cpu":"500m","memory":"1Gi"}}`},
		"a ratio":               {"", ", resources: {requests: {memory: 512Mi}, limits: {memory: 1Gi}}", `{"limits":{"memory":"2Gi"},"requests":{"cpu":"500m","memory":"1Gi"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := strings.Replace(ownedPod("p", "shop", "ReplicaSet", "shop-7c5687bd57"), "{name: app}", "{name: app, image: 'a<b', huge: 9007199254740993"+tt.container+"}", 1)
			pod = strings.Replace(pod, "namespace: web", "namespace: web"+tt.metadata, 1)
			report, _, err := admittedFrom(t, recommends("Deployment", "shop")+pod)
			require.NoError(t, err)
			require.Len(t, report.Items, 1)
			written, err := yaml.YAMLToJSON([]byte(strings.TrimPrefix(pod, "---\n")))
			require.NoError(t, err)
			text, err := json.Marshal(report.Items[0].Patch)
			require.NoError(t, err)
			patch, err := jsonpatch.DecodePatch(text)
			require.NoError(t, err)
			want, err := patch.Apply(written)
			require.NoError(t, err)
			got, err := json.Marshal(report.Items[0].Object)
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(got))
			c := report.Items[0].Object["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
			require.Equal(t, "a<b", c["image"])
			resources, err := json.Marshal(c["resources"])
			require.NoError(t, err)
			require.JSONEq(t, tt.want, string(resources))
		})
	}
}

// TestTheAdmitCommand: flags, exit codes and what is printed.
func TestTheAdmitCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	write("shop.yaml", recommends("Deployment", "shop")+deploymentOf("shop", "app"))
	write("whole.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: whole}, spec: {resources: {limits: {cpu: 1}}, containers: [{name: app}]}}\n---\n{apiVersion: v1, kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, max: {cpu: 1}}]}}")
	write("typo.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: typo}, spec: {containers: [{name: a, resources: {limits: {cpu: 1 core}}}]}}")
	const patch = `# web/shop-
[{"op":"add","path":"/metadata/annotations","value":{}},
 {"op":"add","path":"/spec/containers/0/resources","value":{}},
 {"op":"add","path":"/spec/containers/0/resources/requests","value":{}},
 {"op":"add","path":"/spec/containers/0/resources/requests/cpu","value":"500m"},
 {"op":"add","path":"/spec/containers/0/resources/requests/memory","value":"1Gi"},
 {"op":"add","path":"/metadata/annotations/vpaUpdates","value":"Pod resources updated by shop: container 0: cpu request, memory request"},
 {"op":"add","path":"/metadata/annotations/vpaObservedContainers","value":"app"}]
`
	const whole = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: whole\nspec:\n  containers:\n  - name: app\n  resources:\n    limits:\n      cpu: 1\n"
	for name, tt := range map[string]struct {
		args, stdin, out, fails string
		no                      bool
	}{
		"patches":                     {args: "-f shop.yaml -o patch", out: patch},
		"standard input":              {args: "-f - -o patch", stdin: recommends("Deployment", "shop") + deploymentOf("shop", "app"), out: patch},
		"several files":               {args: "-f whole.yaml -f shop.yaml -o patch", out: "# default/whole\n[]\n---\n" + patch},
		"nothing to change":           {args: "-f whole.yaml", out: whole},
		"a refusal":                   {args: "-f whole.yaml -f shop.yaml -o patch --feature-gates PodLevelResources=true", out: "celvpa: pod default/whole is refused: spec.resources: pods with resources at pod level are refused in a namespace with a LimitRange of type Container: small; remove it, or remove spec.resources from the pod (rule pod-level-pods/no-container-limit-range)\n" + patch, no: true},
		"a refusal and a mistake":     {args: "-f whole.yaml -f typo.yaml -f shop.yaml -o patch --feature-gates PodLevelResources=true", out: "celvpa: pod default/whole is refused: spec.resources: pods with resources at pod level are refused in a namespace with a LimitRange of type Container: small; remove it, or remove spec.resources from the pod (rule pod-level-pods/no-container-limit-range)\n" + patch, fails: `typo.yaml:1: Pod default/typo cannot be read: spec.containers[0].resources.limits.cpu is "1 core", which is not a quantity`},
		"a table":                     {args: "-f shop.yaml -o table", out: "POD        CONTAINER  FIELD            CHANGE        RULE\nweb/shop-  app        requests.cpu     unset → 500m  requests/recommended/request\nweb/shop-  app        requests.memory  unset → 1Gi   requests/recommended/request\n"},
		"a table with a refusal":      {args: "-f whole.yaml -o table --feature-gates PodLevelResources=true", no: true, out: "POD            CONTAINER  FIELD  CHANGE   RULE\ndefault/whole  -          -      refused  -\n\ndefault/whole is refused: spec.resources: pods with resources at pod level are\n    refused in a namespace with a LimitRange of type Container: small; remove\n    it, or remove spec.resources from the pod (rule\n    pod-level-pods/no-container-limit-range)\n"},
		"a file that is missing":      {args: "-f missing.yaml -f shop.yaml -o patch", out: patch, fails: "cannot read missing.yaml: no such file or directory"},
		"an unreadable VPA":           {args: "-f shop.yaml -f - -o patch", stdin: strings.Replace(vpaOf("Deployment", "odd"), "spec: {", "spec: {updatePolicy: [], ", 1), out: patch, fails: "VerticalPodAutoscaler web/odd cannot be used: spec.updatePolicy cannot be read: it is []"},
		"an overlay that is no good":  {args: "-f shop.yaml -f - -o patch", stdin: "{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: odd}, spec: {change: [{disable: nothing}]}}", out: patch, fails: "RuleOverlay odd cannot be used"},
		"no pod":                      {args: "-f -", stdin: vpaOf("Deployment", "shop"), out: "celvpa: Deployment web/shop, the target of VerticalPodAutoscaler web/shop, is not in the manifests, and no pod belongs to it; add its manifest with -f\n", fails: "there is no pod and no workload in -: nothing was admitted"},
		"an output that there is not": {args: "-f shop.yaml -o xml", fails: `--output is "xml"; use yaml, json, patch, table or wide`},
		"no path":                     {fails: "no manifests are named with -f, and there is no cluster to read: "},
		"a path without -f":           {args: "shop.yaml", fails: "files are named with -f: celvpa admit -f shop.yaml"},
		"rules that are not there":    {args: "-f shop.yaml --pipeline nothing", fails: `pipeline "nothing"`},
		"a gate that there is not":    {args: "-f shop.yaml --feature-gates Nothing=true", fails: `there is no gate "Nothing"`},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := piped(t, tt.stdin, append([]string{"admit"}, strings.Fields(tt.args)...)...)
			require.Equal(t, tt.out, out)
			requireEnd(t, err, tt.fails, tt.no)
		})
	}
}

// TestTheJSONOfAdmitIsAContract: scripts depend on its names.
func TestTheJSONOfAdmitIsAContract(t *testing.T) {
	warn := "---\n{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: memory-only}, spec: {mode: Warn, match: {namespaces: [web]}, change: [{disable: 'requests/recommended/request[cpu]'}]}}\n"
	report, stderr, err := admittedFrom(t, recommends("Deployment", "shop")+deploymentOf("shop", "app")+warn)
	require.NoError(t, err)
	got, err := json.Marshal(report)
	require.NoError(t, err)
	require.JSONEq(t, `{"items":[{"pod":"web/shop-","allowed":true,"warnings":["RuleOverlay memory-only (Warn) would change the pod: container app request cpu 500m → unset"],
		"changes":[{"container":"app","field":"requests.cpu","to":"500m","rule":"requests/recommended/request"},{"container":"app","field":"requests.memory","to":"1Gi","rule":"requests/recommended/request"}],
		"patch":[{"op":"add","path":"/metadata/annotations","value":{}},
			{"op":"add","path":"/spec/containers/0/resources","value":{}},
			{"op":"add","path":"/spec/containers/0/resources/requests","value":{}},
			{"op":"add","path":"/spec/containers/0/resources/requests/cpu","value":"500m"},
			{"op":"add","path":"/spec/containers/0/resources/requests/memory","value":"1Gi"},
			{"op":"add","path":"/metadata/annotations/vpaUpdates","value":"Pod resources updated by shop: container 0: cpu request, memory request"},
			{"op":"add","path":"/metadata/annotations/vpaObservedContainers","value":"app"}],
		"object":{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"web","generateName":"shop-","labels":{"app":"shop"},
			"annotations":{"vpaUpdates":"Pod resources updated by shop: container 0: cpu request, memory request","vpaObservedContainers":"app"}},
			"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"500m","memory":"1Gi"}}}]}}}]}`, string(got))
	require.Contains(t, stderr, "celvpa: pod web/shop- of Deployment web/shop: RuleOverlay memory-only (Warn) would change it: container app request cpu 500m → unset\n")
	require.Regexp(t, `(?m)^  app   requests\.cpu     unset  500m   requests/recommended/request `, stderr)

	report, _, err = admittedFrom(t, "")
	require.ErrorContains(t, err, "nothing was admitted")
	got, err = json.Marshal(report)
	require.NoError(t, err)
	require.JSONEq(t, `{"items":[]}`, string(got))
}

// TestALargePodIsAnsweredSoon: it has 500 containers, as many as nobody has.
func TestALargePodIsAnsweredSoon(t *testing.T) {
	var containers, recommended []string
	for i := range 500 {
		containers = append(containers, fmt.Sprintf("c%d", i))
		recommended = append(recommended, fmt.Sprintf("{containerName: c%d, target: {cpu: 500m, memory: 1Gi}}", i))
	}
	bytes := hang.Bytes(t, func() {
		report, _, err := admittedFrom(t, strings.Replace(recommends("Deployment", "shop"), "{containerName: app, target: {cpu: 500m, memory: 1Gi}}", strings.Join(recommended, ", "), 1)+deploymentOf("shop", containers...))
		require.NoError(t, err)
		require.Len(t, report.Items[0].Patch, 3+4*500)
	})
	require.Less(t, bytes, uint64(512<<20))
}

// TestManyPodsAreAnsweredSoon: 1000 of 200 Deployments.
func TestManyPodsAreAnsweredSoon(t *testing.T) {
	var all strings.Builder
	for i := range 200 {
		name := fmt.Sprintf("shop%d", i)
		all.WriteString(recommends("Deployment", name) + deploymentOf(name, "app"))
		for range 4 {
			all.WriteString(ownedPod(name+"-7c5687bd57-"+rand.String(5), name, "ReplicaSet", name+"-7c5687bd57"))
		}
	}
	bytes := hang.Bytes(t, func() {
		report, _, err := admittedFrom(t, all.String())
		require.NoError(t, err)
		require.Len(t, report.Items, 1000)
		for _, item := range report.Items {
			require.NotEmpty(t, item.Patch, item.Pod)
		}
	})
	require.Less(t, bytes, uint64(1<<30))
}

// FuzzAdmit: whatever is written, pods are answered the same every time, or an error says why not.
func FuzzAdmit(f *testing.F) {
	const odd = "---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: web, labels: {app: shop}, annotations: {'a/b~c': d}, ownerReferences: [{kind: ReplicaSet, name: shop-bcd, controller: true}]}, spec: {resources: {limits: {cpu: 1}}, initContainers: [{restartPolicy: Always}], containers: [{name: app, resources: {requests: {cpu: -1, memory: 1e3}}}, {name: app, resources: {limits: {cpu: 0}}}]}}\n"
	for _, seed := range []string{
		"", odd, recommends("Deployment", "shop") + deploymentOf("shop", "app", "side") + odd,
		recommends("Deployment", "shop") + odd + "---\n{apiVersion: v1, kind: LimitRange, metadata: {name: r, namespace: web}, spec: {limits: [{type: Pod, max: {cpu: 1}}, {type: Container, min: {memory: 1Gi}, max: {cpu: 100m}, maxLimitRequestRatio: {cpu: 2}}]}}",
		recommends("Rollout", "shop") + workloadOf("Rollout", "", "shop", "app"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := []string{"admit", "-f", "-", "-o", "json", "--explain"}
		out, stderr, err := run(text, args...)
		again, stderrAgain, errAgain := run(text, args...)
		require.Equal(t, out, again)
		require.Equal(t, stderr, stderrAgain)
		require.Equal(t, fmt.Sprint(err), fmt.Sprint(errAgain))
		require.NotContains(t, stderr, "please report this")
	})
}

// TestCappedTargetsAreExplained: a LimitRange keeps pods from the target, which admit, explain and list say.
func TestCappedTargetsAreExplained(t *testing.T) {
	const file = "testdata/capped.yaml"
	const cpu = "container app gets cpu 100m, and not the target of 400m: cpu capped to fit Max in container LimitRange"
	const memory = "container app gets memory 256Mi, and not the target of 700Mi: memory capped to fit Max in container LimitRange"
	unwrapped := func(args ...string) string {
		out, _, _ := run("", append(args, "-f", file)...)
		return strings.Join(strings.Fields(out), " ")
	}

	table := unwrapped("admit", "-o", "table")
	require.Contains(t, table, "shop/web-: "+cpu)
	require.Contains(t, table, "shop/web-: "+memory)
	require.Contains(t, table, "shop/web-5d8f-abcde: VerticalPodAutoscaler shop/web controls it, and no amount changes")

	explained := unwrapped("explain", "web", "-n", "shop")
	require.Contains(t, explained, "nothing to do: "+cpu+" (target-capped)")
	require.Contains(t, explained, "Settled: target-capped, 1 pod "+memory)

	require.Contains(t, unwrapped("list"), "all pods together would request as much CPU and as much memory")

	raised, err := os.ReadFile(file)
	require.NoError(t, err)
	free := strings.Replace(string(raised), "max: {memory: 512Mi, cpu: 200m}", "max: {memory: 4Gi, cpu: 8}", 1)
	out, _, _ := run(free, "admit", "-f", "-", "-o", "json")
	require.NotContains(t, out, "memory capped")
	require.Contains(t, out, "cpu capped", "the limit that a LimitRange fills in keeps its ratio to the request")
}
