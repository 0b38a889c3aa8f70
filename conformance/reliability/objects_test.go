package reliability

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func clientcmdUser(token string) clientcmdapi.AuthInfo { return clientcmdapi.AuthInfo{Token: token} }

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		require.NoError(t, cluster.Create(t.Context(), o))
	}
}

// All pods of the tests use 400m and 300Mi, the middle of a histogram's bucket, now and in the days that checkpoints hold. So
// the recommendation is exact: the bucket's upper edge plus 15%.
const (
	usedMilli, usedBytes = 400, 300 << 20
	recommended          = "476m/380258472"
	little               = "100m/128Mi" // what most pods request at first
)

// history are three days of that usage.
func history() vpav1.VerticalPodAutoscalerCheckpointStatus {
	return harness.Remembered(3*24*60, time.Minute, func(int) int64 { return usedMilli }, func(int) int64 { return usedBytes })
}

// deployment has pods that request cpu and memory, given as "100m/128Mi".
func deployment(ns, app string, replicas int32, requests string) *appsv1.Deployment {
	labels := map[string]string{"app": app}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
				"usage/period-seconds": "60", "app.usage/cpu-low": "400m", "app.usage/cpu-high": "400m",
				"app.usage/memory-low": "300Mi", "app.usage/memory-high": "300Mi",
			}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10",
				Resources: corev1.ResourceRequirements{Requests: amounts(requests)}}}},
		},
	}}
}

func amounts(text string) corev1.ResourceList {
	var cpu, memory string
	for i := range text {
		if text[i] == '/' {
			cpu, memory = text[:i], text[i+1:]
		}
	}
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

// said is the notation of amounts.
func said(list corev1.ResourceList) string { return fmt.Sprintf("%s/%s", list.Cpu(), list.Memory()) }

func requestsOf(p *corev1.Pod) string { return said(p.Spec.Containers[0].Resources.Requests) }

// granted is what the node gives to a pod.
func granted(p *corev1.Pod) string {
	if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].Resources == nil {
		return ""
	}
	return said(p.Status.ContainerStatuses[0].Resources.Requests)
}

func vpa(ns, name string, mode vpav1.UpdateMode) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &mode}
	return v
}

// targetOf is the recommendation of a VPA; empty without one.
func targetOf(v *vpav1.VerticalPodAutoscaler) string {
	if r := v.Status.Recommendation; r != nil && len(r.ContainerRecommendations) == 1 {
		return said(r.ContainerRecommendations[0].Target)
	}
	return ""
}
