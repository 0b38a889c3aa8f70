package slim

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

var (
	born  = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	owner = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Thing", Name: "t", UID: "t-1", Controller: ptr.To(true)}}
)

func fullMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Name: "web", UID: "u", ResourceVersion: "7", Generation: 3, CreationTimestamp: born, DeletionTimestamp: &born,
		Labels: map[string]string{"app": "web"}, OwnerReferences: owner, Finalizers: []string{"f"},
		Annotations:   map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 250), "vpaObservedContainers": "app", "vpaUpdates": "long", "team": "web"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}
}

// keptMeta is what is left of fullMeta.
func keptMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u", ResourceVersion: "7", CreationTimestamp: born, DeletionTimestamp: &born, OwnerReferences: owner}
}

func TestControllersKeepTheirSelectorTheirNumberAndTheirOwners(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "i"}}}}
	three := ptr.To[int32](3)
	cron := &batchv1.CronJob{ObjectMeta: keptMeta()}
	cron.Spec.JobTemplate.Spec.Template.Labels = template.Labels
	tests := []struct{ full, kept any }{
		{&appsv1.Deployment{ObjectMeta: fullMeta(), Spec: appsv1.DeploymentSpec{Replicas: three, Selector: selector, Template: template, Paused: true}, Status: appsv1.DeploymentStatus{Replicas: 3}},
			&appsv1.Deployment{ObjectMeta: keptMeta(), Spec: appsv1.DeploymentSpec{Replicas: three, Selector: selector}}},
		{&appsv1.DaemonSet{ObjectMeta: fullMeta(), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 4, NumberReady: 3}},
			&appsv1.DaemonSet{ObjectMeta: keptMeta(), Spec: appsv1.DaemonSetSpec{Selector: selector}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 4}}},
		{&appsv1.ReplicaSet{ObjectMeta: fullMeta(), Spec: appsv1.ReplicaSetSpec{Replicas: three, Selector: selector, Template: template}},
			&appsv1.ReplicaSet{ObjectMeta: keptMeta(), Spec: appsv1.ReplicaSetSpec{Replicas: three, Selector: selector}}},
		{&appsv1.StatefulSet{ObjectMeta: fullMeta(), Spec: appsv1.StatefulSetSpec{Replicas: three, Selector: selector, Template: template, ServiceName: "s"}},
			&appsv1.StatefulSet{ObjectMeta: keptMeta(), Spec: appsv1.StatefulSetSpec{Replicas: three, Selector: selector}}},
		{&corev1.ReplicationController{ObjectMeta: fullMeta(), Spec: corev1.ReplicationControllerSpec{Replicas: three, Selector: selector.MatchLabels, Template: &template}},
			&corev1.ReplicationController{ObjectMeta: keptMeta(), Spec: corev1.ReplicationControllerSpec{Replicas: three, Selector: selector.MatchLabels}}},
		{&batchv1.Job{ObjectMeta: fullMeta(), Spec: batchv1.JobSpec{Selector: selector, Template: template}, Status: batchv1.JobStatus{Active: 1}},
			&batchv1.Job{ObjectMeta: keptMeta(), Spec: batchv1.JobSpec{Selector: selector}}},
		{&batchv1.CronJob{ObjectMeta: fullMeta(), Spec: batchv1.CronJobSpec{Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}}, cron},
	}
	for _, tt := range tests {
		got, err := Controller(tt.full)
		require.NoError(t, err)
		require.Equal(t, tt.kept, got)
		again, err := Controller(got)
		require.NoError(t, err)
		require.Equal(t, tt.kept, again, "informers cut down once more now and then")
	}
	require.Len(t, tests, len(target.WatchedKinds()))
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

