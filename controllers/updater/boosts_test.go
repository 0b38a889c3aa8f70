package updater

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// boostLab is a Boosts with an API server of its own, which takes resizes and does nothing about them.
type boostLab struct {
	*Boosts
	t      *testing.T
	clock  *testclock.FakeClock
	events *events.FakeRecorder
	pods   *controllertest.FakeInformer
	vpas   *controllertest.FakeInformer

	mu      sync.Mutex
	resized []string               // what was sent
	marked  []string               // what was done to annotations
	onSent  func(pod string) error // before it is taken
}

// newBoostLab has ReplicaSet web of some replicas and objects.
func newBoostLab(t *testing.T, replicas int32, objects ...client.Object) *boostLab {
	t.Helper()
	return boostLabWith(t, interceptor.Funcs{}, replicas, objects...)
}

func boostLabWith(t *testing.T, hooks interceptor.Funcs, replicas int32, objects ...client.Object) *boostLab {
	t.Helper()
	l := &boostLab{t: t, clock: testclock.NewFakeClock(boostNow), events: events.NewFakeRecorder(100)}
	hooks.SubResourcePatch = func(_ context.Context, _ client.Client, sub string, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
		require.Equal(t, "resize", sub)
		if l.onSent != nil {
			if err := l.onSent(o.GetName()); err != nil {
				return err
			}
		}
		body, err := patch.Data(o)
		require.NoError(t, err)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.resized = append(l.resized, o.GetName()+" "+requestsIn(t, body))
		return nil
	}
	hooks.Patch = func(_ context.Context, _ client.WithWatch, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
		body, err := patch.Data(o)
		require.NoError(t, err)
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, one := range rawOperations(t, body) {
			var op struct{ Op, Path string }
			require.NoError(t, json.Unmarshal(one, &op))
			l.marked = append(l.marked, op.Op+" "+strings.TrimPrefix(op.Path, "/metadata/annotations/"))
		}
		return nil
	}
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, vpav1.AddToScheme(scheme))
	web := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(web).WithObjects(objects...).WithInterceptorFuncs(hooks).
		WithIndex(&corev1.Pod{}, podOwnerIndex, ownersOf).WithIndex(&corev1.Pod{}, podBoostedIndex, boosted).Build()
	informers := &informertest.FakeInformers{Scheme: scheme}
	var err error
	l.pods, err = informers.FakeInformerFor(t.Context(), &corev1.Pod{})
	require.NoError(t, err)
	l.vpas, err = informers.FakeInformerFor(t.Context(), &vpav1.VerticalPodAutoscaler{})
	require.NoError(t, err)
	l.Boosts = &Boosts{
		Cache: informers, Client: store, Actuator: Actuator{Client: store, Recorder: l.events}, Resolver: &target.Resolver{Client: store},
		Rules:   func() *compile.Rulebook { book, err := boostRules(); require.NoError(t, err); return book },
		Shadows: &policy.Shadows{Component: "updater", Recorder: l.events, Clock: l.clock, Log: logr.Discard()},
		Clock:   l.clock, Log: logr.Discard(), Workers: 1,
	}
	return l
}

// requestsIn is what a patch says of requests, as "container cpu/memory".
func requestsIn(t *testing.T, body []byte) string {
	t.Helper()
	var ops []struct{ Path, Value string }
	for _, one := range rawOperations(t, body) {
		var op struct{ Path, Value string }
		if json.Unmarshal(one, &op) == nil && strings.Contains(op.Path, "/requests/") {
			ops = append(ops, op)
		}
	}
	var out []string
	for _, op := range ops {
		parts := strings.Split(op.Path, "/") // spec, containers, 0, resources, requests, cpu
		out = append(out, parts[3]+"."+parts[6]+"="+op.Value)
	}
	return strings.Join(out, " ")
}

// rawOperations are those of a patch after the one that names the pod by its UID.
func rawOperations(t *testing.T, body []byte) (out []json.RawMessage) {
	t.Helper()
	require.NoError(t, json.Unmarshal(body, &out))
	require.Contains(t, string(out[0]), `{"op":"test","path":"/metadata/uid"`)
	return out[1:]
}

