package target

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// review is a pod of a Thing under review.
func review(name string, uid types.UID) *metav1.OwnerReference {
	of := controlledBy("example.com/v1", "Thing", name)
	of.UID = uid
	return &of
}

// answerOf is what the review of a pod comes to: whether a VPA of the owner has it, or why that is
// not known.
func (a *scaleAPI) answerOf(ctx context.Context, of *metav1.OwnerReference) string {
	r := &Resolver{Client: a.Client, Scales: a.scales}
	pod := podOf(*of)
	top, err := r.Top(ctx, pod, nil)
	if err != nil {
		return err.Error()
	}
	yes, why := top.Selects(ctx, vpaOfThing(of.Name), pod)
	switch {
	case why != nil:
		return why.Message
	case yes:
		return "mine"
	}
	return "not mine"
}

func vpaOfThing(name string) *vpav1.VerticalPodAutoscaler {
	v := vpaFor("v", name, 0)
	v.Spec.TargetRef.APIVersion, v.Spec.TargetRef.Kind = "example.com/v1", "Thing"
	return v
}

// begin asks in the background, as the API server does that has a pod reviewed.
func (a *scaleAPI) begin(ctx context.Context, of *metav1.OwnerReference) chan string {
	out := make(chan string, 1)
	go func() { out <- a.answerOf(ctx, of) }()
	return out
}

// hanging is an API server that answers only once it is released; entered receives each request.
func hanging(x any) (api *scaleAPI, entered chan string, release func()) {
	entered, leave := make(chan string, 100), make(chan struct{})
	api = newScaleAPI(func(asked string) any {
		entered <- asked
		<-leave
		return x
	}, "v1")
	return api, entered, func() { close(leave) }
}

const (
	notYet = "finding the topmost controller of pod ns/p: waiting for the scale of example.com/v1.Thing/t in namespace ns: "
	cannot = "finding the topmost controller of pod ns/p: reading the scale of example.com/v1.Thing/t in namespace ns: "
)

func TestTheFirstPodOfACustomOwnerHasItsVPA(t *testing.T) {
	api := newScaleAPI(always("app=web"), "v1")
	for range 3 {
		require.Equal(t, "mine", api.answerOf(t.Context(), review("t", "1")))
	}
	require.Equal(t, 1, api.reads())
}

// TestHangingAPIServerDelaysNoPodBeyondPatience: one pod waits for a moment, then others do not,
// neither of that owner nor of others of its kind. In tests time stands still unless somebody moves
// it, so whoever waits does so for ever.
func TestHangingAPIServerDelaysNoPodBeyondPatience(t *testing.T) {
	api, entered, release := hanging("app=web")
	first, second := api.begin(t.Context(), review("t", "1")), api.begin(t.Context(), review("t", "1"))
	<-entered
	hang.Until(t, func() bool { return api.clock.Waiters() == 2 })
	api.clock.Step(Patience - 1)
	require.Empty(t, first)
	api.clock.Step(1)
	for _, done := range []chan string{first, second} {
		require.Equal(t, notYet+errNotYet.Error(), <-done)
	}
	require.Equal(t, notYet+errNotYet.Error(), api.answerOf(t.Context(), review("t", "1")), "the next pod does not wait")
	require.Contains(t, api.answerOf(t.Context(), review("u", "2")), "Thing/u in namespace ns: "+errNotYet.Error(), "nor does that of another one of the kind")
	require.Equal(t, "v1 u", <-entered, "which is asked for all the same")

	other := controlledBy("example.com/v1", "Other", "o")
	third := api.begin(t.Context(), &other)
	<-entered
	hang.Until(t, func() bool { return api.clock.Waiters() == 1 }, "another kind may have another server behind it")
	release()
	<-third
	hang.Until(t, func() bool { return api.answerOf(t.Context(), review("t", "1")) == "mine" }, "the answer came in the background")
	require.Equal(t, "mine", api.answerOf(t.Context(), review("t", "1")))
	require.Equal(t, "mine", api.answerOf(t.Context(), review("v", "3")), "once it answers it is waited for again")
}

