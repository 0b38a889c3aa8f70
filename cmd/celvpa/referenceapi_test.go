package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
)

// TestTheAPIReferenceSaysWhatGatesAndDefaultsThereAre: descriptions in the CRD hold them in words that the page takes apart.
func TestTheAPIReferenceSaysWhatGatesAndDefaultsThereAre(t *testing.T) {
	out, err := celvpa(t, "reference", "api")
	require.NoError(t, err)
	for gate := range facts.Gates {
		if gate != "InPlace" { // of one value of updateMode
			require.Contains(t, out, "| `"+gate+"`", "a column of its own")
		}
	}
	require.Contains(t, out, "| `updatePolicy.minReplicas` | integer | the updater's `--min-replicas` |  | ")
	require.Contains(t, out, "| `mode` | `Enforce`, `Warn`, `Audit` | `Enforce` | ")
	require.Contains(t, out, "| `requestToLimitRatio.cpu.factor` | number |  | `RequestToLimitRatio` AEP-8515 | ", "a field has the gate of what it is in")
	require.Contains(t, out, "Fields as of `spec.startupBoost`.", "the same fields are listed once")
	for _, left := range []string{"Without it the ", "(the default)", "(AEP-"} {
		require.NotContains(t, out, left, "a description that was not taken apart")
	}
}

// TestTheChangelogHasASectionForTheVersionInTheMaking, at its head.
func TestTheChangelogHasASectionForTheVersionInTheMaking(t *testing.T) {
	page, err := os.ReadFile(repository + "/CHANGELOG.md")
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(page), "\n## [")
	newest, _, _ := strings.Cut(after, "]")
	require.Equal(t, strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(nextVersion), "v"), "-dev"), newest)
}
