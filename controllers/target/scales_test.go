package target

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var (
	errGone   = apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: "things"}, "t")
	errBroken = apierrors.NewInternalError(errors.New("conversion failed"))
	errSilent = syscall.ECONNREFUSED
)

// scaleAPI is an API server of scales that counts what it is asked.
type scaleAPI struct {
	client.Client
	clock  *testclock.FakeClock
	scales *Scales

	mu     sync.Mutex
	asked  []string         // "<version> <name>"
	answer func(string) any // by what is asked: an error, the metadata, or the selector
}

// newScaleAPI serves kinds Thing and Other in the given versions, best first.
func newScaleAPI(answer func(asked string) any, versions ...string) *scaleAPI {
	a := &scaleAPI{answer: answer, clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	var served []schema.GroupVersion
	for _, v := range versions {
		served = append(served, schema.GroupVersion{Group: "example.com", Version: v})
	}
	mapper := meta.NewDefaultRESTMapper(served)
	for _, gv := range served {
		mapper.Add(gv.WithKind("Thing"), meta.RESTScopeNamespace)
		mapper.Add(gv.WithKind("Other"), meta.RESTScopeNamespace)
	}
	a.Client = fake.NewClientBuilder().WithRESTMapper(mapper).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceGet: func(_ context.Context, _ client.Client, _ string, o client.Object, into client.Object, _ ...client.SubResourceGetOption) error {
			asked := o.GetObjectKind().GroupVersionKind().Version + " " + o.GetName()
			a.mu.Lock()
			a.asked = append(a.asked, asked)
			answer := a.answer
			a.mu.Unlock()
			switch x := answer(asked).(type) {
			case error:
				return x
			case map[string]any: // the metadata of one with selector app=web
				into.(*unstructured.Unstructured).Object = map[string]any{"metadata": x, "spec": map[string]any{"replicas": int64(3)}, "status": map[string]any{"selector": "app=web"}}
			case string:
				into.(*unstructured.Unstructured).Object = map[string]any{"spec": map[string]any{"replicas": int64(3)}, "status": map[string]any{"selector": x}}
			}
			return nil
		},
	}).Build()
	a.scales = NewScales(a.Client, a.clock, func() float64 { return 0.5 })
	return a
}

func (a *scaleAPI) answers(x any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = func(string) any { return x }
}

func (a *scaleAPI) reads() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

func thing(name string) Key {
	return Key{Namespace: "ns", APIVersion: "example.com/v1", Kind: "Thing", Name: name}
}

// look is what a look-up says in a word.
func (a *scaleAPI) look(t *testing.T, k Key, as purpose) string {
	t.Helper()
	c, found, err := a.scales.get(t.Context(), k, question{as: as})
	switch {
	case err != nil:
		return err.Error()
	case !found:
		return "none"
	case c.selector == nil:
		return "no selector"
	}
	return c.selector.String()
}

func always(x any) func(string) any { return func(string) any { return x } }

func TestScaleIsReadOnceAndRenewedBeforeItExpires(t *testing.T) {
	api := newScaleAPI(always("app=a"), "v1")
	for range 3 {
		require.Equal(t, "app=a", api.look(t, thing("t"), asTarget))
	}
	require.Equal(t, 1, api.reads())
	api.answers("app=b")
	api.clock.Step(15*time.Minute - scaleAhead - 1) // 10 minutes, and half of that for the jitter
	api.scales.refresh(t.Context())
	require.Equal(t, 1, api.reads())
	api.clock.Step(1)
	api.scales.refresh(t.Context())
	api.scales.refresh(t.Context())
	require.Equal(t, 2, api.reads(), "once, before the end")
	api.clock.Step(scaleAhead)
	require.Equal(t, "app=b", api.look(t, thing("t"), asTarget))
	require.Equal(t, 2, api.reads(), "nobody waits")
	api.clock.Step(20 * time.Minute)
	require.Equal(t, "app=b", api.look(t, thing("t"), asTarget))
	require.Equal(t, 3, api.reads(), "without the background it is as it was before: a look-up asks")
}

func TestUnusedScalesExpire(t *testing.T) {
	api := newScaleAPI(always("app=a"), "v1")
	api.look(t, thing("t"), asOwner)
	api.clock.Step(scaleForget)
	api.scales.refresh(t.Context())
	require.Equal(t, 2, api.reads())
	api.clock.Step(1)
	api.scales.refresh(t.Context())
	require.Empty(t, api.scales.entries)
	require.Equal(t, 2, api.reads())
}

