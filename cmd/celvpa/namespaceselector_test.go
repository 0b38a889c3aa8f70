package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManifestsOfNamespacesAndWorkloadsSayWhichOverlaysApply, in all commands that read objects.
func TestManifestsOfNamespacesAndWorkloadsSayWhichOverlaysApply(t *testing.T) {
	const overlay = "---\n{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: hands-off}, spec: {match: {namespaceSelector: {matchLabels: {tier: frozen}}}, change: [" +
		"{before: admission-mode, decision: {name: frozen, when: 'true', do: Ignore, reason: The namespace is frozen}}, {before: update-mode, decision: {name: frozen, when: 'true', do: Ignore, reason: The namespace is frozen}}]}}\n"
	const namespace = "---\n{apiVersion: v1, kind: Namespace, metadata: {name: web, labels: {tier: frozen}}}\n"
	const note = "celvpa: the labels of namespace web are not known, so overlays with a namespaceSelector do not apply to it; add its manifest with -f\n"
	ofWorkload := strings.Replace(overlay, "namespaceSelector", "workloadSelector", 1)
	plain := deploymentOf("shop", "app")
	frozenShop := strings.Replace(plain, "name: shop", "name: shop, labels: {tier: frozen}", 1)
	const workloadNote = "celvpa: the labels of Deployment web/shop are not known, so overlays with a workloadSelector do not apply to it, and rules do not see them; add its manifest with -f\n"
	objects := recommends("Deployment", "shop") + plain + running("p", "shop", "ReplicaSet", "shop-7c5687bd57")
	const frozen = "leaves new pods alone: The namespace is frozen"
	for name, tt := range map[string]struct {
		text, note string
		frozen     bool
	}{
		"no overlay asks":       {text: objects},
		"the labels fit":        {text: objects + overlay + namespace, frozen: true},
		"the labels do not fit": {text: objects + overlay + strings.Replace(namespace, "frozen", "front", 1)},
		"no labels are known":   {text: objects + overlay, note: note},
		"the label of its name": {text: objects + strings.Replace(overlay, "tier: frozen", "kubernetes.io/metadata.name: web", 1) + namespace, frozen: true},

		"labels of a workload":              {text: strings.Replace(objects, plain, frozenShop, 1) + ofWorkload, frozen: true},
		"other labels of a workload":        {text: objects + ofWorkload},
		"no labels of a workload are known": {text: strings.Replace(objects, plain, "", 1) + ofWorkload, note: workloadNote},
		"of three workloads": {text: strings.Replace(objects, plain, "", 1) + recommends("Deployment", "a") + recommends("StatefulSet", "b") + ofWorkload,
			note: "celvpa: the labels of Deployment web/a and 2 more workloads are not known, so overlays with a workloadSelector do not apply to them, and rules do not see them; "},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, err := run(tt.text, "admit", "-f", "-", "--explain")
			require.NoError(t, err)
			require.Equal(t, tt.note != "", strings.Contains(stderr, "are not known"), stderr)
			require.Contains(t, stderr, tt.note)
			require.Equal(t, tt.frozen, strings.Contains(stderr, frozen), stderr)
			planned, stderr, err := run(tt.text, "plan", "-f", "-")
			require.NoError(t, err)
			require.Equal(t, tt.note != "", strings.Contains(stderr, "are not known"), stderr)
			require.Contains(t, stderr, tt.note)
			require.Equal(t, tt.frozen, strings.Contains(planned, "The namespace is frozen"), planned)
		})
	}
}
