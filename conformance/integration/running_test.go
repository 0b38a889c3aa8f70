package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// podsOf are the pods of a workload that are not terminating.
func podsOf(t *testing.T, ns, app string) map[types.UID]corev1.Pod {
	t.Helper()
	out := pods(t, ns)
	for uid, p := range out {
		if p.Labels["app"] != app {
			delete(out, uid)
		}
	}
	return out
}

// deployed creates a Deployment with the pod spec given as YAML, and returns its pods once they run.
func deployed(t *testing.T, ns, app string, replicas int32, spec string) map[types.UID]corev1.Pod {
	t.Helper()
	create(t, deployment(t, ns, app, replicas, spec))
	return up(t, ns, app, int(replicas))
}

func deployment(t *testing.T, ns, app string, replicas int32, spec string) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": app}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(t, spec)},
	}}
	return d
}

// podSpec decodes a pod spec. Containers need no image.
func podSpec(t *testing.T, spec string) (out corev1.PodSpec) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &out), spec)
	for i := range out.Containers {
		out.Containers[i].Image = pauseImage
	}
	return out
}

// up waits until n pods of a workload run, and returns them.
func up(t *testing.T, ns, app string, count int) (out map[types.UID]corev1.Pod) {
	t.Helper()
	hang.Eventually(t, fmt.Sprintf("%d running pods of %s in %s", count, app, ns), func(context.Context) (bool, error) {
		n := 0
		out = podsOf(t, ns, app)
		for _, p := range out {
			if p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) == len(p.Spec.Containers) {
				n++
			}
		}
		return n == count && len(out) == count, nil
	})
	return out
}

// watchedOver creates a VPA with the name of its Deployment. The rest of the spec and the
// recommendation are YAML.
func watchedOver(t *testing.T, ns, app, spec, recommendation string) {
	t.Helper()
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &v.Spec), spec)
	if v.Spec.TargetRef == nil {
		v.Spec.TargetRef = crossVersion("apps/v1", "Deployment", app)
	}
	create(t, v)
	if recommendation != "" {
		recommendNow(t, ns, app, recommendation)
	}
}

// recommendNow writes a recommendation, given as YAML, by a patch that never conflicts.
func recommendNow(t *testing.T, ns, name, recommendation string) {
	t.Helper()
	r := &vpav1.RecommendedPodResources{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(recommendation), r), recommendation)
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"recommendation": r}})
	require.NoError(t, err)
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	require.NoError(t, cluster.Status().Patch(t.Context(), v, client.RawPatch(types.MergePatchType, patch)))
}

// target recommends for container a, with a range so narrow that every other size is outside it.
func target(cpu, memory string) string {
	return "containerRecommendations: [" + targetOf("a", cpu, memory) + "]"
}

// targetOf is target for one of several containers.
func targetOf(container, cpu, memory string) string {
	amounts := fmt.Sprintf("{cpu: %s, memory: %s}", cpu, memory)
	return fmt.Sprintf("{containerName: %s, target: %[2]s, lowerBound: %[2]s, upperBound: %[2]s}", container, amounts)
}

// one are update policies of VPAs for a single pod, by mode.
func one(mode string) string {
	return "updatePolicy: {updateMode: '" + mode + "', minReplicas: 1}"
}

// small is the initial pod of most tests.
const small = "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}]"

// become waits until all pods of a workload have these requests and limits (see has), wanted and
// acknowledged, and returns them.
func become(t *testing.T, ns, app string, count int, want ...string) (out map[types.UID]corev1.Pod) {
	t.Helper()
	hang.Eventually(t, fmt.Sprintf("%d pods of %s in %s with %v", count, app, ns, want), func(context.Context) (bool, error) {
		out = podsOf(t, ns, app)
		for _, p := range out {
			if fmt.Sprint(sizesOf(&p)) != fmt.Sprint(want) || !acknowledged(&p) {
				return false, nil
			}
		}
		return len(out) == count, nil
	})
	return out
}

// acknowledged: the node has granted what the pod's spec asks for.
func acknowledged(p *corev1.Pod) bool {
	if p.Status.Phase != corev1.PodRunning || len(p.Status.ContainerStatuses) != len(p.Spec.Containers) {
		return false
	}
	given := p.DeepCopy()
	given.Spec.Resources = p.Status.Resources
	for i := range given.Spec.Containers {
		status := p.Status.ContainerStatuses[i].Resources
		if p.Status.ContainerStatuses[i].Name != p.Spec.Containers[i].Name {
			return false
		}
		given.Spec.Containers[i].Resources = ptr.Deref(status, corev1.ResourceRequirements{})
	}
	return fmt.Sprint(sizesOf(given)) == fmt.Sprint(sizesOf(p))
}

// same: these pods still run, and no others.
func same(t *testing.T, ns, app string, before map[types.UID]corev1.Pod) map[types.UID]corev1.Pod {
	t.Helper()
	now := podsOf(t, ns, app)
	require.Len(t, now, len(before))
	for uid, p := range before {
		require.Contains(t, now, uid, "pod %s was replaced", p.Name)
		require.Equal(t, corev1.PodRunning, now[uid].Status.Phase)
	}
	return now
}

// replaced: none of these pods exists any more.
func replaced(t *testing.T, ns, app string, before map[types.UID]corev1.Pod) {
	t.Helper()
	for uid, p := range podsOf(t, ns, app) {
		require.NotContains(t, before, uid, "pod %s was not replaced", p.Name)
	}
}

// leave waits until one of these pods is gone.
func leave(t *testing.T, ns, app string, before map[types.UID]corev1.Pod) {
	t.Helper()
	hang.Eventually(t, "one of the pods of "+app+" to be gone", func(context.Context) (bool, error) {
		now := podsOf(t, ns, app)
		for uid := range before {
			if _, still := now[uid]; !still {
				return true, nil
			}
		}
		return false, nil
	})
}

// kubeletSays writes a condition into the status of pods, like a kubelet, with an age.
func kubeletSays(t *testing.T, list map[types.UID]corev1.Pod, condition corev1.PodConditionType, reason string, ago time.Duration) {
	t.Helper()
	kubeletSaysWhy(t, list, condition, reason, "", ago)
}

// kubeletSaysWhy is kubeletSays with a message.
func kubeletSaysWhy(t *testing.T, list map[types.UID]corev1.Pod, condition corev1.PodConditionType, reason, message string, ago time.Duration) {
	t.Helper()
	said := corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(time.Now().Add(-ago))}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{said}}})
	require.NoError(t, err)
	for _, p := range list {
		require.NoError(t, cluster.Status().Patch(t.Context(), &p, client.RawPatch(types.StrategicMergePatchType, patch)))
	}
}

// inPhase writes the phase of pods. The lab's nodes ignore pods in phase Unknown, resizes included.
func inPhase(t *testing.T, list map[types.UID]corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	for _, p := range list {
		require.NoError(t, cluster.Status().Patch(t.Context(), &p, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"`+string(phase)+`"}}`))))
	}
}

// nodeNamed is a node to which no scheduler assigns pods.
func nodeNamed(name string) *corev1.Node {
	capacity := corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("100")}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: true}, Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity}}
}
