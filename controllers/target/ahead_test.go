package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// lookahead is an Ahead at work, with an API server of scales.
type lookahead struct {
	*Ahead
	t      *testing.T
	api    *scaleAPI
	store  client.Client // of VPAs and well-known controllers
	events *controllertest.FakeInformer
}

func lookAhead(t *testing.T, answer func(string) any, hooks interceptor.Funcs, objects ...client.Object) *lookahead {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, vpav1.AddToScheme(scheme))
	l := &lookahead{t: t, api: newScaleAPI(answer, "v1")}
	l.store = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(hooks).Build()
	informers := &informertest.FakeInformers{Scheme: scheme}
	var err error
	l.events, err = informers.FakeInformerFor(t.Context(), &vpav1.VerticalPodAutoscaler{})
	require.NoError(t, err)
	l.Ahead = &Ahead{Cache: informers, Client: l.store, Resolver: &Resolver{Client: l.store, Scales: l.api.scales}, Clock: l.api.clock, Log: logr.Discard()}
	return l
}

// start runs it until the test ends.
func (l *lookahead) start() {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Start(ctx) }()
	l.t.Cleanup(func() {
		cancel()
		require.NoError(l.t, <-done)
	})
	hang.Until(l.t, func() bool { return l.api.clock.Waiters() == 2 }, "the ticker and the limit of the first round")
}

func (l *lookahead) eventually(what string, is func() bool) {
	l.t.Helper()
	hang.Until(l.t, is, what)
}

func (l *lookahead) asked() []string {
	l.api.mu.Lock()
	defer l.api.mu.Unlock()
	out := slices.Clone(l.api.asked)
	slices.Sort(out)
	return out
}

// TestTargetsAreInMemoryBeforePodsAreReviewed: when pods come, all is in memory.
func TestTargetsAreInMemoryBeforePodsAreReviewed(t *testing.T) {
	plain, owned := vpaFor("plain", "web", 0), vpaFor("owned", "api", 0)
	l := lookAhead(t, always("app=web"), interceptor.Funcs{}, vpaOfThing("t"), plain, owned,
		deployment("web"), deployment("api", controlledBy("example.com/v1", "Other", "app")))
	require.EqualError(t, l.Ready(), "waiting for the first lookup of all targets")
	l.start()
	l.eventually("to be ready", func() bool { return l.Ready() == nil })
	require.Equal(t, []string{"v1 app", "v1 t"}, l.asked(), "well-known kinds are in the cache")
	l.api.answers(errors.New("nobody may ask"))
	require.Equal(t, "mine", l.api.answerOf(t.Context(), review("t", "1")))
	require.Len(t, l.asked(), 2)
}

// That an owner above a target cannot be scaled is known of the very object, so no pod has to ask
// again.
func TestOwnersAboveTargetsStayInMemory(t *testing.T) {
	app := controlledBy("example.com/v1", "Other", "app")
	app.UID = "7"
	l := lookAhead(t, always(errGone), interceptor.Funcs{}, vpaFor("v", "api", 0), deployment("api", app))
	l.start()
	l.eventually("to be ready", func() bool { return l.Ready() == nil })
	reads := l.api.reads()
	top, err := l.Resolver.Top(t.Context(), podOf(controlledBy("apps/v1", "Deployment", "api")), nil)
	require.NoError(t, err)
	require.Equal(t, "api", top.Name)
	require.Equal(t, reads, l.api.reads())
}

func TestNewAndChangedVPAsAreLookedUpAtOnce(t *testing.T) {
	l := lookAhead(t, always("app=web"), interceptor.Funcs{})
	l.Namespaces.Ignored = []string{"ignored"}
	l.start()
	l.eventually("to be ready", func() bool { return l.Ready() == nil })

	v := vpaOfThing("t")
	require.NoError(t, l.store.Create(t.Context(), v))
	l.events.Add(v)
	l.eventually("the target of a new one", func() bool { return slices.Equal(l.asked(), []string{"v1 t"}) })

	changed := v.DeepCopy()
	changed.Spec.TargetRef.Name = "u"
	require.NoError(t, l.store.Update(t.Context(), changed))
	l.events.Update(v, changed)
	l.eventually("the new target", func() bool { return slices.Equal(l.asked(), []string{"v1 t", "v1 u"}) })

	for _, what := range []func(*vpav1.VerticalPodAutoscaler){
		func(v *vpav1.VerticalPodAutoscaler) { v.Namespace = "ignored" },
		func(v *vpav1.VerticalPodAutoscaler) { v.Spec.TargetRef = nil },
		func(v *vpav1.VerticalPodAutoscaler) { v.Name = "deleted-again" },
	} {
		other := vpaOfThing("elsewhere")
		other.Name = "other"
		what(other)
		if other.Name == "other" {
			require.NoError(t, l.store.Create(t.Context(), other))
		}
		l.events.Add(other)
	}
	last := vpaOfThing("z")
	last.Name = "last"
	require.NoError(t, l.store.Create(t.Context(), last))
	l.events.Add(last)
	l.eventually("the last one", func() bool { return slices.Contains(l.asked(), "v1 z") })
	require.Equal(t, []string{"v1 t", "v1 u", "v1 z"}, l.asked())
}