// A pod that comes while another one waits does not begin to count anew.
func TestLaterReviewsWaitForTheRestOfPatience(t *testing.T) {
	api, entered, release := hanging("app=web")
	defer release()
	first := api.begin(t.Context(), review("t", "1"))
	<-entered
	hang.Until(t, func() bool { return api.clock.Waiters() == 1 })
	api.clock.Step(Patience * 3 / 4)
	second := api.begin(t.Context(), review("t", "1"))
	hang.Until(t, func() bool { return api.clock.Waiters() == 2 })
	api.clock.Step(Patience / 4)
	require.Equal(t, notYet+errNotYet.Error(), <-first)
	require.Equal(t, notYet+errNotYet.Error(), <-second)
}

// All the scales of one review are waited for no longer than one would be.
func TestPatienceCoversAllScalesOfAReview(t *testing.T) {
	entered, leave := make(chan string, 10), map[string]chan struct{}{"v1 t": make(chan struct{}), "v1 above": make(chan struct{})}
	api := newScaleAPI(func(asked string) any {
		entered <- asked
		<-leave[asked]
		return map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "example.com/v1", "kind": "Other", "name": "above", "uid": "2", "controller": true}}}
	}, "v1")
	got := api.begin(t.Context(), review("t", "1"))
	require.Equal(t, "v1 t", <-entered)
	hang.Until(t, api.clock.HasWaiters)
	api.clock.Step(Patience - time.Millisecond)
	close(leave["v1 t"])
	require.Equal(t, "v1 above", <-entered)
	hang.Until(t, api.clock.HasWaiters)
	api.clock.Step(time.Millisecond)
	require.Contains(t, <-got, "Other/above in namespace ns: "+errNotYet.Error())
	close(leave["v1 above"])
}

func TestCanceledReviewDoesNotWait(t *testing.T) {
	api, entered, release := hanging("app=web")
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	got := api.begin(ctx, review("t", "1"))
	<-entered
	cancel()
	require.Equal(t, notYet+context.Canceled.Error(), <-got)
}

func TestAFailureIsRememberedForTheNextPods(t *testing.T) {
	for name, failure := range map[string]error{"of one object": errBroken, "of the whole API": errSilent} {
		t.Run(name, func(t *testing.T) {
			api := newScaleAPI(always(failure), "v1")
			for range 3 {
				require.Equal(t, cannot+failure.Error(), api.answerOf(t.Context(), review("t", "1")))
			}
			require.Equal(t, 1, api.reads())
			api.clock.Step(scaleRetry)
			api.answers("app=web")
			require.Equal(t, "mine", api.answerOf(t.Context(), review("t", "1")))
			require.Equal(t, 2, api.reads())
		})
	}
}

// What is known counts on while nobody can be asked; somebody else has asked in vain, so that no
// pod has to.
func TestAnAnswerOutlivesItsAPIServer(t *testing.T) {
	api := newScaleAPI(always("app=web"), "v1")
	require.Equal(t, "mine", api.answerOf(t.Context(), review("t", "1")))
	api.answers(errSilent)
	api.clock.Step(15 * time.Minute) // its end; 10 minutes, and half of that for the jitter
	require.ErrorContains(t, lookError(t, api, thing("t")), "connection refused", "a caller that can wait gets the error")
	for range 10 {
		api.clock.Step(6 * time.Minute)
		require.Equal(t, "mine", api.answerOf(t.Context(), review("t", "1")))
	}
	require.Equal(t, 2, api.reads())
	api.clock.Step(1)
	require.Equal(t, cannot+errSilent.Error(), api.answerOf(t.Context(), review("t", "1")), "but not for ever")
}

// TestATargetThatWasMissingIsThereForItsFirstPod: a VPA is often made a moment before its target.
func TestATargetThatWasMissingIsThereForItsFirstPod(t *testing.T) {
	api := newScaleAPI(always(errGone), "v1")
	require.Equal(t, "none", api.look(t, thing("t"), asTarget), "looked up ahead")
	api.answers("app=web")
	require.Equal(t, "none", api.look(t, thing("t"), asTarget))
	for range 3 {
		require.Equal(t, "mine", api.answerOf(t.Context(), review("t", "1")))
	}
	require.Equal(t, 2, api.reads())
}

