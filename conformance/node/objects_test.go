package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// patience is how long a test waits for a step that the node, the metrics or celvpa take. A node that is emulated is slow, and on a
// busy machine slower.
var patience = 15 * time.Minute

// until looks again and again, and fails if it has not seen what it waits for in time. What look says last is logged.
func until(t *testing.T, limit time.Duration, what string, look func(ctx context.Context) (done bool, seen string)) {
	t.Helper()
	untilEvery(t, 500*time.Millisecond, limit, what, look)
}

// untilEvery is until with a pause between looks.
func untilEvery(t *testing.T, pause, limit time.Duration, what string, look func(ctx context.Context) (done bool, seen string)) {
	t.Helper()
	begin, seen := time.Now(), ""
	for {
		done, now := look(t.Context())
		if now != "" {
			seen = now
		}
		if done {
			t.Logf("%s: %s (after %.0fs)", what, seen, time.Since(begin).Seconds())
			return
		}
		if time.Since(begin) > limit {
			require.FailNow(t, "waited too long", "for %s: %s (after %s)", what, seen, limit)
		}
		select {
		case <-time.After(pause):
		case <-t.Context().Done():
			require.FailNow(t, "the test was ended", "while waiting for %s: %s", what, seen)
		}
	}
}

// testNamespaces is how the names of the tests' namespaces begin.
const testNamespaces = "node-"

// namespace is a namespace for one test. It goes with the test, and its pods make room on the node.
func namespace(t *testing.T, name string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: testNamespaces + name + "-"}}
	require.NoError(t, cluster.Create(t.Context(), ns))
	t.Cleanup(func() {
		if !*keep || !t.Failed() {
			require.NoError(t, cluster.Delete(context.Background(), ns))
		}
	})
	return ns.Name
}

// podSpec reads the spec of a pod of workloads. Containers get the image, and are called app if there is one.
func podSpec(t *testing.T, text string) corev1.PodSpec {
	t.Helper()
	spec := corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](1), AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false)}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &spec), text)
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if c.Name == "" {
			c.Name = "app"
		}
		c.Image, c.ImagePullPolicy = workloadImage, corev1.PullIfNotPresent
		if i > 0 && len(c.Args) == 0 {
			c.Args = []string{fmt.Sprintf("-address=:%d", 8080+i)} // containers of a pod share its ports
		}
	}
	return spec
}

// deploy creates a Deployment of workloads and waits until its pods run. The spec of its pods is YAML.
func deploy(t *testing.T, ns, name string, replicas int, spec string) []corev1.Pod {
	t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(t, spec)},
	}}
	require.NoError(t, cluster.Create(t.Context(), d))
	return running(t, ns, name, replicas)
}

// running waits until a Deployment has as many pods as it should, all of them ready, and returns them by name.
func running(t *testing.T, ns, name string, replicas int) (pods []corev1.Pod) {
	t.Helper()
	until(t, patience, "pods of "+name, func(ctx context.Context) (bool, string) {
		var list corev1.PodList
		if err := cluster.List(ctx, &list, client.InNamespace(ns), client.MatchingLabels{"app": name}); err != nil {
			return false, err.Error()
		}
		ready, seen := 0, []string{}
		for _, p := range list.Items {
			if isReady(&p) {
				ready++
			}
			seen = append(seen, p.Name+" "+string(p.Status.Phase))
		}
		pods = list.Items
		return ready == replicas && len(list.Items) == replicas, strings.Join(seen, ", ")
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

func isReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// get reads a pod again. It fails the test if the pod is gone: its successor has another name.
func get(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	var now corev1.Pod
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(p), &now))
	require.Equal(t, p.UID, now.UID)
	return &now
}

// podsOf lists the pods of a Deployment that are not terminating.
func podsOf(ctx context.Context, ns, name string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := cluster.List(ctx, &list, client.InNamespace(ns), client.MatchingLabels{"app": name})
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), err
}

// successor waits until the only pod of a Deployment is another one than before, ready, and as it should be. The webhook may hear
// of a recommendation later than the updater that evicts for it; the pod is evicted once more then.
func successor(t *testing.T, before *corev1.Pod, fits func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var now *corev1.Pod
	name := before.Labels["app"]
	until(t, patience, "a successor of "+before.Name, func(ctx context.Context) (bool, string) {
		pods, err := podsOf(ctx, before.Namespace, name)
		if err != nil {
			return false, err.Error()
		}
		seen := []string{}
		for i := range pods {
			now = &pods[i]
			limits := now.Spec.Containers[0].Resources.Limits
			seen = append(seen, fmt.Sprintf("%s %s, limits cpu %s, memory %s", now.Name, now.Status.Phase, limits.Cpu(), limits.Memory()))
		}
		return len(pods) == 1 && now.UID != before.UID && isReady(now) && fits(now), strings.Join(seen, "; ")
	})
	return now
}

