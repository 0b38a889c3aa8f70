package manifests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

const templated = `{apiVersion: %s, kind: %s, metadata: {namespace: web, name: shop}, spec: {selector: {matchLabels: {app: shop}}, %s: {metadata: {name: other, labels: {app: shop}, annotations: {a: b}}, spec: {containers: [{name: app}]}}}}
---
`

// Pods have a name or a prefix, and an owner that leads to the workload.
func TestWorkloadsGiveThePodsThatTheirControllersWouldMake(t *testing.T) {
	for name, tt := range map[string]struct{ text, key, owner, labels string }{
		"a Deployment":            {fmt.Sprintf(templated, "apps/v1", "Deployment", "template"), "web/shop-", "apps/v1 ReplicaSet shop-%", "app"},
		"a StatefulSet":           {fmt.Sprintf(templated, "apps/v1", "StatefulSet", "template"), "web/shop-0", "apps/v1 StatefulSet shop", "app"},
		"a StatefulSet from 5 on": {fmt.Sprintf(templated, "apps/v1", "StatefulSet", "ordinals: {start: 5}, template"), "web/shop-5", "apps/v1 StatefulSet shop", "app"},
		"a DaemonSet":             {fmt.Sprintf(templated, "apps/v1", "DaemonSet", "template"), "web/shop-", "apps/v1 DaemonSet shop", "app"},
		"a ReplicaSet":            {fmt.Sprintf(templated, "apps/v1", "ReplicaSet", "template"), "web/shop-", "apps/v1 ReplicaSet shop", "app"},
		"a Job":                   {strings.Replace(fmt.Sprintf(templated, "batch/v1", "Job", "template"), "selector: {matchLabels: {app: shop}}, ", "", 1), "web/shop-", "batch/v1 Job shop", "app batch.kubernetes.io/controller-uid batch.kubernetes.io/job-name"},
		"a CronJob":               {strings.Replace(fmt.Sprintf(templated, "batch/v1", "CronJob", "jobTemplate: {spec: {template"), "}}}}\n", "}}}}}}\n", 1), "web/shop-", "batch/v1 Job shop-%", "app"},
		"a ReplicationController": {strings.Replace(fmt.Sprintf(templated, "v1", "ReplicationController", "template"), "{matchLabels: {app: shop}}", "{app: shop}", 1), "web/shop-", "v1 ReplicationController shop", "app"},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := read(tt.text)
			require.NoError(t, err)
			workloads, err := set.Workloads()
			require.NoError(t, err)
			pods, err := set.NewPods(workloads)
			require.NoError(t, err)
			require.Len(t, pods, 1)
			pod := pods[0]
			require.Equal(t, tt.key, pod.Key())
			require.Equal(t, "pod "+tt.key+" of "+workloads[0].String(), pod.String())
			owner := pod.Pod.OwnerReferences[0]
			require.True(t, *owner.Controller)
			require.Equal(t, tt.owner, owner.APIVersion+" "+owner.Kind+" "+owner.Name)
			var names []string
			for name := range pod.Pod.Labels {
				names = append(names, name)
			}
			require.ElementsMatch(t, strings.Fields(tt.labels), names)
			require.Equal(t, map[string]string{"a": "b"}, pod.Pod.Annotations)
			require.Equal(t, []corev1.Container{{Name: "app"}}, pod.Pod.Spec.Containers)
			require.Equal(t, map[string]any{"containers": []any{map[string]any{"name": "app"}}}, pod.Object["spec"], "as it was written")
			require.NotContains(t, pod.Object["metadata"], "ownerReferences")
		})
	}
	for _, none := range []string{
		`{apiVersion: v1, kind: ReplicationController, metadata: {name: shop}, spec: {}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: shop}}`,
	} {
		set, err := read(none)
		require.NoError(t, err)
		workloads, err := set.Workloads()
		require.NoError(t, err)
		pods, err := set.NewPods(workloads)
		require.NoError(t, err)
		require.Empty(t, pods, none)
	}
}