// fullPod is a pod with more than anybody reads.
func fullPod() *corev1.Pod {
	asks := corev1.ResourceRequirements{Requests: list("100m", "128Mi"), Limits: list("1", "1Gi"), Claims: []corev1.ResourceClaim{{Name: "gpu"}}}
	runs := corev1.ResourceRequirements{Requests: list("100m", "128Mi"), Limits: list("2", "1Gi")}
	policy := []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.NotRequired}}
	container := corev1.Container{
		Name: "app", Image: "registry.example.com/app:1", Command: []string{"run"}, Args: []string{"a"}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
		Resources: asks, ResizePolicy: policy, VolumeMounts: []corev1.VolumeMount{{Name: "v"}}, ReadinessProbe: &corev1.Probe{}, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
	}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", StartedAt: born, FinishedAt: born, Message: "m", ContainerID: "c"}}
	status := corev1.ContainerStatus{
		Name: "app", Image: "i", ImageID: "id", ContainerID: "c", Ready: true, Started: ptr.To(true), RestartCount: 2, Resources: &runs, AllocatedResources: list("1", "1"),
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "m"}}, LastTerminationState: ended,
	}
	return &corev1.Pod{
		ObjectMeta: fullMeta(),
		Spec: corev1.PodSpec{
			NodeName: "n", RestartPolicy: corev1.RestartPolicyAlways, PriorityClassName: "high", Resources: &asks, Containers: []corev1.Container{container}, InitContainers: []corev1.Container{container},
			Volumes: []corev1.Volume{{Name: "v"}}, Tolerations: []corev1.Toleration{{Key: "k"}}, ServiceAccountName: "s", Affinity: &corev1.Affinity{},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Reason: "r", Message: "m", StartTime: &born, QOSClass: corev1.PodQOSBurstable, Resize: "Deferred", ObservedGeneration: 3,
			PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}, HostIP: "10.0.0.2", Resources: &runs,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: born},
				{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: "m"},
				{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError, Message: "m"},
			},
			ContainerStatuses: []corev1.ContainerStatus{status}, InitContainerStatuses: []corev1.ContainerStatus{status},
		},
	}
}

func TestPodsKeepWhatIsReadOfThem(t *testing.T) {
	full := fullPod()
	asks := full.Spec.Containers[0].Resources
	runs := corev1.ResourceRequirements{Requests: list("100m", "128Mi"), Limits: list("2", "1Gi")}
	container := corev1.Container{Name: "app", Resources: asks, ResizePolicy: full.Spec.Containers[0].ResizePolicy, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}
	status := corev1.ContainerStatus{
		Name: "app", RestartCount: 2, Resources: &runs,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", StartedAt: born, FinishedAt: born}},
	}
	want := &corev1.Pod{ObjectMeta: keptMeta(),
		Spec: corev1.PodSpec{NodeName: "n", RestartPolicy: corev1.RestartPolicyAlways, PriorityClassName: "high", Resources: &asks, Containers: []corev1.Container{container}, InitContainers: []corev1.Container{container}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Reason: "r", StartTime: &born, QOSClass: corev1.PodQOSBurstable, Resize: "Deferred", ObservedGeneration: 3, Resources: &runs,
			Conditions: full.Status.Conditions[1:], ContainerStatuses: []corev1.ContainerStatus{status}, InitContainerStatuses: []corev1.ContainerStatus{status}},
	}
	want.Generation, want.Labels, want.Annotations = 3, map[string]string{"app": "web"}, map[string]string{"vpaObservedContainers": "app", "team": "web"}
	got, err := Pod(full)
	require.NoError(t, err)
	require.Equal(t, want, got)
	again, err := Pod(got)
	require.NoError(t, err)
	require.Equal(t, want, again)
}

func TestAPodRunsWithWhatItAsksForInTheSameMemory(t *testing.T) {
	sharedMap := func(a, b corev1.ResourceList) bool {
		a["probe"] = resource.MustParse("1")
		_, ok := b["probe"]
		delete(a, "probe")
		return ok
	}
	got, err := Pod(fullPod())
	require.NoError(t, err)
	pod := got.(*corev1.Pod)
	asks, runs := pod.Spec.Containers[0].Resources, pod.Status.ContainerStatuses[0].Resources
	require.True(t, sharedMap(asks.Requests, runs.Requests))
	require.False(t, sharedMap(asks.Limits, runs.Limits), "they differ")
	require.Equal(t, "2", runs.Limits.Cpu().String())
	written := fullPod()
	written.Status.ContainerStatuses[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("134217728")}
	got, err = Pod(written)
	require.NoError(t, err)
	require.Equal(t, "134217728", got.(*corev1.Pod).Status.ContainerStatuses[0].Resources.Requests.Memory().String(), "as it was written")
}

