package oom

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

const killed = facts.ReasonOOMKilled

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func requests(memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{"memory": resource.MustParse(memory)}}
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}}
}

func waiting() corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
}

// ended is a state that a container has been in since some minutes past noon.
func ended(reason string, minutes int) corev1.ContainerState {
	at := metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute))
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: 137, FinishedAt: at}}
}

// of is the end of one run of a container.
func of(id string, end corev1.ContainerState) corev1.ContainerState {
	end.Terminated.ContainerID = "containerd://" + id
	return end
}

func status(container string, restarts int32, state, last corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container, RestartCount: restarts, State: state, LastTerminationState: last}
}

// pod has one container app that requests some memory, and statuses.
func pod(memory string, statuses ...corev1.ContainerStatus) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}}
	p.Spec.Containers = []corev1.Container{{Name: "side"}, {Name: "app", Resources: requests(memory)}}
	p.Status.ContainerStatuses = statuses
	return p
}

func TestKillsAreFoundBetweenTwoStatesOfAPod(t *testing.T) {
	const mib = 1 << 20
	never := corev1.ContainerState{}
	with := func(s corev1.ContainerStatus, r corev1.ResourceRequirements) corev1.ContainerStatus {
		s.Resources = &r
		return s
	}
	kill := func(container string, memory int64, minutes int) model.OOM {
		return model.OOM{Pod: model.PodID{Namespace: "shop", Name: "web-1"}, Container: container, Memory: memory, At: noon.Add(time.Duration(minutes) * time.Minute)}
	}
	for name, test := range map[string]struct {
		old, new *corev1.Pod
		want     []model.OOM
	}{
		"a running container is killed: the new request counts": {
			pod("100Mi", status("app", 0, running(), never)), pod("200Mi", status("app", 0, ended(killed, 1), never)),
			[]model.OOM{kill("app", 200*mib, 1)}},
		"a waiting container is killed": {
			pod("100Mi", status("app", 0, waiting(), never)), pod("100Mi", status("app", 0, ended(killed, 1), never)),
			[]model.OOM{kill("app", 100*mib, 1)}},
		"a container without a state is killed": {
			pod("100Mi", status("app", 0, never, never)), pod("100Mi", status("app", 0, ended(killed, 1), never)),
			[]model.OOM{kill("app", 100*mib, 1)}},
		"it is still killed": {
			pod("100Mi", status("app", 0, ended(killed, 1), never)), pod("100Mi", status("app", 0, ended(killed, 1), never)), nil},
		"it ended otherwise before and is killed after a restart nobody saw": {
			pod("100Mi", status("app", 0, ended("Completed", 1), never)), pod("100Mi", status("app", 1, ended(killed, 2), never)),
			[]model.OOM{kill("app", 100*mib, 2)}},
		"it ended otherwise before and was not restarted": {
			pod("100Mi", status("app", 1, ended("Error", 1), never)), pod("100Mi", status("app", 1, ended(killed, 2), never)), nil},
		"it ends for another reason": {
			pod("100Mi", status("app", 0, running(), never)), pod("100Mi", status("app", 0, ended("Error", 1), never)), nil},
		"it was killed and runs again: the old request counts": {
			pod("100Mi", status("app", 3, running(), never)), pod("200Mi", status("app", 4, running(), ended(killed, 2))),
			[]model.OOM{kill("app", 100*mib, 2)}},
		"it runs on and was killed some time ago": {
			pod("100Mi", status("app", 4, running(), ended(killed, 2))), pod("100Mi", status("app", 4, running(), ended(killed, 2))), nil},
		"it was restarted for another reason": {
			pod("100Mi", status("app", 3, running(), never)), pod("100Mi", status("app", 4, running(), ended("Error", 2))), nil},
		"it waited after the kill and runs again, and is not reported twice": {
			pod("100Mi", status("app", 3, waiting(), ended(killed, 2))), pod("100Mi", status("app", 4, running(), ended(killed, 2))), nil},
		"it was seen killed, and runs again": {
			pod("100Mi", status("app", 3, ended(killed, 2), never)), pod("100Mi", status("app", 4, running(), ended(killed, 2))), nil},
		"it waits after a kill that nobody saw: the old request counts": {
			pod("100Mi", status("app", 3, running(), never)), pod("200Mi", status("app", 3, waiting(), ended(killed, 2))),
			[]model.OOM{kill("app", 100*mib, 2)}},
		"it waits again, and was killed in between": {
			pod("100Mi", status("app", 3, waiting(), ended(killed, 2))), pod("100Mi", status("app", 4, waiting(), ended(killed, 7))),
			[]model.OOM{kill("app", 100*mib, 7)}},
		"it waited and runs, and was killed in between": {
			pod("100Mi", status("app", 3, waiting(), ended(killed, 2))), pod("100Mi", status("app", 5, running(), ended(killed, 7))),
			[]model.OOM{kill("app", 100*mib, 7)}},
		"it was seen killed, and waits": {
			pod("100Mi", status("app", 3, ended(killed, 2), never)), pod("100Mi", status("app", 3, waiting(), ended(killed, 2))), nil},
		"it still waits": {
			pod("100Mi", status("app", 3, waiting(), ended(killed, 2))), pod("100Mi", status("app", 3, waiting(), ended(killed, 2))), nil},
		"it was killed some time ago, and waits for another reason": {
			pod("100Mi", status("app", 4, running(), ended(killed, 2))), pod("100Mi", status("app", 4, waiting(), ended(killed, 2))), nil},
		"an old kill comes back into the status": {
			pod("100Mi", status("app", 4, running(), ended("Error", 3))), pod("100Mi", status("app", 4, waiting(), ended(killed, 2))), nil},
		"two kills in one second": {
			pod("100Mi", status("app", 3, running(), of("one", ended(killed, 2)))), pod("100Mi", status("app", 4, running(), of("two", ended(killed, 2)))),
			[]model.OOM{kill("app", 100*mib, 2)}},
		"the status knows the request better": {
			pod("100Mi", status("app", 0, running(), never)), pod("100Mi", with(status("app", 0, ended(killed, 1), never), requests("150Mi"))),
			[]model.OOM{kill("app", 150*mib, 1)}},
		"the old status knows the request better": {
			pod("100Mi", with(status("app", 0, running(), never), requests("150Mi"))), pod("100Mi", with(status("app", 1, running(), ended(killed, 1)), requests("170Mi"))),
			[]model.OOM{kill("app", 150*mib, 1)}},
		"the status knows of no request": {
			pod("100Mi", status("app", 0, running(), never)), pod("100Mi", with(status("app", 0, ended(killed, 1), never), corev1.ResourceRequirements{})),
			[]model.OOM{kill("app", 0, 1)}},
		"nothing is requested": {
			pod("100Mi", status("side", 0, running(), never)), pod("100Mi", status("side", 0, ended(killed, 1), never)),
			[]model.OOM{kill("side", 0, 1)}},
		"the spec does not know the container": {
			pod("100Mi", status("stranger", 0, running(), never)), pod("100Mi", status("stranger", 0, ended(killed, 1), never)),
			[]model.OOM{kill("stranger", 0, 1)}},
		"more than int64 is requested": {
			pod("100Mi", status("app", 0, running(), never)), pod("1e30", status("app", 0, ended(killed, 1), never)),
			[]model.OOM{kill("app", 1<<63-1, 1)}},
		"two containers are killed, in another order of statuses": {
			pod("100Mi", status("side", 0, running(), never), status("app", 0, running(), never)),
			pod("100Mi", status("app", 0, ended(killed, 1), never), status("side", 1, running(), ended(killed, 2))),
			[]model.OOM{kill("app", 100*mib, 1), kill("side", 0, 2)}},
		"the old pod had no status": {
			pod("100Mi"), pod("100Mi", status("app", 1, ended(killed, 1), ended(killed, 1))), nil},
		"the new pod has no status": {
			pod("100Mi", status("app", 0, running(), never)), pod("100Mi"), nil},
		"a kill without a time": {
			pod("100Mi", status("app", 0, running(), never)),
			pod("100Mi", status("app", 0, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: killed}}, never)), nil},
		"there was no pod": {nil, pod("100Mi", status("app", 1, ended(killed, 1), ended(killed, 1))), nil},
		"there is no pod":  {pod("100Mi", status("app", 1, running(), ended(killed, 1))), nil, nil},
		"pods of nothing":  {&corev1.Pod{}, &corev1.Pod{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, FromPod(test.old, test.new))
		})
	}
}

