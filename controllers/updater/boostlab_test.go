package updater

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/updater/actuation"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// lab is what ends startup boosts, with an API server of its own, which accepts resizes and does not carry
// them out.
type lab struct {
	*Boosts
	Client client.Client
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

// newLab has ReplicaSet web with this many replicas, and objects.
func newLab(t *testing.T, replicas int32, objects ...client.Object) *lab {
	t.Helper()
	return labWith(t, interceptor.Funcs{}, replicas, objects...)
}

func labWith(t *testing.T, hooks interceptor.Funcs, replicas int32, objects ...client.Object) *lab {
	t.Helper()
	l := &lab{t: t, clock: testclock.NewFakeClock(noon), events: events.NewFakeRecorder(100)}
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
		for _, operation := range rawOperations(t, body) {
			var op struct{ Op, Path string }
			require.NoError(t, json.Unmarshal(operation, &op))
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
		WithIndex(&corev1.Pod{}, podOwnerIndex, ownersOf).WithIndex(&corev1.Pod{}, podBoostedIndex, boosted).
		WithIndex(&vpav1.VerticalPodAutoscaler{}, vpaTargetIndex, targetOf).Build()
	informers := &informertest.FakeInformers{Scheme: scheme}
	var err error
	l.pods, err = informers.FakeInformerFor(t.Context(), &corev1.Pod{})
	require.NoError(t, err)
	l.vpas, err = informers.FakeInformerFor(t.Context(), &vpav1.VerticalPodAutoscaler{})
	require.NoError(t, err)
	l.Client = store
	l.Boosts = New(Options{
		Client: store, Actuator: actuation.Actuator{Client: store, Recorder: l.events}, Resolver: &target.Resolver{Client: store},
		Rules:   func() *compile.Rulebook { book, err := shippedRules(); require.NoError(t, err); return book },
		Shadows: &policy.Shadows{Component: "updater", Recorder: l.events, Clock: l.clock, Log: logr.Discard()},
		Clock:   l.clock, Log: logr.Discard(),
	}).newBoosts(informers, 1)
	return l
}

// requestsIn is the requests in a patch, as "container cpu/memory".
func requestsIn(t *testing.T, body []byte) string {
	t.Helper()
	var ops []struct{ Path, Value string }
	for _, operation := range rawOperations(t, body) {
		var op struct{ Path, Value string }
		if json.Unmarshal(operation, &op) == nil && strings.Contains(op.Path, "/requests/") {
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

// rawOperations are the operations of a patch after the test of the pod's UID.
func rawOperations(t *testing.T, body []byte) (out []json.RawMessage) {
	t.Helper()
	require.NoError(t, json.Unmarshal(body, &out))
	require.Contains(t, string(out[0]), `{"op":"test","path":"/metadata/uid"`)
	return out[1:]
}

func (l *lab) sentSoFar() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.resized...)
}

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Namespace: "ns", Name: name} }

// webPod is a pod of ReplicaSet web that has been ready for some time, and whose CPU was raised
// from 100m to 300m.
func webPod(t *testing.T, name string, ready time.Duration, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := podOf(t, ready, boostedOne, map[string]string{"a": beforeOne})
	pod.Name, pod.UID, pod.Labels = name, types.UID(name), map[string]string{"app": "web"}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: ptr.To(true)}}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// webVPA is a VPA of ReplicaSet web; more is added to its spec.
func webVPA(t *testing.T, more string) *vpav1.VerticalPodAutoscaler {
	t.Helper()
	v := vpaOf(t, `{"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web"}`+more+`},`+target150+`}`)
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

// work runs the controller until the test ends.
func (l *lab) work() {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Start(ctx) }()
	l.t.Cleanup(func() {
		cancel()
		require.NoError(l.t, <-done)
	})
	// The queue has two tickers of its own, one of which may not exist yet.
	l.eventually("the round", func() bool { return l.clock.Waiters() >= 2 })
}

func (l *lab) eventually(what string, is func() bool) {
	l.t.Helper()
	hang.Until(l.t, is, what)
}

func (l *lab) eventuallySent(n int, why string) {
	l.t.Helper()
	l.eventually(why, func() bool { return len(l.sentSoFar()) == n })
}
