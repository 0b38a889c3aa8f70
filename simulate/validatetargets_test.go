package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// ofManifests is a cluster of manifests, by the shipped rules.
func ofManifests(t *testing.T, text string) *Cluster {
	t.Helper()
	set, err := manifests.Read([]string{manifests.Stdin}, strings.NewReader(text))
	require.NoError(t, err)
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	cluster, err := Load(set, book, At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	require.NoError(t, err)
	return cluster
}

// warnings judges VPA shop/web of manifests.
func warnings(t *testing.T, text string) (out []string) {
	t.Helper()
	result, err := ofManifests(t, text).Validate(&manifests.Set{})
	require.NoError(t, err)
	for _, item := range result.Items {
		require.Equal(t, "shop/web", item.Object)
		require.Empty(t, item.Causes)
		for _, w := range item.Warnings {
			out = append(out, w.Rule+" at "+w.Field+": "+w.Message)
		}
	}
	return out
}

func vpaOf(target, rest string) string {
	return "{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: web, namespace: shop}, spec: {targetRef: " + target + rest + "}}\n---\n"
}

func TestWarningsAboutTargetsFromTheirManifests(t *testing.T) {
	const (
		deployment = "{apiVersion: apps/v1, kind: Deployment, name: web}"
		thing      = "{apiVersion: example.com/v1, kind: Thing, name: web}"
		container  = ", resourcePolicy: {containerPolicies: [{containerName: sidecar}]}"
	)
	workload := func(apiVersion, kind, namespace, containers, metadata string) string {
		return "{apiVersion: " + apiVersion + ", kind: " + kind + ", metadata: {name: web" + namespace + metadata + "}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [" + containers + "]}}}}\n---\n"
	}
	const shop, app = ", namespace: shop", "{name: app}"
	definition := func(subresources string) string {
		return "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {group: example.com, names: {kind: Thing}, versions: [{name: v1, served: true" + subresources + "}]}}\n---\n"
	}
	owned := func(apiVersion, kind string) string {
		return ", ownerReferences: [{apiVersion: " + apiVersion + ", kind: " + kind + ", name: owner, uid: u, controller: true}]"
	}
	job := "{apiVersion: batch/v1, kind: Job, metadata: {name: web, namespace: shop}, spec: {backoffLimit: 0, template: {spec: {containers: [" + app + "]}}}}"
	for name, tt := range map[string]struct{ text, want string }{
		"nothing is known":                      {text: vpaOf(deployment, container)},
		"the container is there":                {text: vpaOf(deployment, container) + workload("apps/v1", "Deployment", shop, "{name: sidecar}", "")},
		"the container is in another document":  {text: vpaOf(deployment, container) + workload("apps/v1", "Deployment", shop, app, "") + workload("apps/v1", "Deployment", shop, "{name: sidecar}", "")},
		"the container is in a custom template": {text: vpaOf(thing, container) + workload("example.com/v1", "Thing", shop, "{name: sidecar}", "")},
		"no such container in a custom template": {text: vpaOf(thing, container) + workload("example.com/v1", "Thing", shop, app, ""),
			want: "vpa-target/container-exists at spec.resourcePolicy.containerPolicies[0].containerName: the pod template of the target has no container sidecar, but app; unless something injects it, the policy has no effect"},
		"an old apiVersion": {text: vpaOf(deployment, "") + workload("extensions/v1beta1", "Deployment", shop, app, ""),
			want: "vpa-target/served-version at spec.targetRef: the manifest of Deployment web has apiVersion extensions/v1beta1, which clusters no longer serve; write apps/v1"},
		"in another namespace": {text: vpaOf(deployment, "") + workload("apps/v1", "Deployment", ", namespace: other", app, ""),
			want: "vpa-target/same-namespace at spec.targetRef: Deployment web is in namespace other; a VPA sizes pods of its own namespace only, so move it there"},
		"in a namespace that kustomize sets": {text: vpaOf(deployment, "") + workload("apps/v1", "Deployment", "", app, "")},
		"in this and in another namespace":   {text: vpaOf(deployment, "") + workload("apps/v1", "Deployment", ", namespace: other", app, "") + workload("apps/v1", "Deployment", shop, app, "")},
		"a definition without scale": {text: vpaOf(thing, "") + definition(""),
			want: "vpa-target/has-scale at spec.targetRef: kind Thing has no scale subresource, so its pods cannot be found; name the workload that creates the pods, or add the subresource to the CustomResourceDefinition"},
		"a definition with scale": {text: vpaOf(thing, "") + definition(", subresources: {scale: {}}")},
		"a kind of Kubernetes' own": {text: vpaOf("{apiVersion: v1, kind: Pod, name: web}", ""),
			want: "vpa-target/has-scale at spec.targetRef: kind Pod has no scale subresource, so its pods cannot be found; name the workload that creates the pods, or add the subresource to the CustomResourceDefinition"},
		"owned by a StatefulSet": {text: vpaOf(deployment, "") + workload("apps/v1", "Deployment", shop, app, owned("apps/v1", "StatefulSet")),
			want: "vpa-target/topmost at spec.targetRef: StatefulSet owner owns the target; a VPA must name the topmost controller, or its pods are left alone"},
		"owned by something unknown": {text: vpaOf(deployment, "") + workload("apps/v1", "Deployment", shop, app, owned("example.com/v1", "Thing")),
			want: "vpa-target/topmost at spec.targetRef: Thing owner owns the target and may have a scale subresource; a VPA must name the topmost controller, or its pods are left alone"},
		"owned by what has no scale": {text: vpaOf(deployment, "") + workload("apps/v1", "Deployment", shop, app, owned("example.com/v1", "Thing")) + definition("")},
		"a Job that may not fail": {text: vpaOf("{apiVersion: batch/v1, kind: Job, name: web}", "") + job,
			want: "vpa-target/jobs-fail at spec.updatePolicy.updateMode: mode Recreate evicts pods, which counts as a failure of the Job, and with backoffLimit 0 the first one fails it; use mode Initial, or InPlace"},
		"a CronJob without labels": {text: vpaOf("{apiVersion: batch/v1, kind: CronJob, name: web}", ", updatePolicy: {updateMode: Initial}") +
			"{apiVersion: batch/v1, kind: CronJob, metadata: {name: web, namespace: shop}, spec: {jobTemplate: {spec: {template: {spec: {containers: [" + app + "]}}}}}}",
			want: "vpa-target/has-labels at spec.targetRef: the pod template of CronJob web has no labels, so its pods cannot be found; give it one, such as app: web"},
		"a Deployment without selector": {text: vpaOf(deployment, "") + "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {template: {spec: {containers: [{name: app, image: x}]}}}}",
			want: "vpa-target/has-selector at spec.targetRef: Deployment web has no spec.selector, so its pods cannot be found; add one"},
		"a patch of a Deployment with one": {text: vpaOf(deployment, "") + workload("apps/v1", "Deployment", shop, app, "") +
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {template: {spec: {containers: [{name: app, image: x}]}}}}"},
		"a patch without labels": {text: vpaOf(deployment, "") + "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {template: {spec: {containers: [" + app + "]}}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			if tt.want != "" {
				want = []string{tt.want}
			}
			require.Equal(t, want, warnings(t, tt.text))
		})
	}
}