func TestKillsOfBeforeAPodWasSeenAreFoundInItsStatus(t *testing.T) {
	const mib = 1 << 20
	never := corev1.ContainerState{}
	kill := func(container string, memory int64, minutes int) model.OOM {
		return model.OOM{Pod: model.PodID{Namespace: "shop", Name: "web-1"}, Container: container, Memory: memory, At: noon.Add(time.Duration(minutes) * time.Minute), Late: true}
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []model.OOM
	}{
		"it is killed now":       {pod("100Mi", status("app", 0, ended(killed, 1), never)), []model.OOM{kill("app", 100*mib, 1)}},
		"it runs again":          {pod("100Mi", status("app", 1, running(), ended(killed, 1))), []model.OOM{kill("app", 100*mib, 1)}},
		"it waits to run again":  {pod("100Mi", status("app", 1, waiting(), ended(killed, 1))), []model.OOM{kill("app", 100*mib, 1)}},
		"twice":                  {pod("100Mi", status("app", 1, ended(killed, 3), ended(killed, 1))), []model.OOM{kill("app", 100*mib, 1), kill("app", 100*mib, 3)}},
		"it ended otherwise":     {pod("100Mi", status("app", 1, running(), ended("Error", 1))), nil},
		"it never ended":         {pod("100Mi", status("app", 0, running(), never)), nil},
		"without a time":         {pod("100Mi", status("app", 0, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: killed}}, never)), nil},
		"two containers":         {pod("100Mi", status("side", 1, running(), ended(killed, 2)), status("app", 1, running(), ended(killed, 1))), []model.OOM{kill("side", 0, 2), kill("app", 100*mib, 1)}},
		"a pod without a status": {pod("100Mi"), nil},
		"no pod":                 {nil, nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, FromFirst(test.pod)) })
	}
}

