package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// creations creates pods as dry runs, one after the other in several goroutines: the webhook is
// called as usual, and nothing is stored.
type creations struct {
	connection *harness.Cluster
	template   *corev1.Pod

	mu    sync.Mutex
	made  counts
	late  counts // of those that began after the last mark
	marks int
	first error // that was met
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// counts are of pods.
type counts struct{ created, patched, failed int64 }

func (c *counts) add(patched bool, err error) {
	c.created++
	if patched {
		c.patched++
	}
	if err != nil {
		c.failed++
	}
}

// counts are those of all pods so far.
func (l *creations) counts() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

// mark forgets the counts of the pods since the last mark.
func (l *creations) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks, l.late = l.marks+1, counts{}
}

// sinceMark are the counts of the pods whose creation began after the mark.
func (l *creations) sinceMark() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late
}

// createPods starts to create pods of a StatefulSet without replicas, whose VPA has a
// recommendation.
func createPods(t *testing.T, ns string) *creations {
	t.Helper()
	labels := map[string]string{"app": "web"}
	containers := []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")}}}}
	owner := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: containers}},
	}}
	v := vpa(ns, "web", vpav1.UpdateModeInitial)
	v.Spec.TargetRef = crossVersion("apps/v1", "StatefulSet", "web")
	create(t, owner, v)
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{
		ContainerName: "app", Target: corev1.ResourceList{"cpu": resource.MustParse("300m"), "memory": resource.MustParse("300Mi")}}}}
	require.NoError(t, cluster.Status().Update(t.Context(), v))

	connection, err := harness.ConnectWith(kubeconfig, func(c *rest.Config) { c.QPS, c.Burst = -1, 0 })
	require.NoError(t, err)
	l := &creations{connection: connection, template: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "web-", Labels: labels, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: owner.UID, Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{Containers: containers},
	}}
	hang.Eventually(t, "pods to be patched", func(ctx context.Context) (bool, error) {
		patched, err := l.one(ctx)
		return patched, err
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	l.stop = stop
	for range 3 {
		l.done.Go(func() {
			for ctx.Err() == nil {
				l.mu.Lock()
				marks := l.marks
				l.mu.Unlock()
				patched, err := l.one(context.WithoutCancel(ctx))
				l.count(marks, patched, err)
			}
		})
	}
	t.Cleanup(func() { l.end() })
	return l
}

func (l *creations) one(ctx context.Context) (patched bool, err error) {
	pod := l.template.DeepCopy()
	err = l.connection.Create(ctx, pod, client.DryRunAll)
	if err == nil && pod.Annotations["vpaUpdates"] != "" && pod.Spec.Containers[0].Resources.Requests.Cpu().String() != "300m" {
		err = fmt.Errorf("the pod says %q and has %v", pod.Annotations["vpaUpdates"], pod.Spec.Containers[0].Resources)
	}
	return pod.Annotations["vpaUpdates"] != "", err
}

func (l *creations) count(marks int, patched bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made.add(patched, err)
	if marks == l.marks {
		l.late.add(patched, err)
	}
	if err != nil && l.first == nil {
		l.first = err
	}
}

// more waits until n more pods have been created.
func (l *creations) more(t *testing.T, n int64) {
	t.Helper()
	from := l.counts().created
	hang.Eventually(t, fmt.Sprintf("%d pods", n), func(context.Context) (bool, error) { return l.counts().created >= from+n, nil })
}

// end stops and returns the first error.
func (l *creations) end() error {
	l.stop()
	l.done.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// TestAKilledCelvpaStopsNoPod: while celvpa is down, pods are created unchanged; once it is ready
// again, each gets its resources.
func TestAKilledCelvpaStopsNoPod(t *testing.T) {
	withoutCelvpa(t)
	ns := namespace(t, "it-killed")
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	require.NoError(t, err)
	args = append([]string{"admission-controller", "--kubeconfig=" + kubeconfig}, args...)
	start := func() *harness.Celvpa {
		c, err := harness.Start(program, address, filepath.Join(t.TempDir(), "log"), args, nil)
		require.NoError(t, err)
		require.NoError(t, c.WaitReady(t.Context()))
		return c
	}
	one := start()
	t.Cleanup(func() { unregister(t) })
	load := createPods(t, ns)
	load.more(t, 100)
	before := load.counts()
	require.Equal(t, before.created, before.patched+before.failed)

	one.Kill()
	load.more(t, 100)
	gone := load.counts()
	require.Positive(t, gone.created-gone.patched, "pods are created without it")

	// Every pod created after the new process is ready is patched, the first one included.
	two := start()
	t.Cleanup(func() { require.NoError(t, two.Stop()) })
	for i := range 50 {
		patched, err := load.one(t.Context())
		require.NoError(t, err)
		require.True(t, patched, "review %d after it was ready", i)
	}
	load.mark()
	load.more(t, 200)
	require.NoError(t, load.end(), "every creation succeeds")
	require.Equal(t, load.sinceMark().created, load.sinceMark().patched, "all are patched")
	all := load.counts()
	t.Logf("%d pods before it was killed; %d in all, of which %d unpatched while it was gone; none refused", before.created, all.created, all.created-all.patched)
}
