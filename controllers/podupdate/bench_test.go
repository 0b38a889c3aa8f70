package podupdate_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

// world are VPAs with two pods each, of two containers, all outside of their recommendation. Every
// other namespace has a LimitRange of containers.
func world(pods int) (vpas []*vpav1.VerticalPodAutoscaler, of [][]*corev1.Pod, limits *facts.LimitRanges) {
	begin := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: amounts("100m", "128Mi"), Limits: amounts("200m", "256Mi")}}
	}
	recommended := func(name string) vpav1.RecommendedContainerResources {
		return vpav1.RecommendedContainerResources{ContainerName: name, Target: amounts("250m", "300Mi"), LowerBound: amounts("200m", "250Mi"), UpperBound: amounts("500m", "600Mi")}
	}
	for i := range pods / 2 {
		namespace, name := fmt.Sprintf("ns-%d", i%50), fmt.Sprintf("web-%d", i)
		v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
		v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{recommended("app"), recommended("sidecar")}}
		vpas = append(vpas, v)
		var two []*corev1.Pod
		for j := range 2 {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, j), UID: types.UID(fmt.Sprintf("%s-%d", name, j)), Labels: map[string]string{"app": name},
				Annotations:     map[string]string{"vpaObservedContainers": "app, sidecar"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet", Name: name, Controller: ptr.To(true)}}}}
			p.Spec.NodeName, p.Spec.Containers = "node", []corev1.Container{container("app"), container("sidecar")}
			p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &begin, QOSClass: corev1.PodQOSBurstable}
			for _, c := range p.Spec.Containers {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Resources: &c.Resources})
			}
			two = append(two, p)
		}
		of = append(of, two)
	}
	limits = facts.FoldLimitRanges([]corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: amounts("2", "2Gi"), Min: amounts("10m", "16Mi")}}}}})
	return vpas, of, limits
}

// BenchmarkDecide10000Pods decides on as many running pods as large clusters have: what they should
// have, how far they are from it, in which order, and what is to be done. VPAs are worked on at a
// time, as the updater does. On a machine that does other things besides, what counts is the time
// of CPUs.
func BenchmarkDecide10000Pods(b *testing.B) {
	book, err := policy.Load(policy.Options{})
	require.NoError(b, err)
	vpas, of, limits := world(10_000)
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	decide := func(i int) (evicted int64) {
		plan := policy.For(book, vpas[i]).Plan
		list := make([]*podupdate.Candidate, 0, len(of[i]))
		for _, pod := range of[i] {
			request := podupdate.Request{Pod: pod, VPA: vpas[i], Now: now}
			if i%2 == 0 {
				request.Limits = limits
			}
			p, failed := podupdate.Assess(plan, request, nil)
			if len(failed) > 0 {
				b.Error(failed)
			}
			list = append(list, &podupdate.Candidate{Pod: p})
		}
		podupdate.Sort(list)
		group := facts.Group{Configured: 2, Live: 2, Running: 2}
		for _, p := range list {
			if verdict := p.Pod.Decide(plan, group, nil); verdict.Do == facts.DoEvict {
				evicted++
				group.Disrupted++
			}
		}
		return evicted
	}
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		var evicted atomic.Int64
		var workers sync.WaitGroup
		next := make(chan int)
		for range 10 {
			workers.Go(func() {
				for i := range next {
					evicted.Add(decide(i))
				}
			})
		}
		for i := range vpas {
			next <- i
		}
		close(next)
		workers.Wait()
		require.EqualValues(b, 5000, evicted.Load())
	}
	b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
}

// cpuTime is what this process has used of all CPUs.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
