package rules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/ruletest"
)

const held = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: held}
spec:
  change:
  - before: update
    decision: {name: held, when: "wouldEvict(vpa, pod, containers, change, attempt, resize)", do: Skip, class: Settled, reason: Held}
`

// TestAnOverlayCanHoldEvictionsAlone goes through all rows of pod.update: with one that skips where wouldEvict holds nothing is
// evicted, and what is resized or left alone stays so.
func TestAnOverlayCanHoldEvictionsAlone(t *testing.T) {
	tables, err := document.LoadTests(document.Layer{FS: FS, Dir: Dir})
	require.NoError(t, err)
	tables = slices.DeleteFunc(tables, func(t *document.RuleTest) bool { return t.Point.Value != facts.PodUpdate })
	shipped, err := policy.Open(policy.Options{})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "held.yaml")
	require.NoError(t, os.WriteFile(file, []byte(held), 0o600))
	rules, err := shipped.Over(file)
	require.NoError(t, err)
	before, after := rules.Test(tables, policy.TestOptions{}), rules.Test(tables, policy.TestOptions{Overlays: []string{"held"}})
	require.Len(t, after, len(before))
	does := func(r ruletest.RowResult, outcome string) bool {
		return slices.ContainsFunc(r.Answer, func(line string) bool { return strings.HasPrefix(line, "do = "+outcome+" (") })
	}
	evictions := 0
	for i := range before {
		require.False(t, does(after[i], facts.DoEvict), before[i].Row)
		switch {
		case does(before[i], facts.DoEvict):
			evictions++
			require.True(t, does(after[i], facts.DoSkip), before[i].Row)
		case !slices.Contains(after[i].Fired, "update/held"):
			require.Equal(t, before[i].Answer, after[i].Answer, before[i].Row)
		default: // it would have been evicted, had something else not held it
			require.False(t, does(before[i], facts.DoInPlace) || does(before[i], facts.DoInPlaceCPU), before[i].Row)
		}
	}
	require.Greater(t, evictions, 30)
}