func (l *boostLab) sentSoFar() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.resized...)
}

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Namespace: "ns", Name: name} }

// webPod is a pod of ReplicaSet web that has been ready for some time, and whose CPU was raised from 100m to 300m.
func webPod(t *testing.T, name string, ready time.Duration, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := boostPod(t, ready, boostedOne, map[string]string{"a": beforeOne})
	pod.Name, pod.UID, pod.Labels = name, types.UID(name), map[string]string{"app": "web"}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: ptr.To(true)}}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// webVPA is a VPA of ReplicaSet web; more is put into its spec.
func webVPA(t *testing.T, more string) *vpav1.VerticalPodAutoscaler {
	t.Helper()
	v := boostVPA(t, `{"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web"}`+more+`},`+target150+`}`)
	v.Generation = 1
	return v
}

func sixty(t *testing.T) *vpav1.VerticalPodAutoscaler { return webVPA(t, ","+boost60) }

func deferred(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred})
}

func inProgress(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue})
}

func TestABoostThatIsOverIsEnded(t *testing.T) {
	v := sixty(t)
	v.Name = "ended"
	l := newBoostLab(t, 1, v, webPod(t, "p", time.Hour))
	turns := 0
	l.Turn = func(context.Context) error { turns++; return nil }
	ended := func() float64 { return testutil.ToFloat64(resizedPods.WithLabelValues("0", "ended", "ns")) }
	before := ended()
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, []string{"p 0.cpu=150m"}, l.resized, "memory is the updater's")
	require.Equal(t, []string{"add vpaUpdates", "add vpaInPlaceUpdated", "remove vpaCpuStartupBoost~1a"}, l.marked)
	require.Equal(t, 1, turns)
	require.Contains(t, <-l.events.Events, "InPlaceResizedByVPA")
	require.InDelta(t, before+1, ended(), 0)
}