func TestMissingScalesAreCached(t *testing.T) {
	tests := []struct {
		name   string
		answer any
		as     purpose
		want   string
		fresh  time.Duration
	}{
		{name: "an owner that cannot be scaled", answer: errGone, as: asOwner, want: "none", fresh: 15 * time.Minute},
		{name: "a target that does not exist may be made in a moment", answer: errGone, as: asTarget, want: "none", fresh: time.Minute},
		{name: "a target that has no selector may get one in a moment", answer: "", as: asTarget, want: "no selector", fresh: time.Minute},
		{name: "how many replicas there are is never old", answer: "app=a", as: asCount, want: "app=a", fresh: 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api := newScaleAPI(always(tt.answer), "v1")
			require.Equal(t, tt.want, api.look(t, thing("t"), tt.as))
			api.clock.Step(tt.fresh - 1)
			require.Equal(t, tt.want, api.look(t, thing("t"), tt.as))
			require.Equal(t, 1, api.reads())
			api.clock.Step(1)
			require.Equal(t, tt.want, api.look(t, thing("t"), tt.as))
			require.Equal(t, 2, api.reads())
		})
	}
	t.Run("an owner that becomes a target", func(t *testing.T) {
		api := newScaleAPI(always(errGone), "v1")
		require.Equal(t, "none", api.look(t, thing("t"), asOwner))
		api.clock.Step(time.Minute)
		api.answers("app=a")
		require.Equal(t, "none", api.look(t, thing("t"), asOwner))
		require.Equal(t, "app=a", api.look(t, thing("t"), asTarget))
	})
}

func TestFailuresAreRetriedWithBackOff(t *testing.T) {
	api := newScaleAPI(always(errBroken), "v1")
	const want = "reading the scale of example.com/v1.Thing/t in namespace ns: Internal error occurred: conversion failed"
	require.Equal(t, want, api.look(t, thing("t"), asTarget))
	for i, wait := range []time.Duration{10, 20, 40, 80, 120, 120} {
		api.clock.Step(wait*time.Second - 1)
		api.scales.refresh(t.Context())
		require.Equal(t, want, api.look(t, thing("t"), asTarget))
		require.Equal(t, i+1, api.reads())
		api.clock.Step(1)
		if i%2 == 0 { // the background and look-ups alike
			api.scales.refresh(t.Context())
		}
		require.Equal(t, want, api.look(t, thing("t"), asTarget))
		require.Equal(t, i+2, api.reads())
	}
	api.answers("app=a")
	api.clock.Step(scaleRetryMax)
	require.Equal(t, "app=a", api.look(t, thing("t"), asTarget))
	api.answers(errBroken)
	api.clock.Step(15*time.Minute - scaleAhead)
	api.scales.refresh(t.Context())
	require.Equal(t, "app=a", api.look(t, thing("t"), asTarget), "an answer counts to its end")
	api.clock.Step(scaleAhead)
	require.Equal(t, want, api.look(t, thing("t"), asTarget), "and no longer")
}

func TestHangingAPIIsAskedForOneObjectOnly(t *testing.T) {
	api := newScaleAPI(always(errSilent), "v1")
	require.ErrorContains(t, lookError(t, api, thing("a")), "Thing/a in namespace ns: connection refused")
	require.Equal(t, 1, api.reads())
	require.ErrorContains(t, lookError(t, api, thing("b")), "Thing/b in namespace ns: connection refused")
	api.scales.refresh(t.Context())
	require.Equal(t, 1, api.reads())
	other := thing("c")
	other.Kind = "Other"
	require.Error(t, lookError(t, api, other))
	require.Equal(t, 2, api.reads(), "another kind may have another server behind it")
	api.clock.Step(scaleRetry)
	api.scales.refresh(t.Context())
	require.Equal(t, 4, api.reads(), "one of each kind")
	api.clock.Step(2 * scaleRetry)
	api.answers("app=a")
	require.Equal(t, "app=a", api.look(t, thing("b"), asOwner))
	require.Equal(t, "app=a", api.look(t, thing("a"), asOwner))
}

func TestFailureAffectsItsObjectOnly(t *testing.T) {
	api := newScaleAPI(func(asked string) any {
		if asked == "v1 a" {
			return errBroken
		}
		return "app=b"
	}, "v1")
	require.ErrorContains(t, lookError(t, api, thing("a")), "conversion failed")
	require.Equal(t, "app=b", api.look(t, thing("b"), asTarget))
}

func lookError(t *testing.T, api *scaleAPI, k Key) error {
	t.Helper()
	_, _, err := api.scales.get(t.Context(), k, question{as: asTarget})
	return err
}

