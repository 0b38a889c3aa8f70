package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/explain"
)

// TestAnObjectOfSeveralNamespacesIsChosen: the first of them was explained, by the order of the files.
func TestAnObjectOfSeveralNamespacesIsChosen(t *testing.T) {
	text, err := os.ReadFile(repository + "/examples/updater/young-pod.yaml")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("two", 0o755))
	write(t, "two", "a.yaml", string(text))
	write(t, "two", "b.yaml", strings.ReplaceAll(string(text), "young-pod", "other"))
	explained := func(args ...string) (string, error) {
		return celvpa(t, append([]string{"explain", "-f", "two", "--now", "2026-01-31T12:00:00Z"}, args...)...)
	}
	for args, want := range map[string]string{
		"mail":                "mail is in namespaces other, young-pod; choose one with -n",
		"vpa/mail":            "VerticalPodAutoscaler mail is in namespaces other, young-pod; choose one with -n",
		"pod/mail-0":          "Pod mail-0 is in namespaces other, young-pod; choose one with -n",
		"statefulset mail":    "StatefulSet mail is in namespaces other, young-pod; choose one with -n",
		"":                    "name one object to explain: there are the VerticalPodAutoscalers other/mail, young-pod/mail",
		"mail -n none":        "no VerticalPodAutoscaler, pod or target of a VerticalPodAutoscaler is called none/mail: there is no VerticalPodAutoscaler in namespace none",
		"mail --context prod": "-f and --context exclude each other: objects come from manifests or from a cluster; kubectl get -o yaml saves those of a cluster",
	} {
		out, err := explained(strings.Fields(args)...)
		require.EqualError(t, err, want)
		require.Empty(t, out)
	}
	for args, want := range map[string]string{
		"mail -n other":              "VerticalPodAutoscaler other/mail,",
		"-n young-pod":               "VerticalPodAutoscaler young-pod/mail,",
		"pod/mail-1 -n other":        "VerticalPodAutoscaler other/mail,",
		"sts mail --namespace other": "VerticalPodAutoscaler other/mail,",
	} {
		out, err := explained(strings.Fields(args)...)
		require.NoError(t, err)
		require.Contains(t, out, want, args)
	}
}

// TestFlagsThatDoNothingAreRefusedByExplain: regression, a time was ignored for a cluster.
func TestFlagsThatDoNothingAreRefusedByExplain(t *testing.T) {
	_, err := celvpa(t, "explain", "web", "--now", "2026-01-31T12:00:00Z")
	require.EqualError(t, err, "--now is for manifests: name them with -f; what processes answer is about the present")
	_, err = celvpa(t, "explain", "web", "-f", "x.yaml", "--service-account", "a/b")
	require.EqualError(t, err, "-f excludes --celvpa-namespace and --service-account: with manifests, no process is asked")
}

// sidecarOff is a VPA that leaves a sidecar alone, with a pod and five hours of usage that never changes.
func sidecarOff() (manifests, usage string) {
	const containers = "containers: [{name: app, image: x, resources: {requests: {cpu: 100m, memory: 100Mi}}}, {name: sidecar, image: x}]"
	manifests = `{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: web, namespace: shop},
  spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, resourcePolicy: {containerPolicies: [{containerName: sidecar, mode: "Off"}]}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {` + containers + `}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-5d5f8d7c6b-abcde, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d5f8d7c6b, uid: r, controller: true}]},
  spec: {nodeName: node-1, ` + containers + `}, status: {phase: Running, startTime: "2026-01-31T06:00:00Z"}}
`
	usage = "timestamp,namespace,pod,container,resource,value\n"
	for i := range 303 {
		at := time.Date(2026, 1, 31, 6, i, 0, 0, time.UTC).Format(time.RFC3339)
		for _, name := range []string{"app,cpu,0.3", "app,memory,400000000", "sidecar,cpu,0.01", "sidecar,memory,20000000"} {
			usage += at + ",shop,web-5d5f8d7c6b-abcde," + name + "\n"
		}
	}
	return manifests, usage
}

// TestUsageOfFilesIsExplained: explain of manifests took no usage, so it could not say which rules set a number. A sidecar in mode Off
// was said to have too few samples, whatever their number, and percentile 50 was called used where it equals percentile 90.
func TestUsageOfFilesIsExplained(t *testing.T) {
	objects, usage := sidecarOff()
	t.Chdir(t.TempDir())
	write(t, ".", "usage.csv", usage)
	out, stderr, err := run(objects, "explain", "-f", "-", "--usage", "usage.csv", "-o", "json")
	require.NoError(t, err, stderr)
	var r explain.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, "2026-01-31T11:02:00Z", r.Now.Format(time.RFC3339), "that of the last row")
	require.Equal(t, "default@1.0.0", r.Rules.Pipeline)
	for _, f := range r.Findings {
		require.NotContains(t, []string{"too-few-samples", "recommendation-pending", "samples-stale"}, f.Token, "%+v", f)
	}
	require.Equal(t, "app", r.Resources[0].Container)
	require.Equal(t, "350m", r.Resources[0].Target)
	require.Equal(t, "estimate/bounds/add-safety-margin", r.Resources[0].Way[1].Path())
	var used []string
	for _, p := range r.Resources[0].Usage {
		if p.Used {
			used = append(used, p.Percent+" "+p.Amount)
		}
	}
	require.Equal(t, []string{"90 305m"}, used, "%v", r.Resources[0].Usage)

	_, err = celvpa(t, "explain", "web", "--usage", "usage.csv")
	require.EqualError(t, err, "--usage is for manifests: name them with -f; in a cluster the recommender answers for its usage")
}