func TestWhenAPodWithAStartupBoostIsLookedAtAgain(t *testing.T) {
	pinned := sixty(t)
	pinned.Annotations = map[string]string{policy.AnnotationPipeline: "nobody-knows@1.0.0"}
	unreadable := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if vpas, ok := list.(*vpav1.VerticalPodAutoscalerList); ok {
			for i := range vpas.Items {
				vpas.Items[i].SpecUnreadable = "minReplicas is no number"
			}
		}
		return err
	}}
	other := sixty(t)
	other.Spec.TargetRef.Name = "other"
	in := func(mode string) *vpav1.VerticalPodAutoscaler {
		return webVPA(t, `,"updatePolicy":{"updateMode":"`+mode+`"},`+boost60)
	}
	fails := func(what string) interceptor.Funcs {
		return interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, pod := o.(*corev1.Pod); pod && what == "pod" {
					return errors.New("no answer")
				}
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if strings.Contains(fmt.Sprintf("%T", list), what) {
					return errors.New("no answer")
				}
				return c.List(ctx, list, opts...)
			},
		}
	}
	const replicas = 3
	for name, tt := range map[string]struct {
		hooks interceptor.Funcs
		vpa   *vpav1.VerticalPodAutoscaler
		pods  []*corev1.Pod // the first is looked at
		only  string        // namespace that is served
		want  again
		sent  bool
	}{
		"when the boost is over":                  {pods: []*corev1.Pod{webPod(t, "p", 20*time.Second)}, want: again{after: 40*time.Second + boostSlack}},
		"soon at the very moment":                 {pods: []*corev1.Pod{webPod(t, "p", 60*time.Second)}, want: again{backOff: true}},
		"when the end has settled":                {want: again{after: time.Minute}, sent: true},
		"as in any mode: Off":                     {vpa: in("Off"), want: again{after: time.Minute}, sent: true},
		"as in any mode: Initial":                 {vpa: in("Initial"), want: again{after: time.Minute}, sent: true},
		"as in any mode: InPlace, gate off":       {vpa: in("InPlace"), want: again{after: time.Minute}, sent: true},
		"also where the VPA boosts no more":       {vpa: webVPA(t, ""), want: again{after: time.Minute}, sent: true},
		"while others wait on their nodes":        {pods: []*corev1.Pod{webPod(t, "p", time.Hour), webPod(t, "q", time.Hour, deferred), webPod(t, "r", time.Hour, deferred)}, want: again{after: time.Minute}, sent: true},
		"ever later while others are resized":     {pods: []*corev1.Pod{webPod(t, "p", time.Hour), webPod(t, "q", time.Hour, inProgress), webPod(t, "r", time.Hour)}, want: again{backOff: true}},
		"ever later while others are missing":     {pods: []*corev1.Pod{webPod(t, "p", time.Hour)}, want: again{backOff: true}},
		"ever later while it is being resized":    {pods: []*corev1.Pod{webPod(t, "p", time.Hour, inProgress)}, want: again{backOff: true}},
		"never when it is gone":                   {pods: []*corev1.Pod{webPod(t, "q", time.Hour)}},
		"never when it is not ready":              {pods: []*corev1.Pod{webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.Status.Conditions = nil })}},
		"never when it terminates":                {pods: []*corev1.Pod{webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.Now()), []string{"x/y"} })}},
		"never when it has finished":              {pods: []*corev1.Pod{webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}},
		"never when it is not boosted":            {pods: []*corev1.Pod{webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.Annotations = nil })}},
		"never in a namespace of others":          {only: "theirs"},
		"never when its rules cannot be used":     {vpa: pinned},
		"a few times when it has no VPA":          {vpa: other, want: again{backOff: true, aFew: true}},
		"a few times when the VPA is unreadable":  {hooks: unreadable, want: again{backOff: true, aFew: true}},
		"a few times when nothing owns it":        {pods: []*corev1.Pod{webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.OwnerReferences = nil })}, want: again{backOff: true, aFew: true}},
		"ever later when it cannot be read":       {hooks: fails("pod"), want: again{backOff: true}},
		"ever later when VPAs cannot be listed":   {hooks: fails("VerticalPodAutoscalerList"), want: again{backOff: true}},
		"ever later when limits cannot be listed": {hooks: fails("LimitRangeList"), want: again{backOff: true}},
		"ever later when pods cannot be listed":   {hooks: fails("PodList"), want: again{backOff: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.vpa == nil {
				tt.vpa = sixty(t)
			}
			if tt.pods == nil {
				tt.pods = []*corev1.Pod{webPod(t, "p", time.Hour), webPod(t, "q", time.Hour), webPod(t, "r", time.Hour)}
			}
			objects := []client.Object{tt.vpa}
			for _, pod := range tt.pods {
				objects = append(objects, pod)
			}
			l := boostLabWith(t, tt.hooks, replicas, objects...)
			l.Namespaces.Only = tt.only
			require.Equal(t, tt.want, l.look(t.Context(), keyOf("p")))
			require.Equal(t, tt.sent, len(l.resized) > 0)
		})
	}
}

// Nobody answered: the resize may have been carried out, so its place in the budget is taken until the cache shows that, or should have.
func TestTheEndOfABoostThatNobodyAnsweredIsWaitedFor(t *testing.T) {
	l := newBoostLab(t, 2, sixty(t), webPod(t, "p", time.Hour), webPod(t, "q", time.Hour))
	l.onSent = func(string) error { return context.DeadlineExceeded }
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("p")))
	l.onSent = nil
	l.look(t.Context(), keyOf("p"))
	l.look(t.Context(), keyOf("q"))
	require.Empty(t, l.resized)
	l.clock.Step(boostSettles)
	l.look(t.Context(), keyOf("p"))
	require.Equal(t, []string{"p 0.cpu=150m"}, l.resized)
}