// TestAWorkloadThatCannotBeReadIsNoErrorOfItsVPA.
func TestAWorkloadThatCannotBeReadIsNoErrorOfItsVPA(t *testing.T) {
	cluster := ofManifests(t, vpaOf("{apiVersion: apps/v1, kind: Deployment, name: web}", "")+"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: many}}")
	result, err := cluster.Validate(&manifests.Set{})
	require.NoError(t, err)
	require.Empty(t, result.Items[0].Warnings)
	require.Len(t, cluster.Notes(), 1)
	require.Contains(t, cluster.Notes()[0], "standard input:3: Deployment shop/web cannot be read: ")
	require.Contains(t, cluster.Notes()[0], "; what depends on it is not checked")
}

// TestPodsOfAKindWithoutScaleAreLeftAlone: no cluster finds them, and a plan evicted them.
func TestPodsOfAKindWithoutScaleAreLeftAlone(t *testing.T) {
	const objects = `
{apiVersion: example.com/v1, kind: Thing, metadata: {name: web, namespace: shop}, spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app}]}}}}
---
{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: web, namespace: shop}, spec: {targetRef: {apiVersion: example.com/v1, kind: Thing, name: web}, updatePolicy: {updateMode: Recreate, minReplicas: 1}},
 status: {recommendation: {containerRecommendations: [{containerName: app, target: {cpu: 100m}, lowerBound: {cpu: 100m}, upperBound: {cpu: 100m}}]}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-a, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: example.com/v1, kind: Thing, name: web, uid: u, controller: true}]},
 spec: {nodeName: node, containers: [{name: app, image: x, resources: {requests: {cpu: 1}}}]}, status: {phase: Running, startTime: "2025-01-01T00:00:00Z", conditions: [{type: Ready, status: "True"}]}}
---
`
	const bare = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {group: example.com, names: {kind: Thing}, versions: [{name: v1, served: true}]}}"
	guessed := ofManifests(t, objects)
	plan, err := guessed.Plan(false)
	require.NoError(t, err)
	require.Equal(t, "Evict", plan.Items[0].Action, plan.Items[0].Reason)
	require.Contains(t, strings.Join(guessed.Notes(), "\n"), "kind Thing.example.com, the target of VerticalPodAutoscaler shop/web, counts as one with a scale subresource")

	cluster := ofManifests(t, objects+bare)
	plan, err = cluster.Plan(false)
	require.NoError(t, err)
	const why = "the kind of Thing shop/web has no scale subresource, so no VPA can have it as its target"
	require.Equal(t, "Skip", plan.Items[0].Action)
	require.Contains(t, plan.Items[0].Reason, why)
	require.Empty(t, plan.Items[0].VPA)
}

