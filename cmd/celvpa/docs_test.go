package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/rules"
)

// documented is the first example of docs/rules.md that holds a kind of document.
func documented(t *testing.T, kind string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/rules.md")
	require.NoError(t, err)
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		example, _, closed := strings.Cut(block, "```")
		require.True(t, closed)
		if strings.Contains(example, "kind: "+kind+"\n") {
			return example
		}
	}
	require.Fail(t, "docs/rules.md has no example of kind "+kind)
	return ""
}

// rulesOfTheDocs puts the rule set of docs/rules.md into a pipeline.
func rulesOfTheDocs(t *testing.T) string {
	t.Helper()
	dir := ownRules(t, "pipeline.yaml", "container-caps@1.0.0]", "round-memory@1.0.0, container-caps@1.0.0]")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "round-memory.yaml"), []byte(documented(t, "RuleSet")), 0o600))
	return dir
}

func TestTheExampleOfTheRuleDocsCompilesAndRuns(t *testing.T) {
	dir := rulesOfTheDocs(t)
	out, err := celvpa(t, "rules", "lint", dir)
	require.NoError(t, err, out)
	out, err = celvpa(t, "rules", "list", "--rules-dir", dir)
	require.NoError(t, err)
	require.Regexp(t, `container\.recommend +round-memory@1\.0\.0 `, out)
}

// TestTheTableOfTheRuleDocsPasses runs it on the rule set above it.
func TestTheTableOfTheRuleDocsPasses(t *testing.T) {
	dir := rulesOfTheDocs(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "table.yaml"), []byte(documented(t, "RuleTest")), 0o600))
	out, err := celvpa(t, "test", "--rules-dir", dir, "--run", "^memory-in-steps/")
	require.NoError(t, err, out)
	require.Equal(t, "ok  memory-in-steps  2 rows\n1 table, 2 rows, 0 failed\n", out)
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