// A pod whose containers are boosted for different times is resized as each of them is over.
func TestTheBoostsOfOnePodEndOneByOne(t *testing.T) {
	pod := webPod(t, "p", 30*time.Second)
	pod.Spec.Containers = append(pod.Spec.Containers, *pod.Spec.Containers[0].DeepCopy())
	pod.Spec.Containers[1].Name = "b"
	pod.Annotations[facts.AnnotationStartupBoost+"b"] = beforeOne
	v := webVPA(t, `,"resourcePolicy":{"containerPolicies":[{"containerName":"a","startupBoost":{"cpu":{"type":"Factor","factor":3,"durationSeconds":10}}}]},`+boost60)
	l := newBoostLab(t, 1, v, pod)
	require.Equal(t, again{after: 30*time.Second + boostSlack}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, []string{"p 0.cpu=150m"}, l.resized)
	require.Equal(t, []string{"add vpaUpdates", "add vpaInPlaceUpdated", "remove vpaCpuStartupBoost~1a"}, l.marked)
}

// Regression: with more memory than its node had, or a memory limit below what it used, all of the resize that was to end a boost was
// never carried out, and the pod kept its CPU for ever.
func TestABoostEndsAlsoWhereMemoryCannotBeResized(t *testing.T) {
	has := func(memory string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			c := &pod.Spec.Containers[0]
			granted := c.Resources.DeepCopy()
			granted.Requests["memory"], granted.Limits["memory"] = resource.MustParse(memory), resource.MustParse(memory)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Resources: granted}}
		}
	}
	asks := func(memory string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			list := &pod.Spec.Containers[0].Resources
			list.Requests["memory"], list.Limits["memory"] = resource.MustParse(memory), resource.MustParse(memory)
		}
	}
	says := func(kind corev1.PodConditionType, reason string, ago time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(boostNow.Add(-ago))})
		}
	}
	for name, tt := range map[string]struct {
		change []func(*corev1.Pod)
		want   []string
	}{
		"less of all with a limit that stays": {change: []func(*corev1.Pod){func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("200Mi")
			delete(pod.Spec.Containers[0].Resources.Limits, "memory")
		}}, want: []string{"p 0.cpu=150m 0.memory=128Mi"}},
		"more memory":                              {want: []string{"p 0.cpu=150m"}},
		"a lower memory limit":                     {change: []func(*corev1.Pod){asks("1Gi")}, want: []string{"p 0.cpu=150m"}},
		"a deferred resize for memory":             {change: []func(*corev1.Pod){has("200Mi"), asks("1Gi"), says(corev1.PodResizePending, corev1.PodReasonDeferred, 6*time.Minute)}, want: []string{"p 0.cpu=150m 0.memory=200Mi"}},
		"a resize for memory that fails":           {change: []func(*corev1.Pod){has("200Mi"), asks("100Mi"), says(corev1.PodResizeInProgress, corev1.PodReasonError, 0)}, want: []string{"p 0.cpu=150m 0.memory=200Mi"}},
		"a resize that was deferred only just now": {change: []func(*corev1.Pod){has("200Mi"), asks("1Gi"), says(corev1.PodResizePending, corev1.PodReasonDeferred, time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newBoostLab(t, 1, sixty(t), webPod(t, "p", time.Hour, tt.change...))
			l.look(t.Context(), keyOf("p"))
			require.Equal(t, tt.want, l.resized)
		})
	}
}

// Nobody knows what to give back, and nothing is recommended. The pod is as others from now on.
func TestABoostOfWhichTheNoteCannotBeReadEndsWithoutAResize(t *testing.T) {
	v := sixty(t)
	v.Status.Recommendation = nil
	l := newBoostLab(t, 1, v, webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.Annotations[facts.AnnotationStartupBoost+"a"] = "{" }))
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Empty(t, l.resized)
	require.Contains(t, l.marked, "remove vpaCpuStartupBoost~1a")
}