// A target may get an owner of a custom kind at any time.
func TestTargetsOfAllVPAsAreLookedUpPeriodically(t *testing.T) {
	d := deployment("web")
	l := lookAhead(t, always(errGone), interceptor.Funcs{}, vpaFor("v", "web", 0), d)
	l.start()
	l.eventually("to be ready", func() bool { return l.Ready() == nil })
	require.Empty(t, l.asked())
	d.OwnerReferences = append(d.OwnerReferences, controlledBy("example.com/v1", "Thing", "t"))
	require.NoError(t, l.store.Update(t.Context(), d))
	l.api.clock.Step(aheadInterval)
	l.eventually("the new owner", func() bool { return slices.Equal(l.asked(), []string{"v1 t"}) })
}

// TestHangingAPIServerDoesNotPreventReadiness, nor others from being looked up.
func TestHangingAPIServerDoesNotPreventReadiness(t *testing.T) {
	leave := make(chan struct{})
	other := vpaOfThing("o")
	other.Name, other.Spec.TargetRef.Kind = "other", "Other"
	l := lookAhead(t, func(asked string) any {
		if asked == "v1 t" {
			<-leave
		}
		return "app=web"
	}, interceptor.Funcs{}, vpaOfThing("t"), other)
	t.Cleanup(func() { close(leave) }) // after its end: Start does not wait for who does not answer
	l.start()
	l.eventually("both to be asked", func() bool { return slices.Equal(l.asked(), []string{"v1 o", "v1 t"}) })
	require.Error(t, l.Ready())
	l.api.clock.Step(aheadFirst)
	l.eventually("to be ready", func() bool { return l.Ready() == nil })
}

func TestFaultAffectsItsVPAOnly(t *testing.T) {
	l := lookAhead(t, always("app=web"), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if k.Name == "faulty" {
				panic("a fault")
			}
			if k.Name == "broken" {
				return errBroken
			}
			return c.Get(ctx, k, o, opts...)
		},
	}, func() (out []client.Object) {
		for i, name := range []string{"faulty", "broken", "good"} {
			v := vpaOfThing(fmt.Sprint("t", i))
			v.Name = name
			out = append(out, v)
		}
		return out
	}()...)
	l.start()
	l.eventually("to be ready", func() bool { return l.Ready() == nil })
	require.Equal(t, []string{"v1 t2"}, l.asked())
	require.False(t, l.NeedLeaderElection())
}

func TestVPAsThatCannotBeListedAreLookedUpLater(t *testing.T) {
	failures := make(chan error, 1)
	failures <- errBroken
	l := lookAhead(t, always("app=web"), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			select {
			case err := <-failures:
				return err
			default:
				return c.List(ctx, list)
			}
		},
	}, vpaOfThing("t"))
	l.start()
	l.eventually("to be ready: it is no reason not to start", func() bool { return l.Ready() == nil })
	l.api.clock.Step(aheadInterval)
	l.eventually("the next round", func() bool { return len(l.asked()) == 1 })
}

// TestHazard23TheBackgroundRunsInEveryReplicaAndEnds: UPSTREAM.md Appendix B 23.
func TestHazard23TheBackgroundRunsInEveryReplicaAndEnds(t *testing.T) {
	api := newScaleAPI(always("app=a"), "v1")
	require.False(t, api.scales.NeedLeaderElection())
	api.look(t, thing("t"), asOwner)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- api.scales.Start(ctx) }()
	hang.Until(t, api.clock.HasWaiters)
	api.clock.Step(15 * time.Minute)
	hang.Until(t, func() bool { return api.reads() == 2 })
	cancel()
	require.NoError(t, <-done)
}