// Manifests rarely hold ReplicaSets and Jobs, but pods name them.
func TestWhatIsBetweenIsFoundByItsName(t *testing.T) {
	set, err := read(fmt.Sprintf(templated, "apps/v1", "Deployment", "template") + fmt.Sprintf(templated, "batch/v1", "CronJob", "a") + fmt.Sprintf(templated, "apps/v1", "DaemonSet", "template"))
	require.NoError(t, err)
	workloads, err := set.Workloads()
	require.NoError(t, err)
	require.Len(t, workloads, 3)
	for _, tt := range []struct {
		of, kind, name string
		want           bool
	}{
		{"Deployment", "ReplicaSet", "shop-7c5687bd57", true},
		{"Deployment", "ReplicaSet", "shop-front-7c5687bd57", false},
		{"Deployment", "ReplicaSet", "shop-front", false},
		{"Deployment", "ReplicaSet", "shop", false},
		{"Deployment", "Job", "shop-7c5687bd57", false},
		{"CronJob", "Job", "shop-29384756", true},
		{"CronJob", "Job", "shop-by-hand", false},
		{"DaemonSet", "ReplicaSet", "shop-7c5687bd57", false},
	} {
		for i := range workloads {
			if w := &workloads[i]; w.Kind == tt.of {
				made, makes := w.MakesNamed(tt.kind, tt.name)
				require.Equal(t, tt.want, makes, "%v", tt)
				if makes {
					require.Equal(t, tt.kind+" web/"+tt.name, made.String())
					require.Equal(t, w.Name, made.Object.GetOwnerReferences()[0].Name)
				}
			}
		}
	}
}

// An object may have hundreds of amounts, so the error names the field.
func TestAmountsThatAreNoneAreNamed(t *testing.T) {
	pod := func(spec string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {" + spec + "}}"
	}
	for name, tt := range map[string]struct{ text, want string }{
		"of a container":  {pod("containers: [{name: a}, {name: b, resources: {limits: {memory: 1 Gi}}}]"), `standard input:1: Pod default/p cannot be read: spec.containers[1].resources.limits.memory is "1 Gi", which is not a quantity: write it like 500m, 2 or 1Gi`},
		"of the pod":      {pod("resources: {requests: {cpu: lots}}, containers: [{name: a}]"), `spec.resources.requests.cpu is "lots", which is not a quantity`},
		"yes":             {pod("containers: [{name: a, resources: {requests: {cpu: true}}}]"), `spec.containers[0].resources.requests.cpu is true, which is not a quantity`},
		"another mistake": {pod("containers: {name: a}"), `standard input:1: Pod default/p cannot be read: spec.containers is a mapping, and must be a list`},
		"without end":     {pod("containers: [{name: a, resources: {requests: {cpu: '1e999999999'}}}]"), `spec.containers[0].resources.requests.cpu is "1e999999999": an exponent has at most three digits`},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := read(tt.text + "\n---\n" + pod("containers: [{name: good}]"))
			require.NoError(t, err)
			pods, err := set.NewPods(nil)
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, pods, "the name is taken, though nothing is known of it")
		})
	}
	set, err := read("{apiVersion: v1, kind: LimitRange, metadata: {name: r}, spec: {limits: [{type: Container, max: {cpu: 1 core}}]}}")
	require.NoError(t, err)
	_, err = set.LimitRanges()
	require.ErrorContains(t, err, `LimitRange default/r cannot be read: spec.limits[0].max.cpu is "1 core", which is not a quantity`)
}

// Webhooks make no difference.
func TestWhatAPIServersRefuseIsReported(t *testing.T) {
	set, err := read(`{apiVersion: v1, kind: Pod, metadata: {name: none}, spec: {}}
---
{apiVersion: v1, kind: Pod, metadata: {name: odd}, spec: {resources: {limits: {cpu: 1, gpu: 1, hugepages-2Mi: 2Mi}, requests: {cpu: 2}}, containers: [
  {name: a, resources: {requests: {cpu: -1, memory: 0, gpu: 1, example.com/gpu: 1}, limits: {cpu: 100m, memory: 0}}}], initContainers: [{name: b, resources: {requests: {memory: 2}, limits: {memory: 1}}}]}}
`)
	require.NoError(t, err)
	pods, err := set.NewPods(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"spec.containers is empty: a pod needs a container"}, PodFaults(pods[0].Pod))
	const unknown = " is not a resource that containers can request: write cpu or memory, or the full name of another one, like example.com/gpu"
	require.Equal(t, []string{
		"spec.containers[0].resources.requests[cpu] is -1: amounts cannot be negative",
		"spec.containers[0].resources.requests[gpu]" + unknown,
		"spec.initContainers[0].resources.requests[memory] is 2, more than its limit 1",
		"spec.resources.limits[gpu]" + unknown,
		"spec.resources.requests[cpu] is 2, more than its limit 1",
	}, PodFaults(pods[1].Pod))
}

// celvpa recommend prints one.
func TestAListWithoutKindIsAList(t *testing.T) {
	set, err := read("items:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {metadata: {name: b}}\ntraces: []\n")
	require.ErrorContains(t, err, "standard input:3: not a manifest: it needs apiVersion and kind")
	require.Equal(t, []string{"2 v1 Pod default/a"}, listed(set))
}
