package recommender

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/rules"
)

// brokenRules are the shipped ones, of which an operator made one fail: it forgets orValue().
func brokenRules(t *testing.T) *compile.Rulebook {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, rules.FS))
	path := filepath.Join(dir, "container-mode.yaml")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "isOff(policy.?mode)")
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), "isOff(policy.?mode)", "policy.mode == 'Off'", 1)), 0o600))
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Path: dir})
	require.NoError(t, err)
	return book
}

// TestARuleThatFailsLeavesTheRecommendation: nothing may be wiped for that.
func TestARuleThatFailsLeavesTheRecommendation(t *testing.T) {
	off := vpav1.ContainerScalingModeOff
	result := Recommend(brokenRules(t).Default(), aVPA(vpav1.ContainerResourcePolicy{ContainerName: "c", Mode: &off}),
		watched([]string{"a", "b", "c"}, 60, always(100), always(1<<28)), false)
	require.Equal(t, []string{"a", "b"}, result.Undecided)
	require.Len(t, result.Failed, 2)
	require.ErrorContains(t, result.Failed[0], "container-mode/mode-off")
	before := &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "b"}, {ContainerName: "c"}, {ContainerName: "gone"}}}
	kept := result.keep(before)
	require.Len(t, kept.ContainerRecommendations, 1)
	require.Equal(t, "b", kept.ContainerRecommendations[0].ContainerName)
	require.Empty(t, result.keep(nil).ContainerRecommendations)
}
