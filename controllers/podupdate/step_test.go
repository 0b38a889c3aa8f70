package podupdate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
)

// answering answers every request alike.
type answering podupdate.Answer

func (a answering) Evict(*podupdate.Candidate) podupdate.Answer { return podupdate.Answer(a) }

func (a answering) Resize(*podupdate.Candidate, facts.PodChange) podupdate.Answer {
	return podupdate.Answer(a)
}

// Rules that limit how often a workload is disrupted hold for the next pod of the same cycle, and for later cycles.
func TestAnEvictionCountsAtOnceAndInLaterCycles(t *testing.T) {
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	vpas, of, _ := world(2)
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	one := facts.Updates{Evictions: 1}
	for name, tt := range map[string]struct {
		outcome podupdate.Outcome
		dry     bool
		now     facts.Updates
		later   facts.Updates
	}{
		"it is carried out":                    {podupdate.Done, false, one, one},
		"it may have been":                     {podupdate.Unknown, false, one, one},
		"it is refused":                        {podupdate.Declined, false, facts.Updates{}, facts.Updates{}},
		"nothing is sent":                      {podupdate.Left, false, facts.Updates{}, facts.Updates{}},
		"the pod is gone":                      {podupdate.Gone, false, facts.Updates{}, facts.Updates{}},
		"a plan counts it, and remembers none": {podupdate.Done, true, one, facts.Updates{}},
	} {
		t.Run(name, func(t *testing.T) {
			var memory podupdate.Memory
			memory.Look(of[0], now)
			step := &podupdate.Step{VPA: vpas[0], Plan: policy.For(book, vpas[0]).Plan, Memory: &memory, Dry: tt.dry, Now: now,
				Clock: testingclock.NewFakePassiveClock(now), Actuator: answering{Outcome: tt.outcome}}
			group := &facts.Group{Configured: 2, Live: 2, Running: 2, Ready: 2}
			c, failed := step.Candidate(podupdate.Request{Pod: of[0][0], VPA: vpas[0], Now: now}, group, nil)
			require.Empty(t, failed)
			step.Take(c)
			require.Equal(t, facts.DoEvict, c.Verdict.Do)
			require.Equal(t, tt.now, group.LastHour)
			require.Equal(t, tt.now, group.LastDay)

			later := &facts.Group{}
			memory.RecallGroups(map[target.Key]*facts.Group{c.Owner: later}, now.Add(30*time.Minute))
			require.Equal(t, tt.later, later.LastHour)
			require.Equal(t, 30*time.Minute, later.CountedFor)
		})
	}
}
