package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/rules"
)

// TestReleasedRulesAreWhatTheirVersionHad: whoever names caps@1.0.0 gets the same rules from every release.
func TestReleasedRulesAreWhatTheirVersionHad(t *testing.T) {
	t.Chdir("../../..")
	shipped, err := digests(rules.FS)
	require.NoError(t, err)
	require.Contains(t, shipped, "default@1.0.0")
	text, err := os.ReadFile(file)
	if !os.IsNotExist(err) { // before the first release there is none
		require.NoError(t, err)
	}
	released, err := read(text)
	require.NoError(t, err)
	require.NoError(t, changed(released, shipped))
}

const caps = `apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: caps}
spec:
  version: 1.0.0
  stages: [{name: cap, rules: [{name: max, when: "true", set: {cpu: "1"}}]}]
`

// sets are rule sets in one file.
func sets(t *testing.T, documents ...string) map[string]string {
	t.Helper()
	text := ""
	for _, d := range documents {
		text += "---\n" + d
	}
	out, err := digests(fstest.MapFS{"caps.yaml": {Data: []byte(text)}})
	require.NoError(t, err)
	return out
}

func TestAChangeOfAReleasedVersionIsRefusedAndOfANewOneIsNot(t *testing.T) {
	released := sets(t, caps)
	require.Len(t, released, 1)

	layout := "# A comment.\n" + strings.Replace(caps, "metadata: {name: caps}", "metadata:\n  name: caps", 1)
	require.NoError(t, changed(released, sets(t, layout)), "comments and layout do not count")

	other := strings.Replace(caps, `cpu: "1"`, `cpu: "2"`, 1)
	require.EqualError(t, changed(released, sets(t, other)),
		"caps@1.0.0 differs from what a release shipped under that version: give caps a new version in spec.version, and name that in the pipeline")

	next := strings.Replace(other, "1.0.0", "1.1.0", 1)
	both := sets(t, caps, next)
	require.NoError(t, changed(released, both))
	require.Equal(t, []string{"caps@1.1.0"}, missing(released, both))
	require.NoError(t, changed(released, sets(t, next)), "a version may be taken out")
}

func TestTheLockHasEachShippedVersionOnceItIsWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("conformance/rules/lock", 0o755))
	require.ErrorContains(t, run(true), `default@1.0.0`)
	require.NoError(t, run(false))
	require.NoError(t, run(true))
	first, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, run(false))
	again, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(first), string(again))

	require.NoError(t, os.WriteFile(file, []byte("default@1.0.0: 00\n"), 0o600))
	require.ErrorContains(t, run(false), "default@1.0.0 differs from what a release shipped")
	require.NoError(t, os.WriteFile(file, []byte("default@1.0.0: [\n"), 0o600))
	require.ErrorContains(t, run(false), "conformance/rules/lock/released.yaml: ")
}
