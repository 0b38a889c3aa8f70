package poddefaults

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// read decodes an object.
func read(t *testing.T, text string, into any) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), into), text)
}

// requireResources compares resources as JSON.
func requireResources(t *testing.T, want string, got any) {
	t.Helper()
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, want, string(text))
}

// TestPodsHaveTheDefaultsThatAnAPIServerGivesThem before it asks webhooks. Whether it does is shown by
// the tests on the lab.
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
			var pod corev1.Pod
			read(t, "{spec: {resources: {limits: {cpu: 4}}, containers: [{name: a, resources: "+orEmpty(tt.resources)+"}], initContainers: [{name: b, resources: "+orEmpty(tt.resources)+"}]}}", &pod)
			var ranges []corev1.LimitRange // the last first
			for i, items := range strings.Split(tt.ranges, "\n") {
				var limitRange corev1.LimitRange
				read(t, "{metadata: {name: "+string(rune('a'+i))+"}, spec: {limits: ["+items+"]}}", &limitRange)
				LimitRange(&limitRange)
				ranges = append([]corev1.LimitRange{limitRange}, ranges...)
			}
			before := pod.DeepCopy()
			BeforeWebhooks(&pod, ranges)
			for _, c := range []corev1.Container{pod.Spec.Containers[0], pod.Spec.InitContainers[0]} {
				requireResources(t, tt.want, c.Resources)
			}
			require.Equal(t, before.Spec.Resources, pod.Spec.Resources, "filled in after the webhooks")
			again := pod.DeepCopy()
			BeforeWebhooks(again, ranges)
			require.Equal(t, &pod, again, "once is enough")
		})
	}
}

func orEmpty(resources string) string {
	if resources == "" {
		return "{}"
	}
	return resources
}

// TestPodsAreCompletedAtPodLevel by what their containers ask for together, else by their limits.
func TestPodsAreCompletedAtPodLevel(t *testing.T) {
	const two = "containers: [{name: a, resources: {%s}}, {name: b, resources: {%s}}]"
	with := func(a, b string) string { return strings.Replace(strings.Replace(two, "%s", a, 1), "%s", b, 1) }
	for name, tt := range map[string]struct{ spec, ranges, want string }{
		"no resources":                             {spec: with("limits: {cpu: 1}", "limits: {cpu: 1}"), want: `null`},
		"an empty stanza is none":                  {spec: "resources: {}, " + with("limits: {cpu: 1}", "limits: {cpu: 1}"), want: `{}`},
		"limits alone are requested":               {spec: "resources: {limits: {cpu: 2, memory: 1Gi}}, " + with("", ""), want: `{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"2","memory":"1Gi"}}`},
		"requests of containers go before a limit": {spec: "resources: {limits: {cpu: 2}}, " + with("requests: {cpu: 100m}", "requests: {cpu: 200m, memory: 1Mi}"), want: `{"limits":{"cpu":"2"},"requests":{"cpu":"300m","memory":"1Mi"}}`},
		"limits of containers are requests, too":   {spec: "resources: {limits: {cpu: 2}}, " + with("limits: {cpu: 100m}", ""), want: `{"limits":{"cpu":"2"},"requests":{"cpu":"100m"}}`},
		"what is requested stays":                  {spec: "resources: {requests: {cpu: 500m}, limits: {cpu: 2}}, " + with("requests: {cpu: 100m}", ""), want: `{"limits":{"cpu":"2"},"requests":{"cpu":"500m"}}`},
		"a request of one resource":                {spec: "resources: {requests: {cpu: 500m}}, " + with("requests: {memory: 1Mi}", ""), want: `{"requests":{"cpu":"500m","memory":"1Mi"}}`},
		"all containers have limits":               {spec: "resources: {requests: {cpu: 100m}}, " + with("limits: {cpu: 100m}", "limits: {cpu: 200m}"), want: `{"limits":{"cpu":"300m"},"requests":{"cpu":"100m"}}`},
		"a limit is not below the request":         {spec: "resources: {requests: {cpu: 1}}, " + with("limits: {cpu: 100m}", "limits: {cpu: 200m}"), want: `{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}`},
		"an init container has none":               {spec: "resources: {requests: {cpu: 1}}, initContainers: [{name: i}], " + with("limits: {cpu: 100m}", "limits: {cpu: 200m}"), want: `{"requests":{"cpu":"1"}}`},
		"an init container asks for more":          {spec: "resources: {limits: {cpu: 4}}, initContainers: [{name: i, resources: {requests: {cpu: 1}}}], " + with("requests: {cpu: 100m}", ""), want: `{"limits":{"cpu":"4"},"requests":{"cpu":"1"}}`},
		"a sidecar counts beside the others":       {spec: "resources: {limits: {cpu: 4}}, initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 1}}}], " + with("requests: {cpu: 100m}", ""), want: `{"limits":{"cpu":"4"},"requests":{"cpu":"1100m"}}`},
		"huge pages":                               {spec: "resources: {requests: {cpu: 1}}, " + with("limits: {hugepages-2Mi: 4Mi}", "limits: {hugepages-2Mi: 2Mi}"), want: `{"limits":{"hugepages-2Mi":"6Mi"},"requests":{"cpu":"1","hugepages-2Mi":"6Mi"}}`},
		"other resources are not of pods":          {spec: "resources: {limits: {cpu: 1}}, " + with("limits: {example.com/gpu: 1, ephemeral-storage: 1Gi}", ""), want: `{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}`},
		"finer than a thousandth":                  {spec: "resources: {limits: {cpu: 100100u}}, " + with("", ""), want: `{"limits":{"cpu":"101m"},"requests":{"cpu":"101m"}}`},
		"what a LimitRange gives to containers":    {spec: "resources: {limits: {cpu: 2}}, " + with("", ""), ranges: "{type: Container, defaultRequest: {cpu: 50m, memory: 1Mi}}", want: `{"limits":{"cpu":"2"},"requests":{"cpu":"100m","memory":"2Mi"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var pod corev1.Pod
			read(t, "{spec: {"+tt.spec+"}}", &pod)
			var ranges corev1.LimitRange
			read(t, "{spec: {limits: ["+tt.ranges+"]}}", &ranges)
			LimitRange(&ranges)
			Create(&pod, []corev1.LimitRange{ranges})
			requireResources(t, tt.want, pod.Spec.Resources)
			again := pod.DeepCopy()
			Create(again, []corev1.LimitRange{ranges})
			require.Equal(t, &pod, again, "once is enough")
		})
	}
}

// TestAPodThatAnAPIServerHasStoredIsLeftAsItIs at pod level: a resize may have given its containers
// limits since.
func TestAPodThatAnAPIServerHasStoredIsLeftAsItIs(t *testing.T) {
	const spec = "spec: {resources: {requests: {cpu: 1}}, containers: [{name: a, resources: {limits: {cpu: 100m}}}]}"
	for metadata, want := range map[string]string{
		"{name: p}":                       `{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}`,
		"{name: p, uid: a}":               `{"requests":{"cpu":"1"}}`,
		"{name: p, resourceVersion: '1'}": `{"requests":{"cpu":"1"}}`,
	} {
		var pod corev1.Pod
		read(t, "{metadata: "+metadata+", "+spec+"}", &pod)
		Running(&pod)
		requireResources(t, want, pod.Spec.Resources)
		requireResources(t, `{"limits":{"cpu":"100m"},"requests":{"cpu":"100m"}}`, pod.Spec.Containers[0].Resources)
	}
}