// Pods of a workload share the statuses of containers that run as they ask for. Each other one says something of its own.
func TestAlikePodsShareTheStatusesOfTheirContainers(t *testing.T) {
	started := born
	pod := func(change func(*corev1.ContainerStatus)) []corev1.ContainerStatus {
		full := fullPod()
		status := &full.Status.ContainerStatuses[0]
		started.Time = started.Add(time.Second)
		status.State, status.LastTerminationState = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}, corev1.ContainerState{}
		full.Spec.Containers[0].Resources.Claims = nil
		status.Resources = full.Spec.Containers[0].Resources.DeepCopy()
		change(status)
		got, err := Pod(full)
		require.NoError(t, err)
		return got.(*corev1.Pod).Status.ContainerStatuses
	}
	as := func(*corev1.ContainerStatus) {}
	first := pod(as)
	require.Same(t, &first[0], &pod(as)[0])
	require.NotNil(t, first[0].State.Running)
	require.Equal(t, "100m", first[0].Resources.Requests.Cpu().String())
	for name, change := range map[string]func(*corev1.ContainerStatus){
		"restarted":       func(s *corev1.ContainerStatus) { s.RestartCount++ },
		"not running":     func(s *corev1.ContainerStatus) { s.State.Running = nil },
		"other resources": func(s *corev1.ContainerStatus) { s.Resources.Requests = list("1", "1Gi") },
		"no resources":    func(s *corev1.ContainerStatus) { s.Resources = nil },
		"killed": func(s *corev1.ContainerStatus) {
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", FinishedAt: started}
		},
	} {
		other := pod(change)
		require.NotSame(t, &first[0], &other[0], name)
		require.NotEqual(t, first, other, name)
	}
}

func TestVPAsLoseOnlyNotesOfTools(t *testing.T) {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: fullMeta(), SpecUnreadable: "why"}
	v.Spec.Recommenders = []*vpav1.VerticalPodAutoscalerRecommenderSelector{{Name: "r"}}
	want := v.DeepCopy()
	want.ManagedFields = nil
	delete(want.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	got, err := VPA(v)
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = VPA(&vpav1.VerticalPodAutoscaler{})
	require.NoError(t, err)
}

func TestPodsThatAreCutDownAgainStillShareTheirContainers(t *testing.T) {
	cut := func(pod any) *corev1.Pod {
		sharedContainers, sharedStatuses = pool[[]corev1.Container]{}, pool[[]corev1.ContainerStatus]{} // so many others came in between
		got, err := Pod(pod)
		require.NoError(t, err)
		return got.(*corev1.Pod)
	}
	full := fullPod()
	full.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: born}}
	full.Status.ContainerStatuses[0].Resources = full.Spec.Containers[0].Resources.DeepCopy()
	full.Spec.Containers[0].Resources.Claims, full.Status.ContainerStatuses[0].Resources.Claims = nil, nil
	one := cut(full)
	other := *one
	for _, again := range []*corev1.Pod{cut(&other), cut(one)} {
		require.Same(t, &one.Spec.Containers[0], &again.Spec.Containers[0])
		require.Same(t, &one.Status.ContainerStatuses[0], &again.Status.ContainerStatuses[0])
	}
	afresh := cut(full)
	require.NotSame(t, &one.Spec.Containers[0], &afresh.Spec.Containers[0])
	require.NotSame(t, &one.Status.ContainerStatuses[0], &afresh.Status.ContainerStatuses[0])
}

