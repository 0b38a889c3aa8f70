package rules

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/rules"
)

// shippedLines gives the lines of each shipped rule file.
func shippedLines(t *testing.T) map[string][]string {
	t.Helper()
	files, err := fs.Glob(rules.FS, "*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	out := map[string][]string{}
	for _, name := range files {
		data, err := fs.ReadFile(rules.FS, name)
		require.NoError(t, err)
		out[name] = strings.Split(string(data), "\n")
	}
	return out
}

func TestLinesOfRulesFitAScreen(t *testing.T) {
	for name, lines := range shippedLines(t) {
		for i, line := range lines {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 120, "%s:%d", name, i+1)
		}
	}
}

// relates lists the rule files in which a line for CPU has one for memory beside it, with the reason.
var relates = map[string]string{
	"fit-memory-per-cpu.yaml":   "each resource is computed from the other",
	"memory-per-cpu-ratio.yaml": "each resource is computed from the other",
	"memory-per-cpu.yaml":       "each resource is computed from the other",
}

var resourceWord = regexp.MustCompile(`(?i)cpu|memory`)

// TestNothingIsSaidOnceForCPUAndOnceForMemory: an axis says it for both. A twin that is edited alone is a bug.
func TestNothingIsSaidOnceForCPUAndOnceForMemory(t *testing.T) {
	hasTwins := map[string]bool{}
	for name, lines := range shippedLines(t) {
		seen := map[string]string{}
		for i, line := range lines {
			text := strings.TrimSpace(line)
			same := resourceWord.ReplaceAllString(text, "resource")
			if same == text || strings.HasPrefix(text, "#") {
				continue
			}
			if twin, found := seen[same]; found && !strings.EqualFold(twin, text) {
				hasTwins[name] = true
				require.NotEmpty(t, relates[name], "%s:%d: %s\nis, for the other resource, %s", name, i+1, text, twin)
			}
			seen[same] = text
		}
	}
	for name := range relates {
		require.True(t, hasTwins[name], "%s has no such lines any more; take it off the list", name)
	}
}
