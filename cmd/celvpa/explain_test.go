package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnObjectOfSeveralNamespacesIsChosen: the first of them was explained, by the order of the files.
func TestAnObjectOfSeveralNamespacesIsChosen(t *testing.T) {
	text, err := os.ReadFile(repository + "/examples/updater/young-pod.yaml")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("two", 0o755))
	write(t, "two", "a.yaml", string(text))
	write(t, "two", "b.yaml", strings.ReplaceAll(string(text), "young-pod", "other"))
	explain := func(args ...string) (string, error) {
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
		out, err := explain(strings.Fields(args)...)
		require.EqualError(t, err, want)
		require.Empty(t, out)
	}
	for args, want := range map[string]string{
		"mail -n other":              "VerticalPodAutoscaler other/mail,",
		"-n young-pod":               "VerticalPodAutoscaler young-pod/mail,",
		"pod/mail-1 -n other":        "VerticalPodAutoscaler other/mail,",
		"sts mail --namespace other": "VerticalPodAutoscaler other/mail,",
	} {
		out, err := explain(strings.Fields(args)...)
		require.NoError(t, err)
		require.Contains(t, out, want, args)
	}
}

// Regression: what was wrong with a VerticalPodAutoscaler or a PodDisruptionBudget was told twice.
func TestExplainOfManifestsTellsEachFaultOnce(t *testing.T) {
	text := shopPlan() + strings.Replace(farOff("StatefulSet", "odd"), "spec: {", "spec: {updatePolicy: {minReplicas: two}, ", 1) +
		"---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: odd, namespace: web}, spec: {minAvailable: {a: 1}}}\n"
	_, told, err := run(text, "explain", "-f", "-", "shop")
	require.Error(t, err)
	told += "\n" + err.Error()
	require.Equal(t, 1, strings.Count(told, "VerticalPodAutoscaler web/odd cannot be used: spec.updatePolicy.minReplicas cannot be read: it is \"two\": must be a whole number"), told)
	require.Equal(t, 1, strings.Count(told, "PodDisruptionBudget web/odd cannot be read: spec.minAvailable is a mapping, and must be a whole number or a percentage"), told)
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