func TestObjectsOfOneOwnerShareIt(t *testing.T) {
	owned := func(change func(*metav1.OwnerReference)) []metav1.OwnerReference {
		pod := fullPod()
		pod.OwnerReferences = []metav1.OwnerReference{*owner[0].DeepCopy()}
		change(&pod.OwnerReferences[0])
		want := pod.DeepCopy().OwnerReferences
		got, err := Pod(pod)
		require.NoError(t, err)
		require.Equal(t, want, got.(*corev1.Pod).OwnerReferences)
		return got.(*corev1.Pod).OwnerReferences
	}
	first := owned(func(*metav1.OwnerReference) {})
	require.Same(t, &first[0], &owned(func(*metav1.OwnerReference) {})[0])
	for name, change := range map[string]func(*metav1.OwnerReference){
		"version":        func(o *metav1.OwnerReference) { o.APIVersion = "example.com/v2" },
		"kind":           func(o *metav1.OwnerReference) { o.Kind = "Other" },
		"name":           func(o *metav1.OwnerReference) { o.Name = "u" },
		"UID":            func(o *metav1.OwnerReference) { o.UID = "t-2" },
		"controller":     func(o *metav1.OwnerReference) { o.Controller = nil },
		"not controller": func(o *metav1.OwnerReference) { o.Controller = ptr.To(false) },
		"blocks":         func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = ptr.To(true) },
	} {
		require.NotSame(t, &first[0], &owned(change)[0], name)
	}
}

func TestPoliciesThatAllowTheSameShareMemory(t *testing.T) {
	policies := func(most string) corev1.ResourceList {
		v := &vpav1.VerticalPodAutoscaler{}
		v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{MinAllowed: list("10m", "32Mi"), MaxAllowed: list(most, "16Gi")}}}
		got, err := VPA(v)
		require.NoError(t, err)
		policy := got.(*vpav1.VerticalPodAutoscaler).Spec.ResourcePolicy.ContainerPolicies[0]
		require.Equal(t, list("10m", "32Mi"), policy.MinAllowed)
		require.Equal(t, list(most, "16Gi"), policy.MaxAllowed)
		return policy.MaxAllowed
	}
	address := func(l corev1.ResourceList) uintptr { return reflect.ValueOf(l).Pointer() }
	first := policies("8")
	require.Equal(t, address(first), address(policies("8")))
	require.NotEqual(t, address(first), address(policies("9")))
}

func TestVPAsOfAdmissionKeepOnlyTheTarget(t *testing.T) {
	target, other := list("1", "1Gi"), list("2", "2Gi")
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: fullMeta()}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{
		ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: target, LowerBound: other, UpperBound: other, UncappedTarget: other}},
		PodRecommendation:        &vpav1.RecommendedResources{Target: target, LowerBound: other, UpperBound: other, UncappedTarget: other},
	}
	all, err := VPA(v.DeepCopy())
	require.NoError(t, err)
	require.Equal(t, v.Status, all.(*vpav1.VerticalPodAutoscaler).Status)
	got, err := VPAWithTarget(v)
	require.NoError(t, err)
	require.Nil(t, got.(*vpav1.VerticalPodAutoscaler).ManagedFields)
	require.Equal(t, &vpav1.RecommendedPodResources{
		ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: target}},
		PodRecommendation:        &vpav1.RecommendedResources{Target: target},
	}, got.(*vpav1.VerticalPodAutoscaler).Status.Recommendation)
	_, err = VPAWithTarget(&vpav1.VerticalPodAutoscaler{})
	require.NoError(t, err)
}

func TestWhatIsNotMeantPassesAsItIs(t *testing.T) {
	for _, transform := range []toolscache.TransformFunc{Pod, VPA, VPAWithTarget, Controller} {
		for _, object := range []any{toolscache.DeletedFinalStateUnknown{Key: "ns/web", Obj: &corev1.Pod{}}, &corev1.Node{}, nil} {
			got, err := transform(object)
			require.NoError(t, err)
			require.Equal(t, object, got)
		}
	}
}

func TestAllWatchedKindsAreSlim(t *testing.T) {
	all := ByObject(true)
	require.Len(t, all, len(target.WatchedKinds())+4)
	for object, options := range all {
		require.NotNil(t, options.Transform, "%T", object)
		require.True(t, *options.UnsafeDisableDeepCopy, "%T", object)
	}
}

