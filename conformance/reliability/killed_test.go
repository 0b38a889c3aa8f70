package reliability

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kills is how often each component is killed: 200 times with LONG=1.
func kills() int {
	if os.Getenv("LONG") != "" {
		return 200
	}
	return 40
}

// TestComponentsThatAreKilled at random moments of their cycles, while recommendations change to and fro, so that there is always
// something to do.
func TestComponentsThatAreKilled(t *testing.T) {
	t.Parallel()
	for component, other := range map[string]string{"recommender": "updater", "updater": "recommender"} {
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "rel-killed-"+component, nil)
			s.mayBecome("700m/380258472")
			random := rand.New(rand.NewPCG(20, uint64(len(component))))
			lasting := s.start(other)
			one := s.launch(component, component)
			t.Cleanup(func() { one.Kill() })
			require.NoError(t, one.WaitReady(t.Context()))
			s.haveRecommendations("web", "inplace", "off", "fitting")
			s.begin()
			for i := range kills() {
				if i%10 == 5 {
					floor := []string{"700m", "10m"}[i/10%2] // pods of the one are out of range of the other
					for _, name := range []string{"web", "inplace"} {
						s.patch(name, map[string]any{"resourcePolicy": map[string]any{"containerPolicies": []any{
							map[string]any{"containerName": "app", "minAllowed": map[string]any{"cpu": floor}}}}})
					}
				}
				lasts(t, time.Duration(random.IntN(1500))*time.Millisecond)
				require.NoError(t, one.Alive())
				one.Kill()
				require.False(t, one.Says("please report this"), one.LogFile)
				one = s.launch(component, fmt.Sprint(component, "-", i%2))
				require.NoError(t, one.WaitReady(t.Context()))
			}
			for _, name := range []string{"web", "inplace"} {
				s.patch(name, map[string]any{"resourcePolicy": nil})
			}
			if component == "updater" {
				s.updater, s.recommender = one, lasting
			} else {
				s.recommender, s.updater = one, lasting
			}
			s.ends()
			s.withinBudget()
			evicted, resized := s.audited()
			for pod, times := range evicted {
				require.Equal(t, "web", s.appOf(pod), "pod %s was evicted", pod)
				require.Equal(t, 1, times, "pod %s was evicted more than once", pod)
			}
			for pod := range resized {
				require.Equal(t, "inplace", s.appOf(pod), "pod %s was resized", pod)
			}
			t.Logf("killed %d times; %d evictions, %d pods resized; fewest pods of web: %d", kills(), len(evicted), len(resized), s.fewest("web"))
			require.NoError(t, one.Stop())
		})
	}
}