// The VPA names its target in another version than the owner reference does.
func TestATargetThatWasMissingIsThereInAnyVersion(t *testing.T) {
	api := newScaleAPI(always(errGone), "v1", "v2")
	v := vpaOfThing("t")
	v.Spec.TargetRef.APIVersion = "example.com/v2"
	r := &Resolver{Client: api.Client, Scales: api.scales}
	_, why := r.Selector(t.Context(), v)
	require.NotNil(t, why, "looked up ahead")
	api.answers("app=web")
	pod := podOf(*review("t", "1"))
	top, err := r.Top(t.Context(), pod, nil)
	require.NoError(t, err)
	mine, why := top.Selects(t.Context(), v, pod)
	require.Nil(t, why)
	require.True(t, mine)
}

func TestAnOwnerThatCannotBeScaledIsAskedForOnce(t *testing.T) {
	api := newScaleAPI(always(errGone), "v1")
	const none = "finding the topmost controller of pod ns/p: Thing ns/t does not exist or cannot be scaled"
	api.look(t, thing("t"), asOwner)
	for range 3 {
		require.Equal(t, none, api.answerOf(t.Context(), review("t", "1")))
	}
	require.Equal(t, 2, api.reads(), "once more, for the object that is there now")
	require.Equal(t, none, api.answerOf(t.Context(), review("t", "2")))
	require.Equal(t, 3, api.reads(), "and for the next one of its name")
	api.clock.Step(15*time.Minute - scaleAhead)
	api.scales.refresh(t.Context())
	require.Equal(t, none, api.answerOf(t.Context(), review("t", "2")))
	require.Equal(t, 4, api.reads(), "the background asks about the same object")
}

func TestAnotherObjectOfTheNameIsAskedFor(t *testing.T) {
	api := newScaleAPI(always(map[string]any{"uid": "1"}), "v1")
	require.Equal(t, "app=web", api.look(t, thing("t"), asTarget))
	require.Equal(t, "mine", api.answerOf(t.Context(), review("t", "1")))
	require.Equal(t, 1, api.reads(), "it was looked up ahead")
	api.answers("app=other")
	require.Equal(t, "not mine", api.answerOf(t.Context(), review("t", "2")))
	require.Equal(t, 2, api.reads())
	api.answers(errBroken)
	require.Equal(t, "not mine", api.answerOf(t.Context(), review("t", "3")), "the last answer is better than none")
}

// TestTwoOwnersOfOneNameDoNotAskInTurns for ever: each pod asks once at most.
func TestTwoOwnersOfOneNameDoNotAskInTurns(t *testing.T) {
	api, entered, release := hanging(errGone)
	var all []chan string
	for range 5 {
		all = append(all, api.begin(t.Context(), review("t", "1")), api.begin(t.Context(), review("t", "2")))
	}
	<-entered
	hang.Until(t, func() bool { return api.clock.Waiters() == len(all) })
	release()
	for _, done := range all {
		require.Contains(t, <-done, "cannot be scaled")
	}
	require.LessOrEqual(t, api.reads(), 2)
}

// A controller gets its selector at about the time when its first pods are made.
func TestTargetWithoutASelectorIsReadWithBackOff(t *testing.T) {
	api := newScaleAPI(always(""), "v1")
	const bare = "Cannot read targetRef. Reason: resource ns/t has an empty selector for scale sub-resource"
	require.Equal(t, bare, api.answerOf(t.Context(), review("t", "1")))
	for i, wait := range []time.Duration{1, 1, 2, 4, 8, 16, 32, 60, 60} {
		api.clock.Step(wait*time.Second - 1)
		require.Equal(t, bare, api.answerOf(t.Context(), review("t", "1")))
		require.Equal(t, i+1, api.reads())
		api.clock.Step(1)
		require.Equal(t, bare, api.answerOf(t.Context(), review("t", "1")))
		require.Equal(t, i+2, api.reads())
	}
	api.answers("app=web")
	api.clock.Step(time.Minute)
	require.Equal(t, "mine", api.answerOf(t.Context(), review("t", "1")))
	require.Equal(t, "mine", api.answerOf(t.Context(), review("t", "1")))
}
