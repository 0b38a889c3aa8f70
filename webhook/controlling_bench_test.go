package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	fakesource "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/slim"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// cacheOf is a cache as the process has it, indexed, and filled with objects.
func cacheOf(tb testing.TB, objects ...client.Object) cache.Cache {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, vpav1.AddToScheme(scheme))
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk := range scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	kinds := append(target.WatchedKinds(), &vpav1.VerticalPodAutoscaler{}, &corev1.LimitRange{})
	sources := map[string]*fakesource.FakeControllerSource{}
	for _, kind := range kinds {
		sources[fmt.Sprintf("%T", kind)] = fakesource.NewFakeControllerSource()
	}
	for _, o := range objects {
		sources[fmt.Sprintf("%T", o)].Add(o)
	}
	out, err := cache.New(&rest.Config{Host: "http://127.0.0.1:1"}, cache.Options{
		HTTPClient: http.DefaultClient, Scheme: scheme, Mapper: mapper, ByObject: slim.ByObject(true),
		NewInformer: func(_ toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(sources[fmt.Sprintf("%T", kind)], kind, resync, indexers)
		},
	})
	require.NoError(tb, err)
	require.NoError(tb, IndexTargets(tb.Context(), out, false))
	for _, kind := range kinds {
		_, err := out.GetInformer(tb.Context(), kind, cache.BlockUntilSynced(false))
		require.NoError(tb, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = out.Start(ctx)
	}()
	tb.Cleanup(func() { cancel(); <-ended })
	require.True(tb, out.WaitForCacheSync(ctx))
	return out
}

// cached reads from a cache, and everything else from a client.
type cached struct {
	client.Client
	from client.Reader
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return c.from.Get(ctx, key, into, opts...)
}

func (c cached) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return c.from.List(ctx, into, opts...)
}

// benchedHandler serves a namespace with 500 Deployments, a VPA with a recommendation for each, and a LimitRange.
func benchedHandler(b *testing.B) *Handler {
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	objects := []client.Object{&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bounds"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Min: amounts("10m", "16Mi"), Max: amounts("2", "4Gi")}, {Type: corev1.LimitTypePod, Max: amounts("3", "5Gi")}}}}}
	for i := range 500 {
		name := fmt.Sprintf("web-%03d", i)
		labels := map[string]string{"app": name, "part-of": "shop"}
		selector := &metav1.LabelSelector{MatchLabels: labels}
		v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("vpa-" + name)}}
		v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
		v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: ptr.To(vpav1.UpdateModeInitial)}
		v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{ContainerName: "app", MaxAllowed: amounts("1", "2Gi")}}}
		v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{
			{ContainerName: "app", Target: amounts("600m", "900Mi")}, {ContainerName: "sidecar", Target: amounts("50m", "50Mi")}}}
		objects = append(objects, v,
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("deployment-" + name)}, Spec: appsv1.DeploymentSpec{Selector: selector}},
			&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name + "-1", UID: types.UID("replicaset-" + name), OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: types.UID("deployment-" + name), Controller: ptr.To(true)}}}, Spec: appsv1.ReplicaSetSpec{Selector: selector}})
	}
	book, err := policy.Load(policy.Options{})
	require.NoError(b, err)
	reader := cached{from: cacheOf(b, objects...)}
	return &Handler{Client: reader, Limits: &limitranges.Cache{Reader: reader}, Resolver: &target.Resolver{Client: reader, Scales: target.NewScales(reader, clock.RealClock{}, nil)},
		Rules: func() *compile.Rulebook { return book }, Log: logr.Discard(),
		Clock: clock.RealClock{}, Decisions: answers.NewLog(answers.LogOptions{Kept: answers.DefaultKept})}
}

// BenchmarkControllingVPA finds the VPA of a pod of a Deployment.
func BenchmarkControllingVPA(b *testing.B) {
	h := benchedHandler(b)
	book := h.Rules()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "web-250", "part-of": "shop", "pod-template-hash": "1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-250-1", UID: "replicaset-web-250", Controller: ptr.To(true)}}}}
	b.ReportAllocs()
	for b.Loop() {
		v, err := h.controllingVPA(b.Context(), admission.Request{}, book, pod)
		if err != nil || v == nil || v.Object.Name != "web-250" {
			b.Fatal(v, err)
		}
	}
}

// BenchmarkPod is all that a pod of a Deployment costs, but for HTTP: a review is read, a VPA found, and a patch made and written.
func BenchmarkPod(b *testing.B) {
	s := NewServer(ServerOptions{Timeout: 30 * time.Second, Clock: clock.RealClock{}, Log: logr.Discard(), Handler: benchedHandler(b)})
	body := strings.NewReplacer(`"namespace":"a"`, `"namespace":"ns"`, `"app":"web"`, `"app":"web-250","part-of":"shop"`, `"name":"web-5d4f8c7b9"`, `"name":"web-250-1"`,
		"6b1f9ee8-53c1-4d0c-8d19-1b7b3f7a1c11", "replicaset-web-250").Replace(podBody())
	b.ReportAllocs()
	for b.Loop() {
		w := serve(s, strings.NewReader(body), int64(len(body)))
		if !strings.Contains(w.Body.String(), `"patch":`) {
			b.Fatal(w.Body)
		}
	}
}
