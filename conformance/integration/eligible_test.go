package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// whichPodsWithinTheirRange are updated nevertheless: old pods off their target, and pods that were
// OOM-killed recently, soon after their start (UPSTREAM.md §5.3, AEP-8026).
func whichPodsWithinTheirRange(t *testing.T) {
	ns := namespace(t, "up-range")
	within := func(cpu, memory string) string {
		return "containerRecommendations: [{containerName: a, target: {cpu: " + cpu + ", memory: " + memory + "}, lowerBound: {cpu: 10m, memory: 10Mi}, upperBound: {cpu: 2, memory: 2Gi}}]"
	}
	started := func(ago time.Duration) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) { s.StartTime = ptr.To(metav1.NewTime(time.Now().Add(-ago))) }
	}
	killed := func(lasted, ago time.Duration) func(*corev1.PodStatus) {
		end := time.Now().Add(-ago)
		return func(s *corev1.PodStatus) {
			s.ContainerStatuses[0].RestartCount = 1
			s.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "OOMKilled", StartedAt: metav1.NewTime(end.Add(-lasted)), FinishedAt: metav1.NewTime(end)}
		}
	}
	const inPlace = "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}"
	const sidecar = "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}, {name: b, resources: {requests: {cpu: 100m, memory: 100Mi}}}]"
	all := map[string]struct {
		pod, spec, recommendation string
		status                    func(*corev1.PodStatus)
		becomes                   string // requests; empty = it stays as it is
	}{
		"young":       {recommendation: within("200m", "200Mi")},
		"aged":        {recommendation: within("200m", "200Mi"), status: started(13 * time.Hour), becomes: "200m/- 200Mi/-"},
		"close":       {recommendation: within("104m", "104Mi"), status: started(13 * time.Hour)},
		"killed":      {recommendation: within("200m", "200Mi"), status: killed(time.Minute, time.Minute), becomes: "200m/- 200Mi/-"},
		"equal":       {recommendation: within("100m", "100Mi"), status: killed(time.Minute, time.Minute)},
		"patient":     {spec: "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1, evictAfterOOMSeconds: 30}", recommendation: within("200m", "200Mi"), status: killed(time.Minute, 0)},
		"impatient":   {spec: "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1, evictAfterOOMSeconds: 3600}", recommendation: within("200m", "200Mi"), status: killed(30*time.Minute, 30*time.Minute), becomes: "200m/- 200Mi/-"},
		"lasting":     {recommendation: within("200m", "200Mi"), status: killed(time.Hour, time.Minute)},
		"longago":     {recommendation: within("200m", "200Mi"), status: killed(time.Minute, time.Hour)},
		"required":    {spec: "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1, evictionRequirements: [{resources: [cpu, memory], changeRequirement: TargetLowerThanRequests}]}", recommendation: target("200m", "200Mi")},
		"unrequired":  {spec: "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1, evictionRequirements: [{resources: [cpu, memory], changeRequirement: TargetHigherThanRequests}]}", recommendation: target("200m", "200Mi"), becomes: "200m/- 200Mi/-"},
		"uncontained": {pod: sidecar, recommendation: "containerRecommendations: [" + targetOf("b", "200m", "200Mi") + "]"},
	}
	before := map[string]map[types.UID]corev1.Pod{}
	for app, c := range all {
		if c.pod == "" {
			c.pod = small
		}
		create(t, deployment(t, ns, app, 1, c.pod))
	}
	for app, c := range all {
		before[app] = up(t, ns, app, 1)
		for _, p := range before[app] {
			if c.pod == sidecar {
				annotate(t, &p, "vpaObservedContainers", "a")
			}
			if c.status != nil {
				c.status(&p.Status)
				require.NoError(t, cluster.Status().Update(t.Context(), &p))
			}
		}
		if c.spec == "" {
			c.spec = inPlace
		}
		watchedOver(t, ns, app, c.spec, c.recommendation)
	}
	u := startUpdater(t, ns)
	for app, c := range all {
		if c.becomes != "" {
			become(t, ns, app, 1, c.becomes)
		}
	}
	u.cycles(1)
	for app, c := range all {
		for _, p := range same(t, ns, app, before[app]) {
			if c.becomes == "" {
				require.Equal(t, "100m/- 100Mi/-", sizesOf(&p)[0], app)
			}
		}
	}
	require.Zero(t, u.requests.of("eviction", ""))
}
