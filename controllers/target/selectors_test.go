package target

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// step is what an API server answers at a time, and what becomes of it.
type step struct {
	after   time.Duration // since the step before
	answer  any           // an error, or the selector
	rename  string        // the VPA now has another target
	uid     types.UID     // the VPA was deleted and made again
	want    string        // the selector; empty = it matches nothing
	problem string        // the whole message; empty = none
	stale   time.Duration // since the start, when the selector was found
	unknown bool
}

// TestHazard10ASelectorIsBridgedWhileItsTargetCannotBeRead: UPSTREAM.md Appendix B 10; a failure of
// a moment must not end what is recommended.
func TestHazard10ASelectorIsBridgedWhileItsTargetCannotBeRead(t *testing.T) {
	const (
		reading = "Cannot read targetRef. Reason: reading the scale of example.com/v1.Thing/t in namespace ns: "
		gone    = "Cannot read targetRef. Reason: Thing ns/t does not exist"
		used    = "; the pods that were selected before are still used, until "
		until   = used + "2026-01-01T00:10:00Z"
	)
	dial := func(port int) error { return fmt.Errorf("read tcp 127.0.0.1:%d: reset", port) }
	tests := []struct {
		name  string
		steps []step
	}{
		{name: "for the time of grace", steps: []step{
			{answer: "app=a", want: "app=a"},
			{after: time.Minute, answer: errBroken, want: "app=a", problem: reading + errBroken.Error() + until, stale: 1},
			{after: 9*time.Minute - 1, answer: errBroken, want: "app=a", problem: reading + errBroken.Error() + until, stale: 1},
			{after: 1, answer: errBroken, problem: reading + errBroken.Error()},
			{after: time.Minute, answer: errBroken, problem: reading + errBroken.Error()},
			{after: time.Minute, answer: "app=b", want: "app=b"},
		}},
		{name: "counted from the last good answer", steps: []step{
			{answer: "app=a", want: "app=a"},
			{after: time.Hour, answer: "app=b", want: "app=b"},
			{after: 9 * time.Minute, answer: errBroken, want: "app=b", problem: reading + errBroken.Error() + used + "2026-01-01T01:10:00Z", stale: time.Hour},
			{after: time.Minute / 2, answer: "app=b", want: "app=b"},
			{after: time.Minute, answer: errBroken, want: "app=b", problem: reading + errBroken.Error() + used + "2026-01-01T01:19:30Z", stale: time.Hour + 570*time.Second},
		}},
		{name: "not without an answer before, but it is too early to say that there are none", steps: []step{
			{answer: errBroken, problem: reading + errBroken.Error(), unknown: true},
			{after: 10*time.Minute - 1, answer: errBroken, problem: reading + errBroken.Error(), unknown: true},
			{after: 1, answer: errBroken, problem: reading + errBroken.Error()},
		}},
		{name: "while the target is deleted and created again", steps: []step{
			{answer: "app=a", want: "app=a"},
			{after: time.Minute, answer: errGone, want: "app=a", problem: gone + until, stale: 1},
			{after: time.Minute, answer: errBroken, want: "app=a", problem: reading + errBroken.Error() + until, stale: 1},
			{after: time.Minute, answer: errGone, want: "app=a", problem: gone + until, stale: 1},
			{after: time.Minute, answer: "app=b", want: "app=b"},
		}},
		{name: "not for longer when the target is not created again", steps: []step{
			{answer: "app=a", want: "app=a"},
			{after: time.Minute, answer: errGone, want: "app=a", problem: gone + until, stale: 1},
			{after: 9 * time.Minute, answer: errGone, problem: gone},
			{after: time.Minute, answer: errGone, problem: gone},
			{after: time.Minute, answer: "app=a", want: "app=a"},
		}},
		{name: "not when the target never existed", steps: []step{
			{answer: errGone, problem: gone},
			{after: time.Minute, answer: errBroken, problem: reading + errBroken.Error()},
		}},
		{name: "not when the VPA has another target", steps: []step{
			{answer: "app=a", want: "app=a"},
			{after: time.Minute, rename: "u", answer: errBroken, problem: "Cannot read targetRef. Reason: reading the scale of example.com/v1.Thing/u in namespace ns: " + errBroken.Error()},
		}},
		{name: "not when it is another VPA of the same name", steps: []step{
			{answer: "app=a", want: "app=a"},
			{after: time.Minute, uid: "another", answer: errBroken, problem: reading + errBroken.Error(), unknown: true},
		}},
		{name: "in the same words while it is the same failure", steps: []step{
			{answer: "app=a", want: "app=a"},
			{after: time.Minute, answer: dial(40001), want: "app=a", problem: reading + dial(40001).Error() + until, stale: 1},
			{after: time.Minute, answer: dial(51), want: "app=a", problem: reading + dial(40001).Error() + until, stale: 1},
			{after: time.Minute, answer: errSilent, want: "app=a", problem: reading + errSilent.Error() + until, stale: 1},
			{after: time.Hour, answer: dial(7), problem: reading + dial(7).Error()},
			{after: time.Minute, answer: dial(8), problem: reading + dial(7).Error()},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api := newScaleAPI(nil, "v1")
			start := api.clock.Now()
			s := &Selectors{Resolver: &Resolver{Client: api.Client}, Clock: api.clock, Grace: 10 * time.Minute}
			v := vpaFor("v", "t", 0)
			v.UID, v.Spec.TargetRef.APIVersion, v.Spec.TargetRef.Kind = "first", "example.com/v1", "Thing"
			for i, step := range tt.steps {
				api.clock.Step(step.after)
				api.answers(step.answer)
				if step.rename != "" {
					v.Spec.TargetRef.Name = step.rename
				}
				if step.uid != "" {
					v.UID = step.uid
				}
				answer := s.For(t.Context(), v)
				require.Equal(t, step.want, answer.Selector.String(), "step %d", i)
				if step.problem == "" {
					require.Nil(t, answer.Problem, "step %d", i)
				} else {
					require.NotNil(t, answer.Problem, "step %d", i)
					require.Equal(t, step.problem, answer.Problem.Message, "step %d", i)
				}
				require.Equal(t, step.unknown, answer.Unknown, "step %d", i)
				if step.stale == 0 {
					require.Zero(t, answer.StaleSince, "step %d", i)
				} else {
					require.Equal(t, start.Add(step.stale.Truncate(time.Second)), answer.StaleSince, "step %d", i)
				}
			}
		})
	}
}

