package updater

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/updater/actuation"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

// world is a cluster in memory that carries out evictions and resizes unless refuse returns an
// error.
type world struct {
	client.WithWatch
	t         *testing.T
	clock     *testclock.FakeClock
	namespace string // of what is added
	*Updater

	mu     sync.Mutex
	asked  []string // "evict NAME" and "resize NAME", in their order, carried out or not
	done   []string // those of them that were carried out
	events []string // "REASON of OBJECT: note"
	logs   []string
	made   int
	// refuse answers a request before it is carried out; nil = carry it out. ask is "evict",
	// "resize", "annotate" or "status".
	refuse func(ask, name string) error
	// tamper is what a mutating webhook does to resized pods; nil = nothing.
	tamper func(*corev1.Pod)
}

// compiledSets are the rule sets that tests have compiled: most options leave most of them as they are.
var compiledSets compile.Cache

var (
	plainBook   = sync.OnceValues(func() (*compile.Rulebook, error) { return policy.Load(policy.Options{Cache: &compiledSets}) })
	inPlaceBook = sync.OnceValues(func() (*compile.Rulebook, error) {
		return policy.Load(policy.Options{Cache: &compiledSets, Gates: map[string]bool{"InPlace": true}})
	})
	podLevelBook = sync.OnceValues(func() (*compile.Rulebook, error) {
		return policy.Load(policy.Options{Cache: &compiledSets, Gates: map[string]bool{"PodLevelResources": true}})
	})
)

func newWorld(t *testing.T, change func(*Options), gates ...string) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, vpav1.AddToScheme} { // the fewer the faster
		require.NoError(t, add(scheme))
	}
	w := &world{t: t, namespace: "ns", clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)), refuse: func(string, string) error { return nil }}
	w.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&vpav1.VerticalPodAutoscaler{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, object, of client.Object, _ ...client.SubResourceCreateOption) error {
			require.Equal(t, "eviction", sub)
			var pod corev1.Pod
			if err := w.ask(ctx, "evict", object.GetName()); err != nil {
				return err
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), &pod); err != nil {
				return err
			}
			if uid := of.(*policyv1.Eviction).DeleteOptions.Preconditions.UID; *uid != pod.UID {
				return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", *uid, pod.UID))
			}
			w.carriedOut("evict", pod.Name)
			return c.Delete(ctx, &pod)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if sub == "status" {
				if err := w.ask(ctx, "status", object.GetName()); err != nil {
					return err
				}
				return c.Status().Patch(ctx, object, patch, options...)
			}
			require.Equal(t, "resize", sub)
			if err := w.ask(ctx, "resize", object.GetName()); err != nil {
				return err
			}
			w.carriedOut("resize", object.GetName())
			if err := c.Patch(ctx, object, patch); err != nil {
				return err
			}
			if w.tamper != nil {
				w.tamper(object.(*corev1.Pod))
			}
			object.SetGeneration(object.GetGeneration() + 1) // as API servers do
			return c.Update(ctx, object)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := w.ask(ctx, "annotate", object.GetName()); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	book := plainBook
	switch strings.Join(gates, ",") {
	case "InPlace":
		book = inPlaceBook
	case "PodLevelResources":
		book = podLevelBook
	}
	rules, err := book()
	require.NoError(t, err)
	o := Options{
		Client: w, Actuator: actuation.Actuator{Client: w, Recorder: w}, Resolver: &target.Resolver{Client: w}, Rules: func() *compile.Rulebook { return rules },
		Clock: w.clock, Interval: time.Minute, Concurrent: 4,
		Log: funcr.New(func(_, args string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.logs = append(w.logs, args)
		}, funcr.Options{}),
	}
	if change != nil {
		change(&o)
	}
	o.Pods = func() []*corev1.Pod {
		var pods corev1.PodList
		require.NoError(t, o.Client.List(context.Background(), &pods))
		return pointersTo(pods.Items)
	}
	w.Updater = New(o)
	return w
}

// restart goes on with a process that remembers nothing.
func (w *world) restart() { w.Updater = New(w.Options) }