func TestTheOnlyContainerWithoutARequestHasTheRestOfThePods(t *testing.T) {
	const mib = 1 << 20
	always := corev1.ContainerRestartPolicyAlways
	// whole is a pod with a memory request, whose containers request some memory each; "" for none.
	whole := func(request string, containers ...string) *corev1.Pod {
		r, p := requests(request), &corev1.Pod{}
		p.Spec.Resources = &r
		for i, memory := range containers {
			c := corev1.Container{Name: string(rune('a' + i))}
			if memory != "" {
				c.Resources = requests(memory)
			}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{status("a", 1, running(), ended(killed, 1))}
		return p
	}
	with := func(p *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
		change(p)
		return p
	}
	sidecar := func(memory string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			c := corev1.Container{Name: "proxy", RestartPolicy: &always}
			if memory != "" {
				c.Resources = requests(memory)
			}
			p.Spec.InitContainers = []corev1.Container{{Name: "init"}, c}
		}
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want int64
	}{
		"one container":                        {whole("2Gi", ""), 2048 * mib},
		"the others request some":              {whole("2Gi", "", "500Mi", "548Mi"), 1000 * mib},
		"another one requests none":            {whole("2Gi", "", "500Mi", ""), 0},
		"it has a request of its own":          {whole("2Gi", "100Mi"), 0},
		"the others request all":               {whole("2Gi", "", "2Gi"), 0},
		"the others request more":              {whole("2Gi", "", "3Gi", "3Gi"), 0},
		"the others request more than int64":   {whole("2Gi", "", "1e30", "1e30"), 0},
		"a sidecar requests some":              {with(whole("2Gi", ""), sidecar("48Mi")), 2000 * mib},
		"a sidecar requests none":              {with(whole("2Gi", ""), sidecar("")), 0},
		"the node applies another request":     {with(whole("2Gi", ""), func(p *corev1.Pod) { r := requests("1Gi"); p.Status.Resources = &r }), 1024 * mib},
		"the pod requests no memory":           {with(whole("2Gi", ""), func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{} }), 0},
		"the pod has no resources":             {with(whole("2Gi", ""), func(p *corev1.Pod) { p.Spec.Resources = nil }), 0},
		"the spec does not know the container": {with(whole("2Gi", ""), func(p *corev1.Pod) { p.Spec.Containers = nil }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := FromFirst(test.pod)
			require.Len(t, got, 1)
			require.Equal(t, test.want, got[0].Share)
			before := test.pod.DeepCopy()
			before.Status.ContainerStatuses[0] = status("a", 0, running(), corev1.ContainerState{})
			got = FromPod(before, test.pod)
			require.Len(t, got, 1)
			require.Equal(t, test.want, got[0].Share)
		})
	}
}

func TestInitContainersAreNotReported(t *testing.T) {
	old, now := pod("1Gi"), pod("1Gi")
	old.Status.InitContainerStatuses = []corev1.ContainerStatus{status("app", 0, running(), corev1.ContainerState{})}
	now.Status.InitContainerStatuses = []corev1.ContainerStatus{status("app", 0, ended(killed, 1), corev1.ContainerState{})}
	require.Empty(t, FromPod(old, now))
	require.Empty(t, FromFirst(now))
}

func BenchmarkPodWithoutKills(b *testing.B) {
	p := pod("1Gi", status("side", 0, running(), corev1.ContainerState{}), status("app", 1, running(), ended("Error", 1)))
	b.ReportAllocs()
	for b.Loop() {
		FromPod(p, p)
	}
}