func TestABoostThatCannotBeEndedIsTriedAgain(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	for name, tt := range map[string]struct {
		turn, sent error
		want       again
		failed     float64
	}{
		"refused":          {sent: forbidden("exceeded quota: q", ""), want: again{backOff: true}, failed: 1},
		"gone":             {sent: gone, want: again{backOff: true, aFew: true}},
		"not its turn yet": {turn: context.Canceled, want: again{backOff: true}},
	} {
		t.Run(name, func(t *testing.T) {
			v := sixty(t)
			v.Name = strings.ReplaceAll(name, " ", "-")
			l := newBoostLab(t, 1, v, webPod(t, "p", time.Hour))
			l.Turn = func(context.Context) error { return tt.turn }
			l.onSent = func(string) error { return tt.sent }
			failed := func() float64 {
				return testutil.ToFloat64(failedResizes.WithLabelValues("0", v.Name, "ns", "UnboostError"))
			}
			before := failed()
			require.Equal(t, tt.want, l.look(t.Context(), keyOf("p")))
			require.InDelta(t, before+tt.failed, failed(), 0)
			require.Empty(t, l.resized)
			l.Turn, l.onSent = nil, nil
			require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")), "nothing of the first try is left")
			require.Len(t, l.resized, 1)
		})
	}
}

// While a resize is on its way, the pod beside it must not take its place in the budget.
func TestWorkersDoNotOverdrawTheBudget(t *testing.T) {
	l := newBoostLab(t, 2, sixty(t), webPod(t, "p", time.Hour), webPod(t, "q", time.Hour))
	var beside again
	l.onSent = func(pod string) error {
		if pod == "p" {
			beside = l.look(t.Context(), keyOf("q"))
		}
		return nil
	}
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, again{backOff: true}, beside)
	require.Equal(t, []string{"p 0.cpu=150m"}, l.resized)
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("q")), "the cache does not know of the resize yet")

	var p corev1.Pod
	require.NoError(t, l.Client.Get(t.Context(), keyOf("p"), &p))
	delete(p.Annotations, facts.AnnotationStartupBoost+"a")
	require.NoError(t, l.Client.Update(t.Context(), &p))
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("q")), "the resize is done")
}

// A cache that lags behind would have the same resize sent twice.
func TestAPodIsNotResizedAgainBeforeTheCacheKnows(t *testing.T) {
	l := newBoostLab(t, 1, sixty(t), webPod(t, "p", time.Hour))
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("p")))
	var p corev1.Pod
	require.NoError(t, l.Client.Get(t.Context(), keyOf("p"), &p))
	p.Generation++ // the resize has come, and its annotation is still to be taken off
	require.NoError(t, l.Client.Update(t.Context(), &p))
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("p")))
	require.Len(t, l.resized, 1)
	l.clock.Step(time.Minute)
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")), "its annotation is still there")
	require.Len(t, l.resized, 2)
}

// While a pod waits for its turn, another one of its name may have come, whose boost has just begun.
func TestTheBoostOfASuccessorIsNotEnded(t *testing.T) {
	l := newBoostLab(t, 1, sixty(t), webPod(t, "p", time.Hour))
	l.Turn = func(ctx context.Context) error {
		require.NoError(t, l.Client.Delete(ctx, webPod(t, "p", 0)))
		return l.Client.Create(ctx, webPod(t, "p", 0, func(p *corev1.Pod) { p.UID = "another" }))
	}
	require.Equal(t, again{backOff: true, aFew: true}, l.look(t.Context(), keyOf("p")))
	require.Empty(t, l.resized)
	l.Turn = nil
	require.Equal(t, again{after: 60*time.Second + boostSlack}, l.look(t.Context(), keyOf("p")))
}

// However long a pod waits for its turn, its place in the budget is its own.
func TestAPodKeepsItsPlaceWhileItWaitsForItsTurn(t *testing.T) {
	l := newBoostLab(t, 2, sixty(t), webPod(t, "p", time.Hour), webPod(t, "q", time.Hour))
	var beside again
	l.Turn = func(ctx context.Context) error {
		l.Turn = nil
		l.clock.Step(time.Hour)
		beside = l.look(ctx, keyOf("q"))
		return nil
	}
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, again{backOff: true}, beside)
}