// TestCheckpointsAmongManifestsAreExplained: they were ignored, and the pipeline was not known.
func TestCheckpointsAmongManifestsAreExplained(t *testing.T) {
	out, err := celvpa(t, "explain", "-f", repository+"/examples/checkpoint", "--now", "2026-01-31T12:00:00Z", "-o", "wide")
	require.NoError(t, err)
	require.Regexp(t, `app +cpu +3027m +3027m +3027m +- +2863m +3481m +3597m +estimate/bounds/add-safety-margin \(from 3027m\)`, out)
	require.Regexp(t, `this program +- +\S+ +default@1\.0\.0 +[0-9a-f]+ +-`, out)
	require.Contains(t, out, "the usage since the last checkpoints")
}

// TestTheTimeOfManifestsIsThatOfTheNewestCheckpoint: it was the time of day, at which usage in old manifests has expired, and the
// report said that there was none.
func TestTheTimeOfManifestsIsThatOfTheNewestCheckpoint(t *testing.T) {
	out, err := celvpa(t, "explain", "-f", repository+"/examples/checkpoint")
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(out), " "), "VerticalPodAutoscaler payments/ledger, StatefulSet/ledger, mode Recreate, at 2026-01-31T11:59:00Z")
	require.Regexp(t, `app +cpu +3027m +2863m +3481m`, out)
	require.NotContains(t, out, "no-samples")
	out, err = celvpa(t, "explain", "-f", repository+"/examples/checkpoint", "--now", "2026-09-01T00:00:00Z", "-o", "wide")
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(out), " "), "blocked: the recommender sees 2 pods, but no usage at 2026-09-01T00:00:00Z: that in checkpoints, written at 2026-01-31T11:59:00Z, has expired or is empty (no-samples)")
}

// TestTheTableOfExplainFitsOnAScreen: lines were up to 600 characters long.
func TestTheTableOfExplainFitsOnAScreen(t *testing.T) {
	objects, usage := sidecarOff()
	t.Chdir(t.TempDir())
	write(t, ".", "usage.csv", usage)
	write(t, ".", "objects.yaml", objects)
	out, notes, err := run("", "explain", "-f", "objects.yaml", "--usage", "usage.csv", "web")
	require.NoError(t, err)
	for note := range strings.Lines(notes) {
		require.LessOrEqual(t, utf8.RuneCountInString(note), 121, note)
	}
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 101, line) // tables may be wider than text
	}
	require.Contains(t, out, "\nweb-5d5f8d7c6b-abcde: Skip, by eligibility/too-few-replicas: ")
	require.Contains(t, strings.Join(strings.Fields(out), " "), "(app cpu 100m → 350m, memory 100Mi → ")
	require.Regexp(t, `-o wide shows \d+ more findings?\.`, out)
}

// TestUsageThatCannotBeReadGivesNoVerdict: the report said that there was no usage.
func TestUsageThatCannotBeReadGivesNoVerdict(t *testing.T) {
	out, err := celvpa(t, "explain", "-f", repository+"/examples/checkpoint", "--usage", "nosuch.csv")
	require.EqualError(t, err, "cannot read usage from nosuch.csv: no such file or directory")
	require.Empty(t, out)
}

// TestATargetThatCannotBeUsedIsNamed: explain and list named only one that was missing, and said of others that there are no pods, or
// what the update mode does.
func TestATargetThatCannotBeUsedIsNamed(t *testing.T) {
	vpa := func(spec string) string {
		return "{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: report, namespace: shop}, spec: {" + spec + "updatePolicy: {updateMode: Initial}}}\n---\n"
	}
	for name, tt := range map[string]struct{ text, want string }{
		"a CronJob without labels": {vpa("targetRef: {apiVersion: batch/v1, kind: CronJob, name: report}, ") +
			"{apiVersion: batch/v1, kind: CronJob, metadata: {name: report, namespace: shop}, spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: app}]}}}}}}",
			"the pod template of CronJob shop/report has no labels, so its pods cannot be found; add one to spec.jobTemplate.spec.template.metadata.labels, such as app: report"},
		"a Pod": {vpa("targetRef: {apiVersion: v1, kind: Pod, name: report}, ") + "{apiVersion: v1, kind: Pod, metadata: {name: report, namespace: shop}}",
			"kind Pod of v1 has no scale subresource, so the pods of shop/report cannot be found; name the workload that creates the pods, or add the subresource to the CustomResourceDefinition"},
		"no targetRef": {vpa(""), "targetRef not defined. If this is a v1beta1 object, switch to v1"},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := run(tt.text, "explain", "-f", "-", "--now", planNow, "-o", "wide")
			require.NoError(t, err)
			require.Contains(t, strings.Join(strings.Fields(out), " "), "blocked: cannot read targetRef. Reason: "+tt.want+" (target-unusable)")
			out, _, err = run(tt.text, "list", "-f", "-", "--now", planNow, "-o", "wide")
			require.NoError(t, err)
			require.Contains(t, out, "Cannot read targetRef. Reason: "+tt.want)
			require.Contains(t, out, " Misconfigured  target-unusable  ")
		})
	}
}