func TestSelectorsForgetVPAsThatAreGone(t *testing.T) {
	api := newScaleAPI(always("app=a"), "v1")
	s := &Selectors{Resolver: &Resolver{Client: api.Client}, Clock: api.clock, Grace: time.Hour}
	for _, uid := range []types.UID{"stays", "goes"} {
		v := vpaFor("v", "t", 0)
		v.UID, v.Spec.TargetRef.APIVersion, v.Spec.TargetRef.Kind = uid, "example.com/v1", "Thing"
		require.Nil(t, s.For(t.Context(), v).Problem)
	}
	s.Keep(func(uid types.UID) bool { return uid == "stays" })
	require.Len(t, s.last, 1)
	require.NotNil(t, s.last["stays"])
}

// A selector that matches all pods and one that matches none look alike in text.
func TestAProblemSelectsNoPods(t *testing.T) {
	s := &Selectors{Resolver: resolver(nil), Clock: testclock.NewFakeClock(time.Now()), Grace: time.Hour}
	for _, v := range []*vpav1.VerticalPodAutoscaler{{}, vpaFor("v", "missing", 0)} {
		answer := s.For(t.Context(), v)
		require.NotNil(t, answer.Problem)
		selects := false
		if requirements, selectable := answer.Selector.Requirements(); selectable || len(requirements) > 0 {
			selects = true
		}
		require.False(t, selects)
	}
}

// The cache of the API itself can fail, too, e.g. before it is filled.
func TestAWellKnownTargetIsBridgedToo(t *testing.T) {
	var failure error
	api := fake.NewClientBuilder().WithObjects(deployment("web")).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if failure != nil {
				return failure
			}
			return c.Get(ctx, k, o, opts...)
		},
	}).Build()
	s := &Selectors{Resolver: &Resolver{Client: api}, Clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), Grace: time.Minute}
	v := vpaFor("v", "web", 0)
	require.Nil(t, s.For(t.Context(), v).Problem)
	failure = errors.New("the cache is not started")
	answer := s.For(t.Context(), v)
	require.Equal(t, "app=web", answer.Selector.String())
	require.Equal(t, "Cannot read targetRef. Reason: reading Deployment ns/web: the cache is not started; the pods that were selected before are still used, until 2026-01-01T00:01:00Z", answer.Problem.Message)
	require.True(t, answer.Problem.Transient)
}