// anything accepts every pod.
func anything(*corev1.Pod) bool { return true }

// memoryLimit accepts pods whose first container has a memory limit of so many bytes.
func memoryLimit(bytes int64) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p.Spec.Containers[0].Resources.Limits.Memory().Value() == bytes }
}

// watch creates a VPA for a Deployment. The rest of its spec is YAML.
func watch(t *testing.T, ns, name, spec string) {
	t.Helper()
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &v.Spec), spec)
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	until(t, patience, "the VerticalPodAutoscaler to be stored", func(ctx context.Context) (bool, string) {
		err := cluster.Create(ctx, v)
		if apierrors.IsInternalError(err) { // a busy emulated node may not answer a review in time
			return false, err.Error()
		}
		require.NoError(t, err)
		return true, v.Name
	})
}

// pinned is the spec of a VPA for a single pod whose recommendation is known beforehand: the target of container app, such as
// "{cpu: 100m, memory: 64Mi}". Usage is still what celvpa has to see first. More are further fields of the container's policy.
func pinned(mode, resources string, more ...string) string {
	return fmt.Sprintf("{updatePolicy: {updateMode: %s, minReplicas: 1}, resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: %s, maxAllowed: %s%s}]}}",
		mode, resources, resources, strings.Join(append([]string{""}, more...), ", "))
}

// change replaces fields of the spec of a VPA, given as YAML.
func change(t *testing.T, ns, name, spec string) {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte("spec: " + spec))
	require.NoError(t, err)
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	require.NoError(t, cluster.Patch(t.Context(), v, client.RawPatch(types.MergePatchType, text)))
}

// recommended waits until a VPA recommends something for container app that is as it should be.
func recommended(t *testing.T, ns, name string, fits func(milli, bytes int64) bool) {
	t.Helper()
	until(t, patience, "recommendation of "+name, func(ctx context.Context) (bool, string) {
		var v vpav1.VerticalPodAutoscaler
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &v); err != nil {
			return false, err.Error()
		}
		if v.Status.Recommendation == nil {
			return false, "none"
		}
		for _, c := range v.Status.Recommendation.ContainerRecommendations {
			if c.ContainerName == "app" {
				target := fmt.Sprintf("target cpu %s, memory %s", c.Target.Cpu(), c.Target.Memory())
				return fits(c.Target.Cpu().MilliValue(), c.Target.Memory().Value()), target
			}
		}
		return false, "none for container app"
	})
}

// evicted waits for an eviction by a rule. Its answer may come too late for the updater's cycle if the node is busy.
func evicted(t *testing.T, ns, rule string) {
	t.Helper()
	reported(t, ns, rule, "EvictedByVPA EvictionNotAnswered", "pod evicted", "eviction not answered")
}

// resized waits for a resize by a rule.
func resized(t *testing.T, ns, rule string) {
	t.Helper()
	reported(t, ns, rule, "InPlaceResizedByVPA", "pod resized in place")
}

// reported waits for an event that names a rule, with one of the reasons, or for a line with one of the messages in the updater's
// log: a process that a starved node kills takes events with it that it has not written yet.
func reported(t *testing.T, ns, rule, reasons string, messages ...string) {
	t.Helper()
	until(t, patience, "event "+reasons+" with "+rule, func(ctx context.Context) (bool, string) {
		done, seen := happened(ctx, ns, reasons, rule)
		if done {
			return true, seen
		}
		for _, message := range messages {
			if line, found := logged(ctx, message, ns, rule); found {
				return true, line
			}
		}
		return false, seen
	})
}

// happened looks for an event. It returns the last one that has one of the reasons.
func happened(ctx context.Context, ns, reasons, word string) (found bool, seen string) {
	var list corev1.EventList
	if err := cluster.List(ctx, &list, client.InNamespace(ns)); err != nil {
		return false, err.Error()
	}
	for _, e := range list.Items {
		if !slices.Contains(strings.Fields(reasons), e.Reason) {
			continue
		}
		seen = e.Reason + ": " + e.Message
		if strings.Contains(seen, word) {
			return true, seen
		}
	}
	return false, seen
}

// undisturbed requires that a pod is the one it was, has its QoS class, and restarted as often as said.
func undisturbed(t *testing.T, before *corev1.Pod, restarts int32) *corev1.Pod {
	t.Helper()
	now := get(t, before)
	require.Nil(t, now.DeletionTimestamp)
	require.Equal(t, before.Status.QOSClass, now.Status.QOSClass)
	for _, s := range now.Status.ContainerStatuses {
		require.Equal(t, restarts, s.RestartCount, "restarts of %s", s.Name)
	}
	return now
}

// conditionOf returns the reason and the message of a pod's condition; empty if the pod has none.
func conditionOf(p *corev1.Pod, kind corev1.PodConditionType) (reason, message string) {
	for _, c := range p.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return c.Reason, c.Message
		}
	}
	return "", ""
}
