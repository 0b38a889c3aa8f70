package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// admitted is a pod with the objects that affect it.
type admitted struct {
	pod    string   // its spec
	ranges []string // the items of LimitRanges of its namespace
	policy string   // resourcePolicy of its VPA
	status string   // its recommendation; empty = usual
	gated  bool     // it needs the gates
	// What the API server and celvpa answer if they refuse the pod, and only with the gates on.
	refused string
}

// The recommendation of cases that set none.
const usual = `{containerRecommendations: [{containerName: app, target: {cpu: 600m, memory: 300Mi}}, {containerName: side, target: {cpu: 100m, memory: 50Mi}}],
  podRecommendation: {target: {cpu: 700m, memory: 350Mi}}}`

// greedy recommends more than most pods have.
const greedy = `{containerRecommendations: [{containerName: app, target: {cpu: "3", memory: 3Gi}}, {containerName: side, target: {cpu: "1", memory: 1Gi}}],
  podRecommendation: {target: {cpu: "4", memory: 4Gi}}}`

// pairOf is two containers with the given resources.
func pairOf(app, side string) string {
	return fmt.Sprintf("containers: [{name: app, image: a, resources: {%s}}, {name: side, image: a, resources: {%s}}]", app, side)
}

var podsToAdmit = map[string]admitted{
	"nothing asked for":                    {pod: pairOf("", "")},
	"requests only":                        {pod: pairOf("requests: {cpu: 100m, memory: 100Mi}", "requests: {cpu: 100m}")},
	"limits only":                          {pod: pairOf("limits: {cpu: 200m, memory: 100Mi}", "limits: {memory: 100Mi}")},
	"a limit of one, a request of another": {pod: pairOf("limits: {cpu: 200m}, requests: {memory: 50Mi}", "limits: {cpu: 1}, requests: {cpu: 300m}")},
	"odd amounts":                          {pod: pairOf("requests: {cpu: 100500u, memory: 1e8}, limits: {cpu: 0.3, memory: 200000000500m}", "requests: {cpu: 0, memory: 0}")},
	"other resources":                      {pod: pairOf("limits: {cpu: 1, ephemeral-storage: 1Gi, example.com/gpu: 2}", "requests: {ephemeral-storage: 1Gi}")},
	"limits that do not follow":            {pod: pairOf("limits: {cpu: 200m, memory: 100Mi}", ""), policy: "{containerPolicies: [{containerName: '*', controlledValues: RequestsOnly}]}"},
	"a container switched off":             {pod: pairOf("requests: {cpu: 100m}", "limits: {cpu: 300m}"), policy: "{containerPolicies: [{containerName: side, mode: 'Off'}]}"},
	"a container that is no more":          {pod: "containers: [{name: app, image: a}, {name: new, image: a, resources: {limits: {cpu: 100m}}}]"},
	"init containers and a sidecar":        {pod: "initContainers: [{name: first, image: a, resources: {limits: {cpu: 1}}}, {name: helper, image: a, restartPolicy: Always, resources: {requests: {cpu: 50m}}}], " + pairOf("limits: {cpu: 200m}", "")},
	"defaults of a LimitRange":             {pod: pairOf("", "requests: {cpu: 50m}"), ranges: []string{"{type: Container, default: {cpu: 2, memory: 1Gi}, defaultRequest: {cpu: 1, memory: 512Mi}}"}},
	"a maximum for a default":              {pod: pairOf("", "limits: {memory: 60Mi}"), ranges: []string{"{type: Container, max: {memory: 200Mi, cpu: 500m}}"}},
	"a minimum for a default":              {pod: pairOf("", "requests: {cpu: 300m, memory: 90Mi}"), ranges: []string{"{type: Container, min: {memory: 80Mi, cpu: 250m}}"}},
	"a LimitRange for each resource":       {pod: pairOf("limits: {cpu: 1}", ""), ranges: []string{"{type: Container, default: {cpu: 500m}}", "{type: Container, max: {memory: 256Mi}}"}},
	"a LimitRange for pods":                {pod: pairOf("limits: {cpu: 100m, memory: 100Mi}", "limits: {cpu: 100m, memory: 100Mi}"), ranges: []string{"{type: Pod, max: {cpu: 500m, memory: 300Mi}}"}},
	"LimitRanges of both":                  {pod: pairOf("limits: {cpu: 100m}", ""), ranges: []string{"{type: Pod, max: {cpu: 1}}", "{type: Container, max: {cpu: 400m}, min: {cpu: 50m}}"}},

	"a pod with requests":                            {pod: "resources: {requests: {cpu: 500m, memory: 500Mi}}, " + pairOf("requests: {cpu: 100m, memory: 100Mi}", "")},
	"a pod with both":                                {pod: "resources: {requests: {cpu: 500m, memory: 500Mi}, limits: {cpu: 1, memory: 1Gi}}, " + pairOf("requests: {cpu: 100m, memory: 100Mi}", "requests: {cpu: 100m}, limits: {cpu: 200m}")},
	"a pod with limits, and requests in it":          {pod: "resources: {limits: {cpu: 2, memory: 2Gi}}, " + pairOf("requests: {cpu: 100m, memory: 100Mi}", "requests: {cpu: 100m}")},
	"a pod with limits, and none in it":              {pod: "resources: {limits: {cpu: 2, memory: 2Gi}}, " + pairOf("", "")},
	"a pod with limits, and limits in it":            {pod: "resources: {limits: {cpu: 2, memory: 2Gi}}, " + pairOf("limits: {cpu: 500m, memory: 500Mi}", "limits: {cpu: 200m, memory: 200Mi}")},
	"a pod with one limit":                           {pod: "resources: {limits: {cpu: 2}}, " + pairOf("requests: {memory: 100Mi}", "limits: {memory: 100Mi}")},
	"a pod with limits, and more recommended":        {pod: "resources: {limits: {cpu: 2, memory: 2Gi}}, " + pairOf("requests: {cpu: 100m, memory: 100Mi}", "requests: {cpu: 100m, memory: 100Mi}"), status: greedy},
	"a pod with limits, none in it and more":         {pod: "resources: {limits: {cpu: 2, memory: 2Gi}}, " + pairOf("", ""), status: greedy},
	"a pod with limits, limits in it and more":       {pod: "resources: {limits: {cpu: 2, memory: 2Gi}}, " + pairOf("limits: {cpu: 500m, memory: 500Mi}", "limits: {cpu: 200m, memory: 200Mi}"), status: greedy},
	"a pod with requests, and more recommended":      {pod: "resources: {requests: {cpu: 500m, memory: 500Mi}}, " + pairOf("requests: {cpu: 100m, memory: 100Mi}", "limits: {cpu: 100m}"), status: greedy},
	"a pod with limits, and init containers":         {pod: "resources: {limits: {cpu: 2, memory: 2Gi}}, initContainers: [{name: first, image: a, resources: {requests: {cpu: 1500m}}}, {name: helper, image: a, restartPolicy: Always, resources: {limits: {cpu: 500m}}}], " + pairOf("requests: {cpu: 100m}", ""), status: greedy},
	"a pod with resources and a LimitRange for pods": {pod: "resources: {requests: {cpu: 400m}, limits: {cpu: 800m}}, " + pairOf("requests: {cpu: 100m}", ""), ranges: []string{"{type: Pod, max: {cpu: 1}, min: {cpu: 100m}}"}},
	"CPU for the start":                              {gated: true, pod: pairOf("limits: {cpu: 200m}", "requests: {cpu: 100m}"), policy: "{containerPolicies: [{containerName: '*', startupBoost: {cpu: {type: Factor, factor: 2}}}]}"},
	"limits by a ratio":                              {gated: true, pod: pairOf("limits: {cpu: 200m}", ""), policy: "{containerPolicies: [{containerName: app, requestToLimitRatio: {cpu: {type: Factor, factor: 4}, memory: {type: Quantity, quantity: 100Mi}}}]}", ranges: []string{"{type: Container, max: {cpu: 600m}}"}},
	"a pod with resources where containers get some": {
		pod: "resources: {requests: {cpu: 2, memory: 2Gi}}, " + pairOf("", ""), ranges: []string{"{type: Container, default: {cpu: 500m}}"},
		refused: "pods with resources at pod level are refused in a namespace with a LimitRange of type Container: range-0",
	},
}

