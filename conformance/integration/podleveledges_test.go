package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inPlace is a VPA with a gated mode (AEP-8818).
type inPlace struct{ workload }

func newInPlace(t *testing.T) inPlace {
	return inPlace{newWorkload(t, namespace(t, "np-inplace"), "w", "updatePolicy: {updateMode: InPlace}", both)}
}

func (w inPlace) applies(t *testing.T) {
	has(t, w.created(t, "containers: [{name: a}, {name: b}]"), "200m/- 200Mi/-", "100m/- 100Mi/-")
}

// aDryRunLeavesNoTrace: neither of the pod nor on its VPA.
func aDryRunLeavesNoTrace(t *testing.T) {
	ns := namespace(t, "np-dry")
	w := newWorkload(t, ns, "w", "", both)
	seen(t, ns)
	before := versions(t, ns)
	has(t, w.created(t, "containers: [{name: a}]"), "200m/- 200Mi/-")
	require.Empty(t, pods(t, ns))
	require.Equal(t, before, versions(t, ns))
	var events corev1.EventList
	require.NoError(t, cluster.List(t.Context(), &events, client.InNamespace(ns)))
	require.Empty(t, events.Items)
}

// oddPodsAndOddRecommendations are admitted, and patched where possible.
func oddPodsAndOddRecommendations(t *testing.T) {
	ns := namespace(t, "np-odd")
	w := newWorkload(t, ns, "w", "", both)
	stale := newWorkload(t, ns, "stale", "", "containerRecommendations: [{containerName: gone, target: {cpu: 5}}, {containerName: a, target: {cpu: 200m, example.com/gpu: 3}}]")
	gone := newWorkload(t, ns, "gone", "", "containerRecommendations: [{containerName: gone, target: {cpu: 5, memory: 5Gi}}]")
	none := newWorkload(t, ns, "none", "", "")
	nothing := newWorkload(t, ns, "nothing", "", "containerRecommendations: [{containerName: a, target: {cpu: 0, memory: 0}}]")
	negative := newWorkload(t, ns, "negative", "", "containerRecommendations: [{containerName: a, target: {cpu: -200m, memory: 200Mi}}]")
	seen(t, ns)

	for name, tt := range map[string]struct {
		of                  workload
		spec, want, updates string
	}{
		"1e3 of memory":                    {w, "{requests: {memory: 1e3}, limits: {memory: 2e3}}", "200m/- 200Mi/400Mi", "container 0: cpu: limit NOT set since originalLimit is nil or 0, cpu request, memory request, memory limit"},
		"a tenth of a byte":                {w, "{requests: {memory: 100m}}", "200m/- 200Mi/-", "container 0: cpu request, memory request"},
		"less than a milli-core":           {w, "{requests: {cpu: 100u}, limits: {cpu: 2m}}", "200m/400m 200Mi/-", "container 0: memory: limit NOT set since originalLimit is nil or 0, cpu request, memory request, cpu limit"},
		"requests of zero":                 {w, "{requests: {cpu: 0, memory: 0}}", "200m/- 200Mi/-", "container 0: cpu request, memory request"},
		"zero for everything":              {w, "{requests: {cpu: 0}, limits: {cpu: 0}}", "0/0 200Mi/-", ""},
		"an extended resource":             {w, "{requests: {cpu: 10m}, limits: {example.com/gpu: 2}}", "200m/- 200Mi/-", "container 0: cpu request, memory request"},
		"a recommendation for others, too": {stale, "{requests: {cpu: 100m}}", "200m/- -/-", "container 0: cpu request"},
		"only for others":                  {gone, "{requests: {cpu: 100m}}", "100m/- -/-", ""},
		"no recommendation":                {none, "{requests: {cpu: 100m}}", "100m/- -/-", ""},
		"nothing recommended":              {nothing, "{requests: {cpu: 100m}}", "0/- 0/-", "container 0: cpu request, memory request"},
		"less than nothing recommended":    {negative, "{requests: {cpu: 100m}}", "100m/- 200Mi/-", "container 0: memory request"},
	} {
		t.Run(name, func(t *testing.T) {
			p := tt.of.created(t, fmt.Sprintf("containers: [{name: a, resources: %s}]", tt.spec))
			require.Equal(t, "a", p.Annotations["vpaObservedContainers"])
			if tt.want != "" {
				has(t, p, tt.want)
			}
			if tt.updates != "" {
				require.Equal(t, tt.updates, updates(p))
			}
			if gpu, ok := p.Spec.Containers[0].Resources.Limits["example.com/gpu"]; ok {
				require.Equal(t, "2", gpu.String())
			}
		})
	}
	// API servers give such a pod a request for CPU that rules cannot count, and the last check compares.
	t.Run("more CPU in a sidecar than can be added up", func(t *testing.T) {
		p := w.created(t, `
initContainers: [{name: proxy, restartPolicy: Always, resources: {requests: {cpu: 1E}}}]
containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}]
resources: {requests: {memory: 100Mi}}`)
		has(t, p, "pod 1000000000000000000100m/- 300Mi/-", "100m/- 200Mi/-")
		require.Contains(t, updates(p), "cpu is not changed: its containers would request 1E of cpu together")
	})
}

// fiveHundredContainers: the API server accepts them, and the webhook answers within its timeout.
func fiveHundredContainers(t *testing.T) {
	ns := namespace(t, "np-many")
	limitRange(t, ns, "pods", "[{type: Pod, max: {cpu: 100k}}]")
	spec, recommendation := "containers:\n", "containerRecommendations:\n"
	for i := range 500 {
		spec += fmt.Sprintf("- {name: c%d, resources: {requests: {cpu: 10m, memory: 1Mi}, limits: {cpu: 20m}}}\n", i)
		recommendation += fmt.Sprintf("- {containerName: c%d, target: {cpu: %dm, memory: 2Mi}}\n", i, i+1)
	}
	w := newWorkload(t, ns, "w", "", recommendation)
	seen(t, ns)
	begin := time.Now()
	p := w.created(t, spec)
	t.Logf("in %s", time.Since(begin).Round(time.Millisecond))
	require.Len(t, p.Spec.Containers, 500)
	for i := range p.Spec.Containers {
		require.Equal(t, fmt.Sprintf("%d/%d", i+1, 2*i+2), fmt.Sprintf("%d/%d", p.Spec.Containers[i].Resources.Requests.Cpu().MilliValue(), p.Spec.Containers[i].Resources.Limits.Cpu().MilliValue()))
	}
}