func TestAllVersionsAreTriedUntilOneAnswers(t *testing.T) {
	only := func(version string, x any) func(string) any {
		return func(asked string) any {
			if asked == version+" t" {
				return x
			}
			return errGone
		}
	}
	tests := []struct {
		name, apiVersion string
		served           []string
		answer           func(string) any
		want             string
		asked            []string
		permanent        bool
	}{
		{name: "the version that is named answers", apiVersion: "example.com/v1", served: []string{"v2", "v1"}, answer: always("app=a"), want: "app=a", asked: []string{"v1 t"}},
		{name: "the version that is named is not served", apiVersion: "example.com/v0", served: []string{"v2", "v1"}, answer: only("v2", "app=a"), want: "app=a", asked: []string{"v0 t", "v2 t"}},
		{name: "the version that is named has no scale", apiVersion: "example.com/v1", served: []string{"v1", "v2"}, answer: only("v2", "app=a"), want: "app=a", asked: []string{"v1 t", "v2 t"}},
		{name: "no version is named", apiVersion: "", served: []string{"v1"}, answer: always("app=a"), want: "none"},
		{name: "one fails and another answers", apiVersion: "example.com/v1", served: []string{"v1", "v2"}, want: "app=a", asked: []string{"v1 t", "v2 t"},
			answer: func(asked string) any {
				if asked == "v1 t" {
					return errBroken
				}
				return "app=a"
			}},
		{name: "one fails and none answers: unknown", apiVersion: "example.com/v1", served: []string{"v1", "v2"}, answer: only("v1", errBroken),
			want: "reading the scale of example.com/v1.Thing/t in namespace ns: Internal error occurred: conversion failed", asked: []string{"v1 t", "v2 t"}},
		{name: "none has it", apiVersion: "example.com/v1", served: []string{"v1", "v2"}, answer: always(errGone), want: "none", asked: []string{"v1 t", "v2 t"}},
		{name: "an unknown group", apiVersion: "elsewhere.org/v1", answer: always(errGone), want: "none", asked: []string{"v1 t"}},
		{name: "an apiVersion that is none", apiVersion: "a/b/c", answer: always(errGone), want: `apiVersion "a/b/c": unexpected GroupVersion string: a/b/c`, permanent: true},
		{name: "a selector that is none", apiVersion: "example.com/v1", served: []string{"v1"}, answer: always("a=b=c"), asked: []string{"v1 t"}, permanent: true,
			want: `reading the scale of example.com/v1.Thing/t in namespace ns: its selector is "a=b=c": found '=', expected: ',' or 'end of string'`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api := newScaleAPI(tt.answer, tt.served...)
			k := thing("t")
			k.APIVersion = tt.apiVersion
			for range 2 {
				require.Equal(t, tt.want, api.look(t, k, asOwner))
				require.Equal(t, tt.asked, api.asked, "what fails for good is remembered as an answer is")
			}
			v := vpaFor("v", "t", 0)
			v.Spec.TargetRef.APIVersion, v.Spec.TargetRef.Kind = k.APIVersion, k.Kind
			if _, why := (&Resolver{Client: api.Client, Scales: api.scales}).Selector(t.Context(), v); tt.permanent {
				require.False(t, why.Transient, "no grace for what does not end by itself")
			}
		})
	}
}

// UPSTREAM.md §2.4: a Node is never scalable, so nobody is asked.
func TestANodeIsNotAskedForItsScale(t *testing.T) {
	api := newScaleAPI(always("app=a"), "v1")
	r := &search{Resolver: &Resolver{Client: api.Client, Scales: api.scales}}
	_, found, err := r.get(t.Context(), Key{Namespace: "ns", APIVersion: "v1", Kind: "Node", Name: "n"}, question{as: asOwner})
	require.NoError(t, err)
	require.False(t, found)
	owned, _, err := r.above(t.Context(), thing("t"), controller{owners: podOf(owner("v1", "Node", "n", ptr.To(true))).OwnerReferences})
	require.NoError(t, err)
	require.Equal(t, thing("t"), owned)
	require.Zero(t, api.reads())
}

func TestConcurrentLookUpsShareOneRead(t *testing.T) {
	entered, leave := make(chan struct{}, 100), make(chan struct{})
	api := newScaleAPI(func(string) any {
		entered <- struct{}{}
		<-leave
		return "app=a"
	}, "v1")
	impatient, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, _, err := api.scales.get(impatient, thing("t"), question{as: asTarget})
		gone <- err
	}()
	<-entered
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			c, found, err := api.scales.get(t.Context(), thing("t"), question{as: asTarget})
			if err != nil || !found || c.selector.String() != "app=a" {
				t.Errorf("%v %v", found, err)
			}
		})
	}
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled, "who gives up waits no longer")
	close(leave)
	all.Wait()
	require.Equal(t, 1, api.reads(), "that one gave up is not the failure of others")
}

// Argo Rollouts with the blue/green strategy name the hash of the active ReplicaSet.
func TestASelectorOfOneRevisionSelectsThePodsOfAll(t *testing.T) {
	for selector, want := range map[string]string{
		"app=web,rollouts-pod-template-hash=5d8f":     "app=web",
		"app=web,pod-template-hash in (1, 2),tier":    "app=web,tier",
		"controller-revision-hash=web-7,app=web":      "app=web",
		"app=web,example.com/revision=4":              "app=web",
		"app=web,web-revision!=4":                     "app=web",
		"rollouts-pod-template-hash=5d8f":             "rollouts-pod-template-hash=5d8f",
		"app=web,hash=5d8f,revisions=2,version=green": "app=web,hash=5d8f,revisions=2,version=green",
		"app=pod-template-hash":                       "app=pod-template-hash",
	} {
		api := newScaleAPI(always(selector), "v1")
		require.Equal(t, want, api.look(t, thing("t"), asTarget), selector)
	}
}
