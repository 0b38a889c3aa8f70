package policy

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/celvpa/celvpa/conformance/hang"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

// greedy compiles as usual, but for overlays called after what they do.
func greedy(release <-chan struct{}) compileFunc {
	return func(book *compile.Rulebook, o *rulesv1alpha1.RuleOverlay, spend func(int) error) (*compile.Rulebook, *document.Overlay, error) {
		var kept []byte
		size := 0
		switch {
		case strings.HasPrefix(o.Name, "endless"):
			<-release
		case strings.HasPrefix(o.Name, "panics"):
			panic("at " + o.Name)
		case strings.HasPrefix(o.Name, "long"):
			size = 1 << 10
		case strings.HasPrefix(o.Name, "large"):
			kept = []byte(strings.Repeat("x", 64<<20))
		}
		for size > 0 || kept != nil {
			if err := spend(size); err != nil {
				return nil, nil, err
			}
		}
		return compileOverlay(book, o, spend)
	}
}

// reloadWhile reloads while the clock goes on by steps, as long as a compilation waits for it.
func reloadWhile(t *testing.T, s *Source, clk *testclock.FakeClock, step time.Duration) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Reload(t.Context())
	}()
	hang.Until(t, func() bool {
		select {
		case <-done:
			return true
		default:
			if clk.Waiters() == 2 { // the time until the next look at the heap, and the limit
				clk.Step(step)
			}
			return false
		}
	})
}

// stillCompiling are the overlays whose compilation was abandoned and goes on, by UID.
func stillCompiling(s *Source) (out []types.UID) {
	for uid, e := range s.compiling.exceeded {
		if e.err.going() {
			out = append(out, uid)
		}
	}
	return out
}

func TestOverlayThatExceedsItsLimitsIsRefusedAlone(t *testing.T) {
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	s, objects, _ := clusterSource(t)
	clk := s.clock.(*testclock.FakeClock)
	s.compiling.limits, s.compiling.compile = limits{source: 1 << 20, heap: 32 << 20, hang: time.Minute}, greedy(release)
	add := func(names ...string) {
		for _, name := range names {
			*objects = append(*objects, marginOverlay(name, 1, "0.3", name))
		}
	}
	add("b")
	s.Reload(t.Context())
	for name, want := range map[string]string{
		"long":   "compiling RuleOverlay long takes more than 1024 KiB of expressions, with those it can meet in other overlays: make it smaller or simpler",
		"panics": "compiling RuleOverlay panics panics; please report this: at panics",
	} {
		add(name)
		s.Reload(t.Context())
		require.EqualError(t, s.Accepted()[name].Err, want)
		require.NoError(t, s.Accepted()["b"].Err)
		require.Empty(t, stillCompiling(s), "it has stopped")
	}
	add("large")
	s.compiling.limits.hang = 1000 * time.Hour
	runtime.GC() // what earlier tests left would be collected meanwhile, and hide what the overlay takes
	reloadWhile(t, s, clk, lookInterval)
	s.compiling.limits.hang = time.Minute
	require.ErrorContains(t, s.Accepted()["large"].Err, "compiling RuleOverlay large takes more than 32 MiB of memory")
	*objects = (*objects)[:len(*objects)-1]
	add("c")
	s.Reload(t.Context())
	require.Error(t, s.Accepted()["long"].Err, "the same generation is not tried again")
	require.Equal(t, []string{"c"}, overlaysFor(s, "c"))

	add("endless")
	reloadWhile(t, s, clk, s.compiling.limits.hang)
	require.ErrorContains(t, s.Accepted()["endless"].Err, "compiling RuleOverlay endless has not ended within 1m0s")
	require.Equal(t, []types.UID{"uid-endless"}, stillCompiling(s), "it goes on")
	for i := range *objects {
		if (*objects)[i].Name == "endless" {
			(*objects)[i].Generation = 2
		}
	}
	s.Reload(t.Context())
	require.ErrorContains(t, s.Accepted()["endless"].Err, "generation 1 is still compiling", "one at a time")
	add("endless2", "endless3", "endless4", "endless5")
	reloadWhile(t, s, clk, s.compiling.limits.hang)
	require.Len(t, stillCompiling(s), maxLeftBehind)
	require.ErrorContains(t, s.Accepted()["endless5"].Err, "4 RuleOverlays are still compiling")
	require.Equal(t, []string{"b"}, overlaysFor(s, "b"), "what was in use stays")
	require.Equal(t, []string{"c"}, overlaysFor(s, "c"))

	letGo()
	hang.Until(t, func() bool { return len(stillCompiling(s)) == 0 })
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

// A busy node made an overlay too slow, and it was refused for good.
func TestOverlayThatABusyMachineSlowedDownIsTriedAgain(t *testing.T) {
	release, tries := make(chan struct{}), 0
	s, objects, _ := clusterSource(t)
	clk := s.clock.(*testclock.FakeClock)
	s.compiling.compile = func(book *compile.Rulebook, o *rulesv1alpha1.RuleOverlay, spend func(int) error) (*compile.Rulebook, *document.Overlay, error) {
		tries++
		<-release
		return compileOverlay(book, o, spend)
	}
	*objects = append(*objects, marginOverlay("slow", 1, "0.3", "a"))
	reloadWhile(t, s, clk, overlayLimits.hang)
	require.ErrorContains(t, s.Accepted()["slow"].Err, "it is tried again")
	clk.Step(longestRetry)
	s.Reload(t.Context())
	require.Equal(t, 1, tries, "it is not compiled twice at a time")
	close(release)
	hang.Until(t, func() bool { return len(stillCompiling(s)) == 0 })

	for i, next := range []time.Duration{2 * firstRetry, 4 * firstRetry} {
		again := make(chan struct{})
		release = again
		reloadWhile(t, s, clk, overlayLimits.hang)
		require.Equal(t, i+2, tries)
		close(again)
		hang.Until(t, func() bool { return len(stillCompiling(s)) == 0 })
		require.Equal(t, next, s.compiling.exceeded[(*objects)[0].UID].wait)
		s.Reload(t.Context())
		require.Equal(t, i+2, tries, "not before its time")
		clk.Step(next)
	}
	s.Reload(t.Context())
	require.NoError(t, s.Accepted()["slow"].Err)
	require.Equal(t, []string{"slow"}, overlaysFor(s, "a"))
	require.Empty(t, s.compiling.exceeded)
}
