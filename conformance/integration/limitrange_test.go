package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// limitRangesAreKept: the worked examples 1 to 7 (UPSTREAM.md §3.8), and pods that LimitRanger refuses
// as upstream would change them. It judges the patched pods.
func limitRangesAreKept(t *testing.T) {
	examples := []struct {
		name, items, pod, recommendation string
		want                             []string
		updates                          string
	}{
		{"a container's limit is at the maximum", "[{type: Container, max: {cpu: 300m, memory: 1Gi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}}]",
			"[{containerName: a, target: {cpu: 250m, memory: 200Mi}}]",
			[]string{"200m/300m 200Mi/400Mi"}, "container 0: cpu capped to fit Max in container LimitRange, cpu request, memory request, cpu limit, memory limit"},
		{"a container's request is at the minimum", "[{type: Container, min: {cpu: 50m, memory: 250Mi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}}]",
			"[{containerName: a, target: {cpu: 250m, memory: 100Mi}}]",
			[]string{"250m/375m 250Mi/500Mi"}, "container 0: memory capped to fit Min in container LimitRange, cpu request, memory request, cpu limit, memory limit"},
		{"limits of a pod are at the maximum", "[{type: Pod, max: {cpu: 600m, memory: 1Gi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}}, {name: b, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}}]",
			"[{containerName: a, target: {cpu: 250m, memory: 200Mi}}, {containerName: b, target: {cpu: 250m, memory: 200Mi}}]",
			[]string{"200m/300m 200Mi/400Mi", "200m/300m 200Mi/400Mi"}, "container 0: cpu capped to fit Max in pod LimitRange, cpu request, memory request, cpu limit, memory limit; container 1: cpu capped to fit Max in pod LimitRange, cpu request, memory request, cpu limit, memory limit"},
		{"requests of a pod are at the minimum", "[{type: Pod, min: {cpu: 100m, memory: 500Mi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}}, {name: b, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}}]",
			"[{containerName: a, target: {cpu: 120m, memory: 100Mi}}, {containerName: b, target: {cpu: 120m, memory: 100Mi}}]",
			[]string{"120m/180m 250Mi/500Mi", "120m/180m 250Mi/500Mi"}, ""},
		{"a container without a recommendation gives, too", "[{type: Pod, max: {cpu: 400m, memory: 1Gi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 100m, memory: 100Mi}}}, {name: b, resources: {requests: {cpu: 400m, memory: 600Mi}, limits: {cpu: 400m, memory: 600Mi}}}]",
			"[{containerName: a, target: {cpu: 400m, memory: 600Mi}}]",
			[]string{"200m/200m 512Mi/512Mi", "200m/200m 512Mi/512Mi"}, ""},
		{"CPU is rounded up to a minimum", "[{type: Pod, min: {cpu: 150m}}]",
			"[{name: a, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: b, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: c, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}]",
			"[{containerName: a, target: {cpu: 4m}}, {containerName: b, target: {cpu: 21m}}, {containerName: c, target: {cpu: 90m}}]",
			[]string{"6m/6m -/-", "28m/28m -/-", "118m/118m -/-"}, ""},
		{"and so is memory, with limits or without", "[{type: Pod, min: {memory: 400Mi}}]",
			"[{name: a, resources: {requests: {memory: 300Mi}}}, {name: b, resources: {requests: {memory: 200Mi}}}]",
			"[{containerName: a, target: {memory: 100Mi}}, {containerName: b, target: {memory: 50Mi}}]",
			[]string{"-/- 279620267/-", "-/- 139810134/-"}, ""},
		{"requests are at the maximum where few containers have limits", "[{type: Pod, max: {memory: 440Mi}}]",
			"[{name: a, resources: {requests: {memory: 100Mi}}}, {name: b, resources: {requests: {memory: 100Mi}, limits: {memory: 100Mi}}}]",
			"[{containerName: a, target: {memory: 500Mi}}, {containerName: b, target: {memory: 50Mi}}]",
			[]string{"-/- 400Mi/-", "-/- 40Mi/40Mi"}, ""},
		{"and down to a maximum", "[{type: Pod, max: {cpu: 80m}}]",
			"[{name: a, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: b, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: c, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}]",
			"[{containerName: a, target: {cpu: 4m}}, {containerName: b, target: {cpu: 21m}}, {containerName: c, target: {cpu: 90m}}]",
			[]string{"2m/2m -/-", "14m/14m -/-", "62m/62m -/-"}, ""},
	}
	workloads := make([]workload, len(examples))
	for i, e := range examples {
		ns := namespace(t, fmt.Sprintf("np-range-%d", i+1))
		limitRange(t, ns, "range", e.items)
		workloads[i] = newWorkload(t, ns, "w", "", "containerRecommendations: "+e.recommendation)
	}
	seen(t, "np-range")
	for i, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			p := workloads[i].created(t, "containers: "+e.pod)
			has(t, p, e.want...)
			if e.updates != "" {
				require.Equal(t, e.updates, updates(p))
			}
		})
	}
}
