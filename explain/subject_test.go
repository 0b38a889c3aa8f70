package explain

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func api(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, vpav1.AddToScheme(scheme))
	require.NoError(t, rulesv1alpha1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithIndex(&corev1.Event{}, "involvedObject.kind", func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Kind} }).
		WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Name} }).
		Build()
}

// TestTheNumberOfRequestsDoesNotGrow with the VPAs of the namespace.
func TestTheNumberOfRequestsDoesNotGrow(t *testing.T) {
	count := func(others int) (requests int) {
		objects := []client.Object{vpaOf("web", "Deployment", "web"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
		for i := range others {
			objects = append(objects, vpaOf(fmt.Sprintf("other-%d", i), "Deployment", fmt.Sprintf("other-%d", i)))
		}
		var counted atomic.Int32
		c := interceptor.NewClient(api(t, objects...).(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				counted.Add(1)
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				counted.Add(1)
				return c.List(ctx, list, opts...)
			},
		})
		r, err := Explain(t.Context(), Options{Client: c, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, Subject{Namespace: "shop", Name: "web"})
		require.NoError(t, err)
		require.Equal(t, "shop/web", r.VPA)
		return int(counted.Load())
	}
	few := count(0)
	require.Less(t, few, 12)
	require.Equal(t, few, count(300))
}

func vpaOf(name, kind, target string) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: kind, Name: target}
	return v
}

func owned(meta metav1.ObjectMeta, apiVersion, kind, name string) metav1.ObjectMeta {
	meta.Namespace = "shop"
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: ptr.To(true)}}
	return meta
}

func TestWhatIsAskedAbout(t *testing.T) {
	for args, want := range map[[2]string]Subject{
		{"web"}:               {Name: "web"},
		{"vpa/web"}:           {Kind: "VerticalPodAutoscaler", Name: "web"},
		{"pod", "web-1"}:      {Kind: "Pod", Name: "web-1"},
		{"deploy/web"}:        {Kind: "Deployment", Name: "web"},
		{"Deployment/web"}:    {Kind: "Deployment", Name: "web"},
		{"rollout", "canary"}: {Kind: "rollout", Name: "canary"},
		// as kubectl get -o name prints them
		{"deployment.apps/web"}:                          {Kind: "Deployment", Name: "web"},
		{"verticalpodautoscaler.autoscaling.k8s.io/web"}: {Kind: "VerticalPodAutoscaler", Name: "web"},
		{"rollout.argoproj.io/canary"}:                   {Kind: "rollout", Name: "canary"},
		{"replicationcontrollers", "old"}:                {Kind: "ReplicationController", Name: "old"},
	} {
		list := args[:1]
		if args[1] != "" {
			list = args[:]
		}
		got, err := ParseSubject("", list...)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, args := range [][]string{{"pod/"}, {"/web"}, {"a", "b/c"}, {"a", "b", "c"}, {""}} {
		_, err := ParseSubject("", args...)
		require.Error(t, err, "%q", args)
	}
}

func TestAVPAIsFoundByItsNameItsPodsAndItsTarget(t *testing.T) {
	elsewhere := vpaOf("web-vpa", "Deployment", "web")
	elsewhere.Namespace = "stage"
	c := api(t, vpaOf("web-vpa", "Deployment", "web"), elsewhere, vpaOf("inner", "ReplicaSet", "db-1"), vpaOf("only", "Rollout", "canary"),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{}}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}},
		&appsv1.ReplicaSet{ObjectMeta: owned(metav1.ObjectMeta{Name: "web-1"}, "apps/v1", "Deployment", "web")},
		&appsv1.ReplicaSet{ObjectMeta: owned(metav1.ObjectMeta{Name: "db-1"}, "apps/v1", "Deployment", "db"), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{}}},
		&corev1.Pod{ObjectMeta: owned(metav1.ObjectMeta{Name: "web-1-x"}, "apps/v1", "ReplicaSet", "web-1")},
		&corev1.Pod{ObjectMeta: owned(metav1.ObjectMeta{Name: "db-1-x"}, "apps/v1", "ReplicaSet", "db-1")},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bare"}})
	for ask, want := range map[Subject]string{
		{Namespace: "shop", Name: "web-vpa"}:                 "web-vpa",
		{Namespace: "shop", Name: "web"}:                     "web-vpa",
		{Namespace: "shop", Name: "web-1-x"}:                 "web-vpa",
		{Namespace: "shop", Kind: "Pod", Name: "web-1-x"}:    "web-vpa",
		{Namespace: "shop", Kind: "Deployment", Name: "web"}: "web-vpa",
		{Namespace: "shop", Kind: "rollout", Name: "canary"}: "only",
		{Name: "only"}:                 "only",
		{Kind: "Pod", Name: "web-1-x"}: "web-vpa",
	} {
		got, err := find(t.Context(), c, ask, nil, orderBy(nil))
		require.NoError(t, err, "%+v", ask)
		require.NotNil(t, got.vpa, "%+v: %s", ask, got.why)
		require.Equal(t, want, got.vpa.Name, "%+v", ask)
	}
	for ask, want := range map[Subject]string{
		{Namespace: "shop", Kind: "Pod", Name: "bare"}:   "no VerticalPodAutoscaler controls the pod: no controller owns it",
		{Namespace: "shop", Kind: "Pod", Name: "db-1-x"}: "VerticalPodAutoscaler shop/inner cannot be used: The target apps/v1.ReplicaSet/db-1 has a parent controller",
	} {
		got, err := find(t.Context(), c, ask, nil, orderBy(nil))
		require.NoError(t, err, "%+v", ask)
		require.Nil(t, got.vpa)
		require.Contains(t, got.why, want)
	}
	for ask, want := range map[Subject]string{
		{Namespace: "shop", Name: "wev-vpa"}:                             "is called shop/wev-vpa: did you mean web-vpa?",
		{Namespace: "shop", Kind: "VerticalPodAutoscaler", Name: "inne"}: "is called VerticalPodAutoscaler shop/inne: did you mean inner?",
		{Namespace: "shop", Name: "zzz"}:                                 "is called shop/zzz: there are the VerticalPodAutoscalers shop/inner, shop/only, shop/web-vpa",
		{Namespace: "shop", Kind: "StatefulSet", Name: "web"}:            "is called StatefulSet shop/web: there are the VerticalPodAutoscalers shop/inner, shop/only, shop/web-vpa",
		{Name: "web-vpa"}: "web-vpa is in namespaces shop, stage; choose one with -n",
	} {
		_, err := find(t.Context(), c, ask, nil, orderBy(nil))
		require.ErrorContains(t, err, want, "%+v", ask)
	}
}
