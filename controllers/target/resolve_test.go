package target

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	autoscalingv1 "k8s.io/api/autoscaling/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func owner(apiVersion, kind, name string, controller *bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, Controller: controller}
}

func deployment(name string, owners ...metav1.OwnerReference) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: owners},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
	}
}

func replicaSet(name, of string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{owner("apps/v1", "Deployment", of, ptr.To(true))}},
		Spec:       appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{}},
	}
}

func podOf(owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "web"}, OwnerReferences: owners}}
}

func vpaFor(name, target string, age time.Duration) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age))}}
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target}
	return v
}

// aimedAt is a VPA with a target of another kind.
func aimedAt(apiVersion, kind string) *vpav1.VerticalPodAutoscaler {
	v := vpaFor("v", "web", 0)
	v.Spec.TargetRef.APIVersion, v.Spec.TargetRef.Kind = apiVersion, kind
	return v
}

// resolver reads scales of custom kinds through scale; nil finds none.
func resolver(scale func(name string) error, objects ...client.Object) *Resolver {
	api := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceGet: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Object, _ ...client.SubResourceGetOption) error {
			if scale == nil {
				return apierrors.NewNotFound(appsv1.Resource("things"), o.GetName())
			}
			return scale(o.GetName())
		},
	}).Build()
	return &Resolver{Client: api}
}

// UPSTREAM.md Appendix B 4: an owner reference without controller must not be followed, nor crash
// anything.
func TestPodsWithoutAController(t *testing.T) {
	r := resolver(nil)
	for _, pod := range []*corev1.Pod{podOf(), podOf(owner("apps/v1", "ReplicaSet", "web-1", nil)), podOf(owner("v1", "Node", "n", ptr.To(true)))} {
		top, err := r.Topmost(t.Context(), pod)
		require.NoError(t, err)
		require.Nil(t, top)
	}
	_, err := r.Topmost(t.Context(), podOf(owner("apps/v1", "ReplicaSet", "gone", ptr.To(true))))
	require.ErrorContains(t, err, "ReplicaSet ns/gone does not exist")
}

func TestWhyATargetIsNotSupported(t *testing.T) {
	thing := owner("example.com/v1", "Thing", "t", ptr.To(true))
	tests := []struct {
		name      string
		scale     func(string) error
		object    *appsv1.Deployment
		v         *vpav1.VerticalPodAutoscaler
		message   string
		transient bool
	}{
		{name: "no target", v: &vpav1.VerticalPodAutoscaler{}, message: "targetRef not defined"},
		{name: "it does not exist", v: vpaFor("v", "web", 0), message: "Deployment ns/web does not exist"},
		{name: "its owner cannot be scaled: it is the topmost", object: deployment("web", thing), v: vpaFor("v", "web", 0)},
		{name: "its owner cannot be read: unknown", object: deployment("web", thing), v: vpaFor("v", "web", 0),
			scale: func(string) error { return apierrors.NewInternalError(context.DeadlineExceeded) }, message: "Error checking if target", transient: true},
		{name: "its owner can be scaled", object: deployment("web", thing), v: vpaFor("v", "web", 0),
			scale: func(string) error { return nil }, message: "has a parent controller"},
		{name: "it is another VPA", v: aimedAt("autoscaling.k8s.io/v1", "VerticalPodAutoscaler"), message: "VerticalPodAutoscaler"},
		{name: "it is an HPA", v: aimedAt("autoscaling/v2", "HorizontalPodAutoscaler"), message: "HorizontalPodAutoscaler"},
		{name: "it is of no kind at all", v: aimedAt("", ""), message: "web"},
		{name: "its name leads elsewhere", v: vpaFor("v", "../../kube-system/deployments/coredns", 0), message: "does not exist"},
		{name: "owners in a circle", object: deployment("web", owner("apps/v1", "Deployment", "web", ptr.To(true))), v: vpaFor("v", "web", 0),
			message: "form a cycle", transient: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var objects []client.Object
			if tt.object != nil {
				objects = append(objects, tt.object)
			}
			selector, why := resolver(tt.scale, objects...).Selector(t.Context(), tt.v)
			if tt.message == "" {
				require.Nil(t, why)
				require.Equal(t, "app=web", selector.String())
				return
			}
			require.NotNil(t, why)
			require.Contains(t, why.Message, tt.message)
			require.Equal(t, tt.transient, why.Transient)
		})
	}
}

// A target is looked for in the namespace of its VPA only.
func TestATargetOfAnotherNamespaceIsNone(t *testing.T) {
	elsewhere := deployment("web")
	elsewhere.Namespace = "other"
	selector, why := resolver(nil, elsewhere).Selector(t.Context(), vpaFor("v", "web", 0))
	require.Nil(t, selector)
	require.Contains(t, why.Message, "Deployment ns/web does not exist")
}

func TestNamespacesThatAreServed(t *testing.T) {
	require.True(t, Namespaces{}.Serve("a"))
	require.False(t, Namespaces{Only: "b"}.Serve("a"))
	require.False(t, Namespaces{Ignored: []string{"a"}}.Serve("a"))
	require.Empty(t, SplitNamespaces(""), "an empty flag names no namespace")
	require.Equal(t, []string{"a", "b"}, SplitNamespaces(" a,,b "))
}

func TestTemplateIsThatOfTheDirectOwner(t *testing.T) {
	web, web1 := deployment("web"), replicaSet("web-1", "web")
	web.Spec.Template.Spec.Containers = []corev1.Container{{Name: "newer"}}
	web1.UID, web1.Spec.Template.Spec.Containers = "u1", []corev1.Container{{Name: "app"}}
	r := resolver(nil, web, web1)
	by := func(apiVersion, kind, name string, uid types.UID) *corev1.Pod {
		pod := podOf(owner(apiVersion, kind, name, ptr.To(true)))
		pod.OwnerReferences[0].UID = uid
		return pod
	}
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want []corev1.Container
	}{
		"a ReplicaSet, not its Deployment":         {by("apps/v1", "ReplicaSet", "web-1", "u1"), []corev1.Container{{Name: "app"}}},
		"one of another life":                      {by("apps/v1", "ReplicaSet", "web-1", "u0"), nil},
		"one that is gone":                         {by("apps/v1", "ReplicaSet", "web-2", "u2"), nil},
		"a custom kind of the same name":           {by("apps.example.com/v1", "ReplicaSet", "web-1", "u1"), nil},
		"another custom kind":                      {by("example.com/v1", "Thing", "web-1", "u1"), nil},
		"no owner":                                 {podOf(), nil},
		"a Deployment, which makes no pods itself": {by("apps/v1", "Deployment", "web", ""), nil},
	} {
		got, err := r.Template(context.Background(), tt.pod)
		require.NoError(t, err, name)
		require.Equal(t, tt.want, got, name)
	}
}
