package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Offline, rules read of pods and their owners what they read in a cluster.
func TestAPlanHasTheFactsOfPodsAndTheirOwners(t *testing.T) {
	folder := t.TempDir()
	text, err := os.ReadFile("../../examples/updater/recreate.yaml")
	require.NoError(t, err)
	objects := strings.Replace(string(text), "  name: shop-7c5687bd57\n", "  name: shop-7c5687bd57\n  creationTimestamp: \"2026-01-31T09:00:00Z\"\n", 1)
	objects = strings.Replace(objects, "  labels: {app: shop}\n", "  labels: {app: shop}\n  annotations: {example.com/tier: front, example.com/long: "+strings.Repeat("x", 300)+"}\n", 1)
	objects = strings.ReplaceAll(objects, "  nodeName: node-1\n", "  nodeName: node-1\n  priorityClassName: high\n")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "objects.yaml"), []byte(objects), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rules.yaml"), []byte(`
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: facts}
spec:
  change:
  - before: eligibility
    decision:
      name: annotated
      when: "'example.com/tier' in pod.annotations"
      do: Wait
      reasonExpression: >-
        pod.annotations['example.com/tier'] + ' ' + string(size(pod.annotations)) + ' ' + pod.priorityClass + ' ' + pod.qosClass
        + ' ' + pod.owner.kind + ' ' + pod.owner.name + ' ' + vpa.namespace + ' ' + vpa.name + ' ' + vpa.target.kind + ' ' + vpa.target.name
        + ' ' + string(group.age == duration('3h')) + ' ' + string(has(pod.resizedAge)) + ' ' + string(group.countedFor)
  - before: update
    decision: {name: one-an-hour, when: group.evictionsLastHour >= 1, do: Wait, reason: One was evicted}
`), 0o600))
	out, err := celvpa(t, "plan", "-o", "wide", "-f", filepath.Join(folder, "objects.yaml"), "--rules-dir", filepath.Join(folder, "rules.yaml"), "--now", planNow)
	require.NoError(t, err)
	require.Contains(t, out, "front 1 high Burstable ReplicaSet shop-7c5687bd57 recreate shop Deployment shop true false 0 ")
	require.Equal(t, 1, strings.Count(out, " Evict "), out)
	require.Equal(t, 1, strings.Count(out, "update/one-an-hour"), out)
}