// The updater's cycle may have evicted or resized a pod beside it a moment ago.
func TestBoostsEndWithinTheBudgetThatTheCycleLeaves(t *testing.T) {
	l := newBoostLab(t, 2, sixty(t), webPod(t, "p", time.Hour), webPod(t, "q", time.Hour))
	busy := true
	l.Beside = func(pod *corev1.Pod) bool { return busy && pod.Name == "q" }
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("p")))
	require.Empty(t, l.sentSoFar())
	busy = false
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	var p, q corev1.Pod
	require.NoError(t, l.Client.Get(t.Context(), keyOf("p"), &p))
	require.NoError(t, l.Client.Get(t.Context(), keyOf("q"), &q))
	require.True(t, l.Ending(&p), "which the cycle asks")
	require.False(t, l.Ending(&q))
}

// What fails because the process ends is no fault of anybody.
func TestTheEndOfTheProcessFailsNoBoost(t *testing.T) {
	v := sixty(t)
	v.Name = "stopped"
	l := newBoostLab(t, 1, v, webPod(t, "p", time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	l.onSent = func(string) error { cancel(); return context.Canceled }
	require.Equal(t, again{}, l.look(ctx, keyOf("p")))
	require.InDelta(t, 0, testutil.ToFloat64(failedResizes.WithLabelValues("0", "stopped", "ns", "UnboostError")), 0)
}

// A panic about one pod must not end the worker.
func TestAPanicStaysWithItsPod(t *testing.T) {
	l := newBoostLab(t, 1, sixty(t), webPod(t, "p", time.Hour))
	l.Turn = func(context.Context) error { panic("oh") }
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("p")))
}

// Without a VPA a pod is looked at once and five times again, ever later; then no more.
func TestAPodWithoutAVPAIsDropped(t *testing.T) {
	l := newBoostLab(t, 1, webPod(t, "p", time.Hour))
	queue := l.queue()
	defer queue.ShutDown()
	queue.Add(keyOf("p"))
	for times := 1; times <= boostFew; times++ {
		require.True(t, l.next(t.Context(), queue))
		require.Equal(t, times, queue.NumRequeues(keyOf("p")))
		l.clock.Step(boostBackOff << (times - 1))
	}
	require.True(t, l.next(t.Context(), queue))
	require.Zero(t, queue.NumRequeues(keyOf("p")))
	require.Zero(t, queue.Len())

	require.NoError(t, l.Client.Create(t.Context(), sixty(t)))
	queue.Add(keyOf("p"))
	require.True(t, l.next(t.Context(), queue))
	require.Len(t, l.resized, 1)
}

// work runs it until the test ends.
func (l *boostLab) work() {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Start(ctx) }()
	l.t.Cleanup(func() {
		cancel()
		require.NoError(l.t, <-done)
	})
	// The queue has two tickers of its own, of which one may not be there yet.
	l.eventually("the round", func() bool { return l.clock.Waiters() >= 2 })
}

func (l *boostLab) eventually(what string, is func() bool) {
	l.t.Helper()
	require.Eventually(l.t, is, 10*time.Second, time.Millisecond, what)
}

func (l *boostLab) eventuallySent(n int, why string) {
	l.t.Helper()
	l.eventually(why, func() bool { return len(l.sentSoFar()) == n })
}

