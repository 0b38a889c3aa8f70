package target

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestATargetThatStaysMissingIsAskedForLessOften: anyone can create thousands of VPAs without one.
func TestATargetThatStaysMissingIsAskedForLessOften(t *testing.T) {
	for name, missing := range map[string]struct {
		answer any
		want   string
	}{
		"it does not exist":  {errGone, "none"},
		"it has no selector": {"", "no selector"},
	} {
		t.Run(name, func(t *testing.T) {
			api := newScaleAPI(always(missing.answer), "v1")
			waits := func(minutes ...time.Duration) {
				t.Helper()
				before := api.reads()
				require.Equal(t, missing.want, api.look(t, thing("t"), asTarget))
				for i, wait := range minutes {
					api.clock.Step(wait*time.Minute - 1)
					require.Equal(t, missing.want, api.look(t, thing("t"), asTarget))
					require.Equal(t, before+i+1, api.reads())
					api.clock.Step(1)
					require.Equal(t, missing.want, api.look(t, thing("t"), asTarget))
					require.Equal(t, before+i+2, api.reads())
				}
			}
			waits(1, 1, 2, 4, 8, 10, 10)
			api.answers("app=a")
			api.clock.Step(10 * time.Minute)
			require.Equal(t, "app=a", api.look(t, thing("t"), asTarget))
			api.answers(missing.answer)
			api.clock.Step(15 * time.Minute)
			waits(1, 1, 2)
		})
	}
}

// slowly is an API server that takes a second for each look-up, and selectors that ask it.
func slowly(answer any) (*scaleAPI, *Selectors) {
	var api *scaleAPI
	api = newScaleAPI(func(string) any {
		api.clock.Step(time.Second)
		return answer
	}, "v1")
	return api, &Selectors{Resolver: &Resolver{Client: api.Client, Scales: api.scales}, Clock: api.clock, Grace: time.Hour}
}

func vpasOf(namespace string, n int) (out []*vpav1.VerticalPodAutoscaler) {
	for i := range n {
		v := vpaOfThing(fmt.Sprint(namespace, i))
		v.Namespace, v.UID = namespace, types.UID(fmt.Sprint(namespace, i))
		out = append(out, v)
	}
	return out
}

// since are the names that an API server was asked for after some others.
func (a *scaleAPI) since(reads int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.ReplaceAll(strings.Join(a.asked[reads:], " "), "v1 ", "")
}

// TestLookUpsHaveABudget: 15,000 VPAs without a target made cycles longer than the health check
// allows.
func TestLookUpsHaveABudget(t *testing.T) {
	api, s := slowly(errGone)
	vpas := vpasOf("a", 7)
	for _, want := range []string{"a0 a1 a2", "a3 a4 a5", "a6"} {
		before, at := api.reads(), api.clock.Now()
		answers := s.ForAll(t.Context(), vpas, 3*time.Second)
		require.Equal(t, want, api.since(before), "it goes on where it stopped")
		require.LessOrEqual(t, api.clock.Since(at), 3*time.Second)
		for i, answer := range answers {
			asked := slices.Contains(strings.Fields(api.since(0)), fmt.Sprint("a", i))
			require.Equal(t, asked, strings.HasSuffix(answer.Problem.Message, fmt.Sprintf("Thing a/a%d does not exist", i)), answer.Problem.Message)
			require.Equal(t, !asked, strings.HasSuffix(answer.Problem.Message, "waiting for its turn"), answer.Problem.Message)
			require.Equal(t, !asked, answer.Unknown, "it is too early to say that there are no pods")
		}
	}
	before := api.reads()
	s.ForAll(t.Context(), vpas, 3*time.Second)
	require.Empty(t, api.since(before), "all are known")
	api.clock.Step(time.Minute)
	for _, want := range []string{"a0 a1 a2", "a3 a4 a5"} {
		before := api.reads()
		for i, answer := range s.ForAll(t.Context(), vpas, 3*time.Second) {
			require.Contains(t, answer.Problem.Message, fmt.Sprintf("Thing a/a%d does not exist", i), "what was known is kept")
		}
		require.Equal(t, want, api.since(before), "those asked for longest ago come first")
	}
}

func TestTheBackgroundAsksForWhatExceedsTheBudget(t *testing.T) {
	api, s := slowly("app=a")
	vpas := vpasOf("a", 3)
	s.ForAll(t.Context(), vpas, 0)
	require.Zero(t, api.reads())
	api.scales.refresh(t.Context())
	for i, answer := range s.ForAll(t.Context(), vpas, 0) {
		require.Nil(t, answer.Problem, i)
	}
	require.Equal(t, 3, api.reads())
}

func TestASelectorOutlivesTheBudget(t *testing.T) {
	api, s := slowly("app=a")
	vpas := vpasOf("a", 3)
	for range 3 {
		s.ForAll(t.Context(), vpas, time.Second)
	}
	api.clock.Step(time.Hour) // long after Grace, and all have expired
	for i, answer := range s.ForAll(t.Context(), vpas, 0) {
		require.Nil(t, answer.Problem, i)
		require.Equal(t, "app=a", answer.Selector.String())
	}
	require.Equal(t, 3, api.reads())

	vpas[0].Spec.TargetRef.Name = "another"
	answer := s.ForAll(t.Context(), vpas[:1], 0)[0]
	require.Contains(t, answer.Problem.Message, "waiting for its turn")
	require.False(t, answer.Unknown, "what was known is of another target")
}

func TestNamespacesTakeTurnsInTheBudget(t *testing.T) {
	api, s := slowly(errGone)
	vpas := append(append(vpasOf("a", 5), vpasOf("b", 2)...), vpasOf("c", 1)...)
	for _, want := range []string{"a0 b0 c0", "a1 b1 a2", "a3 a4"} {
		before := api.reads()
		s.ForAll(t.Context(), vpas, 3*time.Second)
		require.Equal(t, want, api.since(before))
	}
}

// TestTargetsInMemoryTakeNoBudget: those of well-known kinds are in a cache.
func TestTargetsInMemoryTakeNoBudget(t *testing.T) {
	s := &Selectors{Resolver: resolver(nil, deployment("web")), Clock: newScaleAPI(nil).clock, Grace: time.Hour}
	answer := s.ForAll(t.Context(), []*vpav1.VerticalPodAutoscaler{vpaFor("v", "web", 0)}, 0)[0]
	require.Nil(t, answer.Problem)
	require.Equal(t, "app=web", answer.Selector.String())
}
