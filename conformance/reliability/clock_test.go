package reliability

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/conformance/harness/wallclock"
)

const day = 24 * time.Hour

// clockOf takes over the wall clock of a program.
func clockOf(t *testing.T, p *program) *wallclock.Clock {
	t.Helper()
	var clock *wallclock.Clock
	hang.Eventually(t, "the clock of a program that may have just started", func(context.Context) (bool, error) {
		var err error
		if clock, err = wallclock.Of(p.Pid()); errors.Is(err, wallclock.ErrUnsupported) {
			t.Skip(err)
		}
		return err == nil, err
	})
	return clock
}

// healthy requires that a liveness probe would not restart a program, unless its machine is so busy that it has not finished a cycle for
// some intervals.
func healthy(t *testing.T, p *program, when string) {
	t.Helper()
	why, err := harness.Get(t.Context(), "http://"+p.Address+"/healthz")
	if err == nil {
		return
	}
	require.NotEmpty(t, why, "%s: %s", when, err)
	_, text, _ := strings.Cut(strings.TrimSpace(why), "has not finished a cycle for ")
	idle, err := time.ParseDuration(text)
	require.NoError(t, err, "%s: %s", when, why)
	require.Less(t, idle, hang.Limit, "%s: as if the step had been without a cycle", when)
}

// TestClocksThatAreStepped of recommender and updater, ahead and back, in the midst of a rollout. The clocks of the API server, of
// the webhook and of the source of usage are right.
func TestClocksThatAreStepped(t *testing.T) {
	t.Parallel()
	s := newStage(t, "rel-clock", newProxy(t))
	s.serveUsage(func() []usage { return s.used(time.Now()) })
	s.recommender, s.updater = s.start("recommender"), s.start("updater")
	s.haveRecommendations("web", "inplace", "off", "fitting")
	clocks := map[string]*wallclock.Clock{"recommender": clockOf(t, s.recommender), "updater": clockOf(t, s.updater)}
	programs := map[string]*program{"recommender": s.recommender, "updater": s.updater}
	s.begin()
	s.rollsOut()
	for _, ahead := range []time.Duration{time.Hour, day, 365 * day, -time.Hour, -day, -365 * day, 0} {
		for component, clock := range clocks {
			require.NoError(t, clock.Set(ahead))
			healthy(t, programs[component], component+" "+ahead.String())
		}
		future := s.samples("cpu", "future")
		for component, p := range programs {
			s.moreCycles(p, component, 2)
			healthy(t, p, component+" "+ahead.String())
		}
		if ahead < -time.Hour {
			require.Greater(t, s.samples("cpu", "future"), future)
			require.True(t, s.recommender.Says("metrics source returned unusable samples", "future"))
		}
	}
	s.ends()

	// A recommender that starts while its clock is ahead keeps the history of before.
	require.NoError(t, s.recommender.Stop())
	s.recommender = s.launch("recommender", "recommender-ahead")
	t.Cleanup(func() { _ = s.recommender.Stop() })
	require.NoError(t, clockOf(t, s.recommender).Set(30*day))
	s.moreCycles(s.recommender, "recommender", 3)
	require.True(t, s.recommender.Says("checkpoints loaded"))
	s.goOn()
	s.haveRecommendations("web", "inplace", "off", "fitting", "late")
	s.losesNothing()
}