// admitSaysWhatTheWebhookDoes: for the same manifests, celvpa admit and the webhook give the same
// annotation and the same stored resources, with the API server's own defaults. A pod that the API
// server accepts unpatched is accepted patched.
func admitSaysWhatTheWebhookDoes(t *testing.T) {
	ns := namespace(t, "it-admit")
	for _, on := range []bool{false, true} {
		gates := fmt.Sprintf("PodLevelResources=%[1]t,CPUStartupBoost=%[1]t,RequestToLimitRatio=%[1]t", on)
		t.Run(fmt.Sprintf("gates %t", on), func(t *testing.T) {
			startWebhook(t, ns, "--feature-gates="+gates)
			for i, name := range slices.Sorted(maps.Keys(podsToAdmit)) {
				c := podsToAdmit[name]
				if c.gated && !on {
					continue
				}
				if !on {
					c.refused = ""
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					requireAdmitted(t, fmt.Sprintf("it-admit-%t-%d", on, i), gates, c)
				})
			}
		})
	}
}

func requireAdmitted(t *testing.T, ns, gates string, c admitted) {
	namespace(t, ns)
	var written []string
	put := func(text string, into ...any) *unstructured.Unstructured {
		text = fmt.Sprintf(text, into...)
		written = append(written, text)
		objects, err := harness.Decode([]byte(text))
		require.NoError(t, err, text)
		return objects[0]
	}
	for i, item := range c.ranges {
		create(t, put("{apiVersion: v1, kind: LimitRange, metadata: {namespace: %s, name: range-%d}, spec: {limits: [%s]}}", ns, i, item))
	}
	set := put(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {namespace: %s, name: web}, spec: {replicas: 0, serviceName: web, selector: {matchLabels: {app: web}},
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app, image: a}]}}}}`, ns)
	create(t, set)
	status := c.status
	if status == "" {
		status = usual
	}
	if c.policy == "" {
		c.policy = "{}"
	}
	vpa := put(`{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {namespace: %s, name: web},
  spec: {targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}, resourcePolicy: %s}, status: {recommendation: %s}}`, ns, c.policy, status)
	stored := vpa.DeepCopy()
	create(t, stored)
	stored.Object["status"] = vpa.Object["status"]
	require.NoError(t, cluster.Status().Update(t.Context(), stored))
	pod := put(`{apiVersion: v1, kind: Pod, metadata: {namespace: %s, name: web-7, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, uid: %s, controller: true}]}, spec: {%s}}`, ns, set.GetUID(), c.pod)

	item := offline(t, gates, ns+"/web-7", written)
	var lonely *unstructured.Unstructured
	if item.Allowed {
		lonely = &unstructured.Unstructured{Object: item.Object}
	} else {
		lonely = pod.DeepCopy()
	}
	lonely.SetOwnerReferences(nil) // of no VPA
	var live, want corev1.Pod
	var refused, unpatched error
	same := func(ctx context.Context) (bool, error) {
		var err error
		if live, refused = dryRun(ctx, pod); refused != nil && !apierrors.IsInvalid(refused) && !apierrors.IsForbidden(refused) {
			return false, refused
		}
		if want, err = dryRun(ctx, lonely); err != nil && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			return false, err
		}
		unpatched = err
		if refused != nil || err != nil {
			return refused != nil && err != nil, nil
		}
		return assert.ObjectsAreEqual(resourcesOf(&want), resourcesOf(&live)), nil
	}
	// Poll until all caches are in sync; a lasting difference is reported below.
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, hang.Limit, true, same); !wait.Interrupted(err) {
		require.NoError(t, err)
	}
	if c.refused != "" {
		require.False(t, item.Allowed)
		require.Contains(t, item.Message, c.refused)
		require.ErrorContains(t, refused, item.Message)
		return
	}
	require.True(t, item.Allowed, item.Message)
	require.NoError(t, unpatched, "what celvpa admit prints is taken as it is")
	require.NoError(t, refused, "what the API server would take without celvpa it takes with it")
	require.NotEmpty(t, live.Annotations["vpaObservedContainers"], "the webhook was asked")
	require.Equal(t, resourcesOf(&want), resourcesOf(&live))
}

// resourcesOf is the resources and the annotations that celvpa writes, as text.
func resourcesOf(pod *corev1.Pod) []string {
	text := func(what string, value any) string {
		out, _ := json.Marshal(value) // resources can always be written
		return what + " " + string(out)
	}
	out := []string{text("pod", pod.Spec.Resources)}
	for _, name := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if strings.HasPrefix(name, "vpa") {
			out = append(out, name+" "+pod.Annotations[name])
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		out = append(out, text(c.Name, c.Resources))
	}
	return out
}

func dryRun(ctx context.Context, pod *unstructured.Unstructured) (out corev1.Pod, err error) {
	into := pod.DeepCopy()
	if err := cluster.Create(ctx, into, client.DryRunAll); err != nil {
		return out, err
	}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(into.Object, &out)
}

// admitItem is one pod in the output of celvpa admit.
type admitItem struct {
	Pod     string         `json:"pod"`
	Allowed bool           `json:"allowed"`
	Message string         `json:"message"`
	Object  map[string]any `json:"object"`
}

// offline runs celvpa admit on a pod.
func offline(t *testing.T, gates, pod string, written []string) admitItem {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(written, "\n---\n")), 0o600))
	cmd := exec.CommandContext(t.Context(), program, "admit", "-f", file, "-o", "json", "--feature-gates="+gates)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 {
		require.NoError(t, err, stderr.String())
	}
	var report struct {
		Items []admitItem `json:"items"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &report), stderr.String())
	i := slices.IndexFunc(report.Items, func(item admitItem) bool { return item.Pod == pod }) // and not that of the template
	require.GreaterOrEqual(t, i, 0, out.String())
	return report.Items[i]
}