func TestPodsAreLookedAtWhenSomethingHappens(t *testing.T) {
	v := sixty(t)
	p := webPod(t, "p", 20*time.Second)
	for name, happens := range map[string]func(l *boostLab){
		"a pod is there at the start, and its boost ends later": func(l *boostLab) {
			looked := make(chan struct{}, 10)
			l.Turn = func(context.Context) error { looked <- struct{}{}; return nil }
			l.pods.Add(p)
			l.eventually("to be waited for", func() bool { l.clock.Step(boostSlack); return len(looked) > 0 })
		},
		"a pod is ready": func(l *boostLab) {
			l.clock.Step(time.Hour)
			before := p.DeepCopy()
			before.Status.Conditions = nil
			l.pods.Update(before, p)
		},
		"the VPA has another boost": func(l *boostLab) {
			l.clock.Step(time.Minute)
			now := v.DeepCopy()
			now.Generation++
			l.vpas.Update(v, now)
		},
		"the VPA has other rules": func(l *boostLab) {
			l.clock.Step(time.Minute)
			now := v.DeepCopy()
			now.Labels = map[string]string{"tier": "gold"}
			l.vpas.Update(v, now)
		},
		"there is another VPA": func(l *boostLab) {
			l.clock.Step(time.Minute)
			l.vpas.Add(v)
		},
		"ten minutes have passed": func(l *boostLab) { l.clock.Step(boostRound) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newBoostLab(t, 1, v, p)
			l.work()
			happens(l)
			l.eventuallySent(1, name)
		})
	}
}

// What VPAs and pods tell all the time is no reason to look at anything.
func TestNothingIsQueuedForWhatDoesNotMatter(t *testing.T) {
	v := sixty(t)
	l := newBoostLab(t, 1, v, webPod(t, "p", time.Hour))
	queue := l.queue()
	defer queue.ShutDown()
	pods, vpas := l.podEvents(queue), l.vpaEvents(t.Context(), queue)
	now := v.DeepCopy()
	now.Status = vpav1.VerticalPodAutoscalerStatus{}
	vpas.OnUpdate(v, now)
	vpas.OnAdd(v, true)
	vpas.OnDelete(v)
	vpas.OnAdd(&corev1.Node{}, false)
	vpas.OnUpdate(&corev1.Node{}, v)
	plain := webPod(t, "q", time.Hour, func(p *corev1.Pod) { p.Annotations = nil })
	pods.OnAdd(plain, false)
	pods.OnUpdate(plain, webPod(t, "p", 0, func(p *corev1.Pod) { p.Status.Conditions = nil }))
	pods.OnDelete(webPod(t, "p", time.Hour))
	pods.OnAdd(&corev1.Node{}, true)
	elsewhere := sixty(t)
	elsewhere.Namespace = "elsewhere"
	vpas.OnAdd(elsewhere, false)
	require.Zero(t, queue.Len())
	pods.OnAdd(webPod(t, "p", time.Hour), true)
	require.Equal(t, 1, queue.Len())
}

// What cannot be listed is left to the next round.
func TestARoundThatCannotListChangesNothing(t *testing.T) {
	hooks := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return io.ErrUnexpectedEOF
	}}
	l := boostLabWith(t, hooks, 1, sixty(t), webPod(t, "p", time.Hour))
	queue := l.queue()
	defer queue.ShutDown()
	l.all(t.Context(), queue)
	require.Zero(t, queue.Len())
}

// Overlays that are not enforced are tried on boosts, too.
func TestWhatOverlaysWouldDoWithABoostIsTold(t *testing.T) {
	l := newBoostLab(t, 1, sixty(t), webPod(t, "p", time.Hour))
	off, err := policy.Load(policy.Options{Points: []string{facts.ContainerPolicy, facts.PodValidate, facts.PodAdmit, facts.PodFit, facts.PodResources, facts.PodPriority, facts.PodUnboost}}) // as an overlay that ends none
	require.NoError(t, err)
	chosen := compile.Selection{Plan: boostPlan(t), Shadows: []compile.Shadow{{Overlay: "later", Mode: "Audit", Plan: off.Default()}}}
	l.Turn = func(context.Context) error { return context.Canceled }
	pod := webPod(t, "p", time.Hour)
	require.Equal(t, again{backOff: true}, l.decide(t.Context(), pod, sixty(t), chosen, l.Log))
	require.Equal(t, "Normal RuleOverlayAudit RuleOverlay later (Audit) would change startup boosts: pod p: InPlaceCPU (unboost/boost-over-cpu-first) → Skip (unboost/gate-off)", <-l.events.Events)
}
