package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/rules"
)

// celvpa runs a command and returns what it prints.
func celvpa(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := rootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

// ownRules copies the shipped rules into a folder and changes one of them.
func ownRules(t *testing.T, file, from, to string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, rules.FS))
	path := filepath.Join(dir, file)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), from)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
	return dir
}

func TestRulesAreListedAndShown(t *testing.T) {
	out, err := celvpa(t, "rules", "list")
	require.NoError(t, err)
	require.Regexp(t, `^pipeline default@1\.0\.0, digest [0-9a-f]{12}\n`, out)
	require.Regexp(t, `container\.recommend +container-caps@1\.0\.0 +rules/container-caps\.yaml:3:18 `, out)
	out, err = celvpa(t, "rules", "show", "container-caps@1.0.0")
	require.NoError(t, err)
	shipped, err := rules.FS.ReadFile("container-caps.yaml")
	require.NoError(t, err)
	require.Equal(t, "# rules/container-caps.yaml\n"+string(shipped), out)
	_, err = celvpa(t, "rules", "show", "nothing")
	require.ErrorContains(t, err, `there is no rule set "nothing"; there are: admission-mode@1.0.0`)

	dir := ownRules(t, "pipeline.yaml", "[controlled-resources@1.0.0, container-caps@1.0.0]", "[controlled-resources@1.0.0]")
	out, err = celvpa(t, "rules", "list", "--rules-dir", dir)
	require.NoError(t, err)
	require.Regexp(t, `\(not run\) +container-caps@1\.0\.0 `, out)
	out, err = celvpa(t, "rules", "show", "container-caps", "--rules-dir", dir)
	require.NoError(t, err)
	require.Contains(t, out, "# "+filepath.Join(dir, "container-caps.yaml"))
}

func TestPointsArePrintedFromTheRegistry(t *testing.T) {
	out, err := celvpa(t, "rules", "points")
	require.NoError(t, err)
	require.Contains(t, out, "## pod.update\n")
	require.Contains(t, out, "| `now.cpu` | int (cpu) | milli-cores (may be set) |\n")
	require.Contains(t, out, "| `Evict` | evict the pod |\n")
	require.Contains(t, out, "When no row holds, or one fails: `Skip`.")
}

func TestLintTellsErrorsAndFindings(t *testing.T) {
	out, err := celvpa(t, "rules", "lint", "../../rules")
	require.NoError(t, err, out)
	require.Equal(t, "nothing found\n", out)

	out, err = celvpa(t, "rules", "lint", ownRules(t, "requests.yaml", "recommended.memory}}", "recommended.memroy}}"))
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, "undefined field 'memroy'")
	require.Contains(t, out, "1 found\n")

	out, err = celvpa(t, "rules", "lint", ownRules(t, "update.yaml", "  variables:\n", "  variables:\n    idle: 1 + 1\n"))
	require.ErrorIs(t, err, errNo)
	require.Contains(t, out, "variable idle is never read")

	_, err = celvpa(t, "rules", "lint", filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "is not a folder that can be read")
	require.NotErrorIs(t, err, errNo)
}
