package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/rules"
)

// TestTheExampleOfTheRuleDocsCompilesAndRuns puts the rule set of docs/rules.md into a pipeline.
func TestTheExampleOfTheRuleDocsCompilesAndRuns(t *testing.T) {
	page, err := os.ReadFile("../../docs/rules.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	require.True(t, found)
	example, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	dir := ownRules(t, "pipeline.yaml", "container-caps@1.0.0]", "round-memory@1.0.0, container-caps@1.0.0]")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "round-memory.yaml"), []byte(example), 0o600))
	out, err := celvpa(t, "rules", "lint", dir)
	require.NoError(t, err, out)
	out, err = celvpa(t, "rules", "list", "--rules-dir", dir)
	require.NoError(t, err)
	require.Regexp(t, `container\.recommend +round-memory@1\.0\.0 `, out)
}

// TestTheExcerptOfTheReadmeIsShipped keeps it from drifting.
func TestTheExcerptOfTheReadmeIsShipped(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(readme), "# rules/container-caps.yaml (excerpt)\n")
	require.True(t, found)
	excerpt, _, _ := strings.Cut(rest, "```")
	shipped, err := rules.FS.ReadFile("container-caps.yaml")
	require.NoError(t, err)
	for _, line := range strings.Split(strings.TrimSpace(excerpt), "\n") {
		require.Contains(t, string(shipped), strings.TrimSpace(line))
	}
}