func pointersTo(pods []corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, len(pods))
	for i := range pods {
		out[i] = &pods[i]
	}
	return out
}

// withRules replaces the shipped rules.
func withRules(t *testing.T, rules policy.Options) func(*Options) {
	t.Helper()
	rules.Cache = &compiledSets
	book, err := policy.Load(rules)
	require.NoError(t, err)
	return func(o *Options) { o.Rules = func() *compile.Rulebook { return book } }
}

func (w *world) ask(ctx context.Context, what, name string) error {
	w.mu.Lock()
	refuse := w.refuse
	if what == "evict" || what == "resize" {
		w.asked = append(w.asked, what+" "+name)
	}
	w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("client rate limiter Wait returned an error: %w", err)
	}
	return refuse(what, name)
}

func (w *world) carriedOut(what, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, what+" "+name)
}

// Eventf implements events.EventRecorder.
func (w *world) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("%s of %s: %s", reason, regarding.(client.Object).GetName(), fmt.Sprintf(note, args...)))
}

// cycle runs one cycle and returns its requests.
func (w *world) cycle() []string {
	w.asked, w.done = nil, nil
	w.RunOnce(w.t.Context())
	return w.asked
}

// heard are the notes of events with a reason.
func (w *world) heard(reason string) (notes []string) {
	for _, e := range w.events {
		if strings.HasPrefix(e, reason+" ") {
			notes = append(notes, e)
		}
	}
	return notes
}

// workload adds a Deployment with a ReplicaSet, its pods, and a VPA that recommends 500m and 512Mi.
// The pods request 100m and 128Mi.
func (w *world) workload(name string, replicas int, mode vpav1.UpdateMode) {
	w.t.Helper()
	labels := map[string]string{"app": name}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(replicas)), Selector: selector}}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name + "-rs", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: name, Controller: ptr.To(true)}}},
		Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(replicas)), Selector: selector}}
	v := &vpav1.VerticalPodAutoscaler{}
	require.NoError(w.t, json.Unmarshal([]byte(`{"metadata":{"namespace":"`+w.namespace+`","name":"`+name+`","uid":"`+name+`-uid"},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"`+name+`"},"updatePolicy":{"updateMode":"`+string(mode)+`"}}}`), v))
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{
		ContainerName: "app", Target: amounts("500m", "512Mi"), LowerBound: amounts("400m", "400Mi"), UpperBound: amounts("1", "1Gi")}}}
	for _, object := range []client.Object{d, rs, v} {
		require.NoError(w.t, w.Create(w.t.Context(), object))
	}
	require.NoError(w.t, w.WithWatch.Status().Update(w.t.Context(), v))
	for range replicas {
		w.pod(name, nil)
	}
}

// pod adds a running pod to a workload, and returns its name.
func (w *world) pod(workload string, change func(*corev1.Pod)) string {
	w.t.Helper()
	w.made++
	name := fmt.Sprintf("%s-%02d", workload, w.made)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, UID: types.UID(name + "-uid"), Labels: map[string]string{"app": workload}, CreationTimestamp: metav1.NewTime(w.clock.Now()),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: workload + "-rs", Controller: ptr.To(true)}}}}
	p.Spec.NodeName = "node"
	p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: amounts("100m", "128Mi")}}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, StartTime: ptr.To(metav1.NewTime(w.clock.Now()))}
	if change != nil {
		change(p)
	}
	status := p.Status
	require.NoError(w.t, w.Create(w.t.Context(), p))
	p.Status = status
	require.NoError(w.t, w.WithWatch.Status().Update(w.t.Context(), p))
	return name
}

// refusing answers one kind of request with an error.
func (w *world) refusing(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = func(ask, _ string) error {
		if ask == what {
			return err
		}
		return nil
	}
}

// forbidden is a 403 of an API server about a pod, with a cause.
func forbidden(message string, cause metav1.CauseType) error {
	err := apierrors.NewForbidden(corev1.Resource("pods"), "web-01", fmt.Errorf("%s", message))
	if cause != "" {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return err
}

func budgetRefusal(needs int) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf("The disruption budget keep needs %d healthy pods and has %d currently", needs, needs)})
	return err
}

func sizeOf(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}
