package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/simulate/manifests"
)

// TestObjectsKeptByKubectlAreReplayed: kubectl get -A -o yaml writes one list of objects of all kinds, with what a cluster adds to
// them.
func TestObjectsKeptByKubectlAreReplayed(t *testing.T) {
	set, err := manifests.Read([]string{backtestObjects}, nil)
	require.NoError(t, err)
	require.NotEmpty(t, set.Documents)
	var items []map[string]any
	for _, d := range set.Documents {
		var object map[string]any
		require.NoError(t, json.Unmarshal(d.JSON, &object))
		of := object["metadata"].(map[string]any)
		of["namespace"], of["uid"], of["resourceVersion"], of["creationTimestamp"] = d.Namespace, d.Name, "7", "2026-01-01T00:00:00Z"
		of["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(d.JSON)}
		items = append(items, object)
	}
	items = append(items,
		map[string]any{"apiVersion": "rules.celvpa.dev/v1alpha1", "kind": "RuleOverlay", "metadata": map[string]any{"name": "books"},
			"spec": map[string]any{"mode": "Audit", "change": []any{map[string]any{"params": map[string]any{"estimate.marginFraction": 0.3}}}}},
		map[string]any{"apiVersion": "v1", "kind": "LimitRange", "metadata": map[string]any{"name": "none", "namespace": "shop"}, "spec": map[string]any{"limits": []any{}}},
	)
	text, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}, "items": items})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	kept, err := celvpa(t, "backtest", "-f", path, "--history", backtestHistory)
	require.NoError(t, err)
	require.Contains(t, kept, "shipped+books")
	direct, err := backtested(t)
	require.NoError(t, err)
	require.Contains(t, kept, "3 workloads, 3 containers.")
	for _, policy := range []string{"manifest", "hindsight", "upstream", "shipped"} {
		row := regexp.MustCompile("(?m)^" + policy + " .*$")
		require.Equal(t, strings.Fields(row.FindString(direct)), strings.Fields(row.FindString(kept)))
		require.NotEmpty(t, row.FindString(kept))
	}
}
