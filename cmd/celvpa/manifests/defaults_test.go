package manifests

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestPodsHaveTheDefaultsThatAnAPIServerGivesThem before it asks webhooks. Whether it does, the tests on the lab tell.
func TestPodsHaveTheDefaultsThatAnAPIServerGivesThem(t *testing.T) {
	const cpuAndMemory = `{type: Container, default: {cpu: 500m, memory: 1Gi}, defaultRequest: {cpu: 100m}}`
	for name, tt := range map[string]struct {
		resources string
		ranges    string // items of a LimitRange called a, and of one called b, from the second line on
		want      string
	}{
		"nothing":                                    {want: `{}`},
		"a request alone":                            {resources: `{requests: {cpu: 1}}`, want: `{"requests":{"cpu":"1"}}`},
		"a limit is requested":                       {resources: `{limits: {cpu: 1, memory: 1Gi}}`, want: `{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}`},
		"for each resource":                          {resources: `{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 500m}}`, want: `{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m","memory":"1Gi"}}`},
		"of any resource":                            {resources: `{limits: {example.com/gpu: 2}}`, want: `{"limits":{"example.com/gpu":"2"},"requests":{"example.com/gpu":"2"}}`},
		"nothing is finer than a thousandth":         {resources: `{requests: {cpu: 100100u, memory: 1500u}}`, want: `{"requests":{"cpu":"101m","memory":"2m"}}`},
		"a LimitRange":                               {ranges: cpuAndMemory, want: `{"limits":{"cpu":"500m","memory":"1Gi"},"requests":{"cpu":"100m","memory":"1Gi"}}`},
		"a LimitRange leaves alone what is asked":    {resources: `{limits: {cpu: 300m}, requests: {memory: 1Mi}}`, ranges: cpuAndMemory, want: `{"limits":{"cpu":"300m","memory":"1Gi"},"requests":{"cpu":"300m","memory":"1Mi"}}`},
		"a maximum is a limit and a request":         {ranges: `{type: Container, max: {cpu: 2}}`, want: `{"limits":{"cpu":"2"},"requests":{"cpu":"2"}}`},
		"a minimum is a request":                     {ranges: `{type: Container, min: {cpu: 50m}}`, want: `{"requests":{"cpu":"50m"}}`},
		"a default goes before both":                 {ranges: `{type: Container, min: {cpu: 50m}, max: {cpu: 2}, default: {cpu: 1}}`, want: `{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}`},
		"the last item counts":                       {ranges: `{type: Container, default: {cpu: 2}}, {type: Container, default: {cpu: 1}}`, want: `{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}`},
		"the first LimitRange by name counts":        {ranges: "{type: Container, default: {cpu: 2}}\n{type: Container, default: {cpu: 1, memory: 1Gi}}", want: `{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"2","memory":"1Gi"}}`},
		"LimitRanges of pods and claims do not":      {ranges: `{type: Pod, max: {cpu: 2}}, {type: PersistentVolumeClaim, max: {storage: 1Gi}}`, want: `{}`},
		"a default below what is requested is taken": {resources: `{requests: {cpu: 4}}`, ranges: cpuAndMemory, want: `{"limits":{"cpu":"500m","memory":"1Gi"},"requests":{"cpu":"4","memory":"1Gi"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			text := "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {resources: {limits: {cpu: 4}}, containers: [{name: a, resources: " + orEmpty(tt.resources) +
				"}], initContainers: [{name: b, resources: " + orEmpty(tt.resources) + "}]}}\n"
			for i, items := range lines(tt.ranges) {
				text = "{apiVersion: v1, kind: LimitRange, metadata: {name: " + string(rune('a'+i)) + "}, spec: {limits: [" + items + "]}}\n---\n" + text // the last first
			}
			set, err := read(text)
			require.NoError(t, err)
			ranges, err := set.LimitRanges()
			require.NoError(t, err)
			pods, err := set.NewPods(nil)
			require.NoError(t, err)
			before := pods[0].Pod.DeepCopy()
			pod := pods[0].Pod.DeepCopy()
			DefaultRequests(pod, ranges)
			for _, c := range []corev1.Container{pod.Spec.Containers[0], pod.Spec.InitContainers[0]} {
				got, err := json.Marshal(c.Resources)
				require.NoError(t, err)
				require.JSONEq(t, tt.want, string(got))
			}
			require.Equal(t, before.Spec.Resources, pod.Spec.Resources, "filled in after the webhooks")
			again := pod.DeepCopy()
			DefaultRequests(again, ranges)
			require.Equal(t, pod, again, "once is enough")
		})
	}
}

func orEmpty(resources string) string {
	if resources == "" {
		return "{}"
	}
	return resources
}