// TestAnHPAConflictsByRequestsOfContainersThatAreControlled. Regression: where no wildcard policy was, the warning stayed
// whatever the policy of the only container was, and averageValue was warned of.
func TestAnHPAConflictsByRequestsOfContainersThatAreControlled(t *testing.T) {
	const (
		warning     = "vpa-neighbours/hpa-scales-on at spec.targetRef: HorizontalPodAutoscaler web scales the same target on cpu, so the two work against each other; remove cpu from controlledResources, or scale on another metric or averageValue"
		utilization = "{type: Utilization, averageUtilization: 80}"
	)
	for name, tt := range map[string]struct {
		containers, policies, aims string
		warned                     bool
	}{
		"no policy":                         {"{name: app}", "", utilization, true},
		"the only container leaves it":      {"{name: app}", "{containerName: app, controlledResources: [memory]}", utilization, false},
		"the only container is Off":         {"{name: app}", "{containerName: app, mode: 'Off'}", utilization, false},
		"another container is controlled":   {"{name: app}, {name: proxy}", "{containerName: app, mode: 'Off'}", utilization, true},
		"another container by the wildcard": {"{name: app}, {name: proxy}", "{containerName: app}, {containerName: '*', mode: 'Off'}", utilization, true},
		"each container by its own policy":  {"{name: app}, {name: proxy}", "{containerName: app, controlledResources: []}, {containerName: '*', mode: 'Off'}", utilization, false},
		"the container is not known":        {"", "{containerName: app, mode: 'Off'}", utilization, true},
		"an average value":                  {"{name: app}", "", "{type: AverageValue, averageValue: 500m}", false},
	} {
		t.Run(name, func(t *testing.T) {
			text := vpaOf("{apiVersion: apps/v1, kind: Deployment, name: web}", ", resourcePolicy: {containerPolicies: ["+tt.policies+"]}") +
				"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: shop}, spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, metrics: [{type: Resource, resource: {name: cpu, target: " + tt.aims + "}}]}}\n---\n"
			if tt.containers != "" {
				text += "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [" + tt.containers + "]}}}}\n"
			}
			var want []string
			if tt.warned {
				want = []string{warning}
			}
			require.Equal(t, want, warnings(t, text))
		})
	}
}