// BenchmarkPodsInMemory measures how many bytes one pod takes as it comes and as it is kept.
func BenchmarkPodsInMemory(b *testing.B) {
	weigh := func(transform toolscache.TransformFunc) float64 {
		const pods = 2000
		kept := make([]any, pods)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range kept {
			p := fullPod()
			p.Annotations["notes"] = strings.Repeat("x", 1000)
			kept[i], _ = transform(p)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(kept)
		return float64(after.HeapAlloc-before.HeapAlloc) / pods
	}
	for b.Loop() {
		b.ReportMetric(weigh(func(o any) (any, error) { return o, nil }), "bytes/full")
		b.ReportMetric(weigh(Pod), "bytes/slim")
	}
}

func TestPodsAreThoseOfTheCacheThemselves(t *testing.T) {
	var pods Pods
	require.Empty(t, pods.List())
	var want []*corev1.Pod
	for _, namespace := range []string{"a", "b"} { // caches of some namespaces have an informer for each
		informer := pods.Informer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, toolscache.Indexers{})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
		require.NoError(t, informer.GetStore().Add(pod))
		want = append(want, pod)
	}
	others := pods.Informer(&toolscache.ListWatch{}, &vpav1.VerticalPodAutoscaler{}, 0, toolscache.Indexers{})
	require.NoError(t, others.GetStore().Add(&vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}}))
	got := pods.List()
	require.Len(t, got, len(want))
	for i := range want {
		require.Same(t, want[i], got[i])
	}
}

// Anyone who ends startup boosts needs what the pod template has.
func TestControllersKeepTheirPodTemplatesIfAsked(t *testing.T) {
	full := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		ServiceAccountName: "s", InitContainers: []corev1.Container{{Name: "init", Image: "i"}},
		Containers: []corev1.Container{{Name: "app", Image: "i", Command: []string{"run"}, Resources: corev1.ResourceRequirements{Requests: list("4", "1Gi")}}},
	}}
	kept := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: list("4", "1Gi")}}}}}
	for _, tt := range []struct{ full, kept any }{
		{&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: full}}, &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: kept}}},
		{&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: full}}, &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: kept}}},
		{&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: full}}, &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: kept}}},
		{&corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &full}}, &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &kept}}},
		{&corev1.ReplicationController{}, &corev1.ReplicationController{}},
		{&batchv1.Job{Spec: batchv1.JobSpec{Template: full}}, &batchv1.Job{Spec: batchv1.JobSpec{Template: kept}}},
		{&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: full}}, &appsv1.Deployment{}},
	} {
		got, err := ControllerWithTemplate(tt.full)
		require.NoError(t, err)
		require.Equal(t, tt.kept, got)
		again, err := ControllerWithTemplate(got)
		require.NoError(t, err)
		require.Equal(t, tt.kept, again)
	}
	caches := ByObject(false)
	KeepTemplates(caches)
	for object, by := range caches {
		if set, ok := object.(*appsv1.ReplicaSet); ok {
			set.Spec.Template = full
			got, err := by.Transform(set)
			require.NoError(t, err)
			require.Equal(t, kept, got.(*appsv1.ReplicaSet).Spec.Template)
		}
	}
}

func TestMetadataKeepsWhatRulesReadAndNodesTheirRoom(t *testing.T) {
	namespace := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "shop", ResourceVersion: "1", Labels: map[string]string{"tier": "front"}, Annotations: map[string]string{"team": "x", "notes": strings.Repeat("x", 300)}}}
	want := namespace.DeepCopy()
	delete(want.Annotations, "notes")
	for _, keep := range []func(any) (any, error){Metadata, Controller} {
		got, err := keep(namespace)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1", Labels: map[string]string{"zone": "b"}}}
	node.Status.Allocatable, node.Status.Capacity = list("4", "8Gi"), list("5", "9Gi")
	node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	got, err := Node(node)
	require.NoError(t, err)
	require.Equal(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}, Status: corev1.NodeStatus{Allocatable: list("4", "8Gi")}}, got)
	got, err = Node(&corev1.Node{})
	require.NoError(t, err)
	require.Equal(t, &corev1.Node{}, got)
}
