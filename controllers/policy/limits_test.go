package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	"github.com/celvpa/celvpa/crds/underway"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

// greedy compiles as usual, but for overlays called after what they do.
func greedy(release <-chan struct{}) compileFunc {
	return func(book *compile.Rulebook, o *rulesv1alpha1.RuleOverlay, stop func() error) (*compile.Rulebook, *document.Overlay, error) {
		var kept [][]byte
		switch {
		case strings.HasPrefix(o.Name, "endless"):
			<-release
		case strings.HasPrefix(o.Name, "panics"):
			panic("at " + o.Name)
		case strings.HasPrefix(o.Name, "slow"):
			for stop() == nil {
				time.Sleep(time.Millisecond)
			}
		case strings.HasPrefix(o.Name, "large"):
			for stop() == nil && len(kept) < 1000 {
				kept = append(kept, []byte(strings.Repeat("x", 1<<20)))
				time.Sleep(time.Millisecond)
			}
		}
		defer func() { kept = nil }()
		return compileOverlay(book, o, stop)
	}
}

func TestOverlayThatExceedsItsLimitsIsRefusedAlone(t *testing.T) {
	release := make(chan struct{})
	s, objects, _ := clusterSource(t)
	s.compiling.limits, s.compiling.compile = limits{time: time.Second, bytes: 64 << 20}, greedy(release)
	ours := func() (out []string) {
		for _, w := range underway.Overdue(time.Now().Add(time.Minute), 0) {
			if w.Doing == "compiling RuleOverlay" {
				out = append(out, w.About)
				require.False(t, w.Restart)
			}
		}
		return out
	}
	add := func(names ...string) {
		for _, name := range names {
			*objects = append(*objects, marginOverlay(name, 1, "0.3", name))
		}
	}
	add("b")
	s.Reload(t.Context())
	for name, want := range map[string]string{
		"slow":   "compiling RuleOverlay slow takes longer than 1s: make it smaller or simpler",
		"large":  "compiling RuleOverlay large takes more than 64 MiB of memory: make it smaller or simpler",
		"panics": "compiling RuleOverlay panics panics; please report this: at panics",
	} {
		add(name)
		within(t, 10*time.Second, func() { s.Reload(t.Context()) })
		require.EqualError(t, s.Accepted()[name].Err, want)
		require.NoError(t, s.Accepted()["b"].Err)
		require.Empty(t, ours(), "it has stopped")
	}
	add("c")
	within(t, time.Second, func() { s.Reload(t.Context()) })
	require.Error(t, s.Accepted()["slow"].Err, "the same generation is not tried again")
	require.Equal(t, []string{"c"}, overlaysFor(s, "c"))

	add("endless")
	within(t, 10*time.Second, func() { s.Reload(t.Context()) })
	require.ErrorContains(t, s.Accepted()["endless"].Err, "compiling RuleOverlay endless takes longer than 1s")
	require.Equal(t, []string{"endless"}, ours(), "it goes on")
	for i := range *objects {
		if (*objects)[i].Name == "endless" {
			(*objects)[i].Generation = 2
		}
	}
	within(t, time.Second, func() { s.Reload(t.Context()) })
	require.ErrorContains(t, s.Accepted()["endless"].Err, "generation 1 is still compiling", "one at a time")
	add("endless2", "endless3", "endless4", "endless5")
	within(t, 30*time.Second, func() { s.Reload(t.Context()) })
	require.Len(t, ours(), maxLeftBehind)
	require.ErrorContains(t, s.Accepted()["endless5"].Err, "4 RuleOverlays are still compiling")
	require.Equal(t, []string{"b"}, overlaysFor(s, "b"), "what was in use stays")
	require.Equal(t, []string{"c"}, overlaysFor(s, "c"))

	close(release)
	require.Eventually(t, func() bool { return len(ours()) == 0 }, 5*time.Second, time.Millisecond)
	s.compiling.compile = nil
	for i := range *objects {
		(*objects)[i].Generation = 3
	}
	s.Reload(t.Context())
	for name, a := range s.Accepted() {
		require.NoError(t, a.Err, name)
	}
	require.Empty(t, s.compiling.exceeded)
}