// TestTextsOfObjectsDoNothingToATerminal: names of nodes and containers moved the cursor and set the window's title.
func TestTextsOfObjectsDoNothingToATerminal(t *testing.T) {
	objects, _ := sidecarOff()
	const evil = `x\e]0;owned\a\e[31m\e[2K\r\u202e\u009b1m`
	objects = strings.NewReplacer("nodeName: node-1", `nodeName: "`+evil+`"`, "phase: Running", `phase: "Running`+evil+`"`, "kind: Deployment, name: web", `kind: Deployment, name: "web`+evil+`"`).Replace(objects)
	for _, args := range []string{"explain -f - web -n shop -o wide", "plan -f - -o wide", "admit -f - --explain", "recommend -f - -o wide", "validate -f -", "list -f - -o wide"} {
		out, stderr, err := run(objects, strings.Fields(args)...)
		var text strings.Builder
		text.WriteString(out + stderr)
		if err != nil {
			printErrors(&text, err)
		}
		for _, r := range text.String() {
			require.False(t, r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf), "%s prints %U: %q", args, r, text.String())
		}
		require.NotEmpty(t, text.String())
	}
}

// Regression: what was wrong with a VerticalPodAutoscaler or a PodDisruptionBudget was reported twice.
func TestExplainOfManifestsReportsEachFaultOnce(t *testing.T) {
	text := shopPlan() + strings.Replace(farOff("StatefulSet", "odd"), "spec: {", "spec: {updatePolicy: {minReplicas: two}, ", 1) +
		"---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: odd, namespace: web}, spec: {minAvailable: {a: 1}}}\n"
	_, output, err := run(text, "explain", "-f", "-", "shop")
	require.Error(t, err)
	output += "\n" + err.Error()
	require.Equal(t, 1, strings.Count(output, "VerticalPodAutoscaler web/odd cannot be used: spec.updatePolicy.minReplicas cannot be read: it is \"two\": must be a whole number"), output)
	require.Equal(t, 1, strings.Count(output, "PodDisruptionBudget web/odd cannot be read: spec.minAvailable is a mapping, and must be a whole number or a percentage"), output)
}

// Regression: celvpa history has no -f, and named it as the way out without a cluster.
func TestWithoutAClusterHistoryNamesNoManifests(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	_, err := celvpa(t, "explain", "web")
	require.ErrorContains(t, err, "; or name manifests with -f")
	_, err = celvpa(t, "history", "web")
	require.ErrorContains(t, err, "there is no cluster to read")
	require.NotContains(t, err.Error(), "-f")
}

// Regression: of two VerticalPodAutoscalers of one target, the first in the manifests explained the workload, and the one whose pods
// the other controls was reported to have none.
func TestExplainOfManifestsWithASharedTarget(t *testing.T) {
	idle := strings.Replace(inMode("Off", "StatefulSet", "shop"), "name: shop,", "name: idle,", 1)
	younger := strings.Replace(farOff("StatefulSet", "shop"), "name: shop,", "name: younger,", 1)
	text := idle + shopPlan() + younger
	verdict := func(args ...string) string {
		out, _, err := run(text, append([]string{"explain", "-f", "-", "-o", "json", "--now", planNow}, args...)...)
		require.NoError(t, err)
		var r explain.Report
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		return r.VPA + " " + r.Verdict.Token + " " + r.Verdict.Text
	}
	require.Contains(t, verdict("statefulset/shop"), "web/shop update/evict 1 of 2 pods will be evicted")
	require.Contains(t, verdict("vpa/shop"), "web/shop update/evict 1 of 2 pods will be evicted")
	require.Equal(t, "web/idle update-mode/not-in-this-mode nothing to do: Update mode Off leaves running pods alone", strings.Replace(verdict("vpa/idle"), "update mode", "Update mode", 1))
	require.Equal(t, "web/younger pods-not-taken blocked: VerticalPodAutoscaler web/shop controls it (point vpa.order)", verdict("vpa/younger"))
}
