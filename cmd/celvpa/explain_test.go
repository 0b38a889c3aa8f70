package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

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
		"mail -n none":        "no VerticalPodAutoscaler, pod or target of a VerticalPodAutoscaler is called none/mail: there are the VerticalPodAutoscalers other/mail, young-pod/mail",
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
