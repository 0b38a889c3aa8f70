package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestNewPods covers new pods, with gates on and off. It starts admission controllers one after the
// other; the shared celvpa is stopped first.
func TestNewPods(t *testing.T) {
	withoutCelvpa(t)
	t.Cleanup(func() { noneLeft(t, "np-") }) // other tests need not look after these
	// These VPAs are created before the webhook is registered, or before a gate is turned off, so
	// none is refused.
	ratios, boosts, inPlace := newRatios(t), newBoosts(t), newInPlace(t)
	stage := func(name string, flags []string, tests map[string]func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t, "np-"+name)
			startWebhook(t, ns, flags...)
			seen(t, ns)
			t.Run("side by side", func(t *testing.T) {
				for name, test := range tests {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						test(t)
					})
				}
			})
		})
	}
	stage("gated", []string{allGates, "--max-allowed-cpu-boost=2"}, map[string]func(*testing.T){
		"asked ratios are kept":                         ratios.areKept,
		"CPU is boosted while pods start":               boosts.areGiven,
		"four situations of resources at pod level":     fourSituations,
		"the manifest of AEP-7571":                      theManifestOfAEP7571,
		"podPolicies that leave limits alone":           podPoliciesThatLeaveLimitsAlone,
		"one resource at pod level":                     oneResourceAtPodLevel,
		"a LimitRange bounds pods":                      aLimitRangeBoundsPods,
		"a pod holds all of its containers":             aPodHoldsAllOfItsContainers,
		"a rollout has pods of both kinds":              aRolloutHasPodsOfBothKinds,
		"pods that LimitRanges would spoil are refused": podsThatLimitRangesWouldSpoilAreRefused,
		"a dry run leaves no trace":                     aDryRunLeavesNoTrace,
		"odd pods and odd recommendations":              oddPodsAndOddRecommendations,
		"five hundred containers":                       fiveHundredContainers,
	})
	stage("ungated", nil, map[string]func(*testing.T){
		"asked ratios are ignored":                    ratios.areIgnored,
		"boosts are ignored":                          boosts.areIgnored,
		"an InPlace VPA applies to new pods":          inPlace.applies,
		"LimitRanges of containers and pods are kept": limitRangesAreKept,
		"resources at pod level are left alone":       resourcesAtPodLevelAreLeftAlone,
	})
}

// both is the recommendation of the simple cases.
const both = `
containerRecommendations:
- {containerName: a, target: {cpu: 200m, memory: 200Mi}}
- {containerName: b, target: {cpu: 100m, memory: 100Mi}}
podRecommendation: {target: {cpu: 300m, memory: 300Mi}}`

// fourSituations: resources at pod level, at container level, both, and none (AEP-7571).
func fourSituations(t *testing.T) {
	ns := namespace(t, "np-four")
	w := newWorkload(t, ns, "w", "", both)
	seen(t, ns)

	p := w.created(t, "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m, memory: 100Mi}}}, {name: b}]")
	has(t, p, "200m/400m 200Mi/200Mi", "100m/- 100Mi/-")
	require.NotContains(t, updates(p), "pod:")

	p = w.created(t, "{resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 250m, memory: 200Mi}}, containers: [{name: a}, {name: b}]}")
	has(t, p, "pod 300m/750m 300Mi/600Mi", "-/- -/-", "-/- -/-")
	require.Equal(t, "pod: cpu request, memory request, cpu limit, memory limit", updates(p))
	require.Equal(t, "a, b", p.Annotations["vpaObservedContainers"])

	p = w.created(t, "{resources: {requests: {cpu: 400m, memory: 400Mi}}, containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}, {name: b}]}")
	has(t, p, "pod 300m/- 300Mi/-", "200m/- 200Mi/-", "-/- -/-")
	require.Equal(t, "pod: cpu: limit NOT set since originalLimit is nil or 0, memory: limit NOT set since originalLimit is nil or 0, "+
		"cpu request, memory request; container 0: cpu request, memory request", updates(p))

	has(t, w.created(t, "containers: [{name: a}, {name: b}]"), "200m/- 200Mi/-", "100m/- 100Mi/-")
}

// theManifestOfAEP7571 is a Deployment with resources for the pod and for container main. The AEP
// gives two containers the same name, which no API server accepts.
func theManifestOfAEP7571(t *testing.T) {
	ns := namespace(t, "np-aep")
	d := &appsv1.Deployment{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(`
metadata: {name: workload1}
spec:
  replicas: 0
  selector: {matchLabels: {app: workload1}}
  template:
    metadata: {labels: {app: workload1}}
    spec:
      resources:
        requests: {cpu: 100m, memory: 100Mi}
        limits: {cpu: 200m, memory: 200Mi}
      containers:
      - name: main
        image: registry.k8s.io/pause:3.1
        resources:
          requests: {cpu: 80m, memory: 100Mi}
          limits: {cpu: 80m, memory: 100Mi}
      - {name: sidecar1, image: "registry.k8s.io/pause:3.1"}
      - {name: sidecar2, image: "registry.k8s.io/pause:3.1"}
`), d))
	d.Namespace = ns
	v := vpa(ns, "workload1", vpav1.UpdateModeRecreate)
	create(t, d, v)
	recommend(t, v, `
podRecommendation: {lowerBound: {memory: 100Mi, cpu: 30m}, target: {memory: 125Mi, cpu: 50m}, upperBound: {memory: 150Mi, cpu: 80m}}
containerRecommendations:
- {containerName: main, lowerBound: {memory: 80Mi, cpu: 20m}, target: {memory: 100Mi, cpu: 30m}, upperBound: {memory: 120Mi, cpu: 50m}}
- {containerName: sidecar1, lowerBound: {memory: 20Mi, cpu: 10m}, target: {memory: 25Mi, cpu: 20m}, upperBound: {memory: 30Mi, cpu: 30m}}`)
	hang.Eventually(t, "the ReplicaSet", func(ctx context.Context) (bool, error) {
		var list appsv1.ReplicaSetList
		err := cluster.List(ctx, &list, client.InNamespace(ns))
		return len(list.Items) == 1, err
	})
	seen(t, ns)
	require.NoError(t, cluster.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`))))
	for _, p := range running(t, ns, 1) {
		has(t, &p, "pod 50m/100m 125Mi/250Mi", "30m/30m 100Mi/100Mi", "-/- -/-", "-/- -/-")
		require.Equal(t, "Pod resources updated by workload1: pod: cpu request, memory request, cpu limit, memory limit; "+
			"container 0: cpu request, memory request, cpu limit, memory limit", p.Annotations["vpaUpdates"])
	}
}

// podPoliciesThatLeaveLimitsAlone: the limit of the pod caps its request.
func podPoliciesThatLeaveLimitsAlone(t *testing.T) {
	ns := namespace(t, "np-requests")
	w := newWorkload(t, ns, "w", "resourcePolicy: {podPolicies: {controlledValues: RequestsOnly}}", both)
	seen(t, ns)
	p := w.created(t, "{resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 500m, memory: 250Mi}}, containers: [{name: a}, {name: b}]}")
	has(t, p, "pod 300m/500m 250Mi/250Mi", "-/- -/-", "-/- -/-")
	require.Equal(t, "pod: memory capped to pod limit, cpu request, memory request", updates(p))
}

// oneResourceAtPodLevel: only containers set the other one. The API server would fill in their sum at
// pod level, so that counts as requested.
func oneResourceAtPodLevel(t *testing.T) {
	ns := namespace(t, "np-one")
	w := newWorkload(t, ns, "w", "", both)
	seen(t, ns)
	p := w.created(t, "{resources: {requests: {memory: 200Mi}}, containers: [{name: a, resources: {requests: {cpu: 50m, memory: 50Mi}, limits: {cpu: 100m}}}, {name: b}]}")
	has(t, p, "pod 300m/- 300Mi/-", "200m/400m 200Mi/-", "-/- -/-")
	require.Contains(t, updates(p), "pod: cpu: limit NOT set since originalLimit is nil or 0, memory: limit NOT set since originalLimit is nil or 0, cpu request, memory request; ")

	p = w.created(t, "{resources: {requests: {cpu: 100m}}, containers: [{name: a, resources: {requests: {memory: 50Mi}}}, {name: b}]}")
	has(t, p, "pod 300m/- 300Mi/-", "-/- 200Mi/-", "-/- -/-")
	require.Contains(t, updates(p), "pod: cpu: limit NOT set since originalLimit is nil or 0, memory: limit NOT set since originalLimit is nil or 0, cpu request, memory request; ")
}

// aLimitRangeBoundsPods: the worked examples of AEP-7571, and the opposite direction.
func aLimitRangeBoundsPods(t *testing.T) {
	least := namespace(t, "np-least")
	limitRange(t, least, "pods", "[{type: Pod, min: {memory: 200Mi}}]")
	whole := newWorkload(t, least, "whole", "", "{podRecommendation: {lowerBound: {memory: 100Mi}, target: {memory: 120Mi}, upperBound: {memory: 150Mi}}, containerRecommendations: [{containerName: c1, target: {memory: 120Mi}}]}")
	parts := newWorkload(t, least, "parts", "", "{podRecommendation: {target: {memory: 150Mi}}, containerRecommendations: [{containerName: c1, target: {memory: 120Mi}}, {containerName: c2, target: {memory: 30Mi}}]}")
	most := namespace(t, "np-most")
	limitRange(t, most, "pods", "[{type: Pod, max: {cpu: 400m, memory: 300Mi}}]")
	lowered := newWorkload(t, most, "lowered", "", both)
	seen(t, least)

	p := whole.created(t, "{resources: {requests: {memory: 300Mi}}, containers: [{name: c1}]}")
	has(t, p, "pod -/- 200Mi/-", "-/- -/-")
	require.Equal(t, "pod: memory capped to fit Min in pod LimitRange, memory: limit NOT set since originalLimit is nil or 0, memory request", updates(p))

	p = parts.created(t, "{resources: {requests: {memory: 300Mi}}, containers: [{name: c1, resources: {requests: {memory: 50Mi}}}, {name: c2}]}")
	has(t, p, "pod -/- 200Mi/-", "-/- 160Mi/-", "-/- -/-")

	p = lowered.created(t, "{resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m, memory: 150Mi}}, containers: [{name: a}, {name: b}]}")
	has(t, p, "pod 200m/400m 200Mi/300Mi", "-/- -/-", "-/- -/-")
	require.Equal(t, "pod: cpu capped to fit Max in pod LimitRange, memory capped to fit Max in pod LimitRange, cpu request, memory request, cpu limit, memory limit", updates(p))

	// With the limits of its sidecar the pod is at the maximum, which LimitRanger accepts.
	p = lowered.created(t, `
initContainers: [{name: proxy, restartPolicy: Always, resources: {limits: {cpu: 100m, memory: 100Mi}}}]
containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m, memory: 200Mi}}}]`)
	has(t, p, "150m/300m 100Mi/200Mi")
}

// aPodHoldsAllOfItsContainers: those with mode Off, init containers, and what rounding adds.
func aPodHoldsAllOfItsContainers(t *testing.T) {
	ns := namespace(t, "np-hold")
	off := newWorkload(t, ns, "off", `resourcePolicy: {containerPolicies: [{containerName: held, mode: "Off"}]}`, both)
	thirds := newWorkload(t, ns, "thirds", "", `{podRecommendation: {target: {cpu: 100m}}, containerRecommendations: [{containerName: a, target: {cpu: 34m}}, {containerName: b, target: {cpu: 34m}}, {containerName: c, target: {cpu: 34m}}]}`)
	w := newWorkload(t, ns, "w", "", both)
	seen(t, ns)

	p := off.created(t, "{resources: {requests: {cpu: 900m, memory: 1Gi}}, containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}, {name: held, resources: {requests: {cpu: 700m, memory: 50Mi}}}, {name: b}]}")
	has(t, p, "pod 900m/- 300Mi/-", "200m/- 200Mi/-", "700m/- 50Mi/-", "-/- -/-")
	require.Contains(t, updates(p), "pod: cpu raised to what its containers request")

	p = thirds.created(t, "{resources: {requests: {cpu: 1}}, containers: [{name: a, resources: {requests: {cpu: 1m}}}, {name: b, resources: {requests: {cpu: 1m}}}, {name: c, resources: {requests: {cpu: 1m}}}]}")
	has(t, p, "pod 100m/- -/-", "33m/- -/-", "33m/- -/-", "33m/- -/-")

	p = w.created(t, "{resources: {requests: {cpu: 2, memory: 2Gi}}, initContainers: [{name: setup, resources: {requests: {cpu: 50m, memory: 1Gi}}}, {name: proxy, restartPolicy: Always, resources: {requests: {cpu: 250m, memory: 10Mi}}}], "+
		"containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}, {name: b}]}")
	has(t, p, "pod 450m/- 1Gi/-", "200m/- 200Mi/-", "-/- -/-")
	require.Contains(t, updates(p), "pod: cpu raised to what its containers request, memory raised to what its containers request")
	require.Equal(t, "250m", p.Spec.InitContainers[1].Resources.Requests.Cpu().String())
}

// aRolloutHasPodsOfBothKinds: each is patched by its own spec.
func aRolloutHasPodsOfBothKinds(t *testing.T) {
	ns := namespace(t, "np-rollout")
	w := newWorkload(t, ns, "w", "", both)
	seen(t, ns)
	has(t, w.created(t, "{resources: {requests: {cpu: 500m, memory: 500Mi}}, containers: [{name: a}, {name: b}]}"), "pod 300m/- 300Mi/-", "-/- -/-", "-/- -/-")
	has(t, w.created(t, "containers: [{name: a}, {name: b}]"), "200m/- 200Mi/-", "100m/- 100Mi/-")
}

// podsThatLimitRangesWouldSpoilAreRefused: pods with pod-level resources in a namespace whose
// LimitRange gives containers defaults.
func podsThatLimitRangesWouldSpoilAreRefused(t *testing.T) {
	ns := namespace(t, "np-spoiled")
	limitRange(t, ns, "defaults", "[{type: Container, default: {cpu: 500m}}]")
	limitRange(t, ns, "pods", "[{type: Pod, max: {memory: 100Gi}}]")
	w := newWorkload(t, ns, "w", "", both)
	seen(t, ns)
	const level = "{resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 1, memory: 1Gi}}, containers: [{name: a}, {name: b}]}"
	lonely := w.pod(t, level)
	lonely.OwnerReferences, lonely.Labels = nil, nil
	for name, p := range map[string]*corev1.Pod{"of a VPA": w.pod(t, level), "of none": lonely} {
		for how, options := range map[string][]client.CreateOption{"by dry run": {client.DryRunAll}, "in earnest": nil} {
			err := cluster.Create(t.Context(), p.DeepCopy(), options...)
			require.True(t, apierrors.IsInvalid(err), "%s, %s: %v", name, how, err)
			require.ErrorContains(t, err, "spec.resources: pods with resources at pod level are refused in a namespace with a LimitRange of type Container: defaults; "+
				"remove it, or remove spec.resources from the pod")
		}
	}
	require.Empty(t, pods(t, ns))
	p := w.created(t, "containers: [{name: a, resources: {limits: {memory: 1Gi}}}, {name: b}]")
	has(t, p, "200m/200m 200Mi/200Mi", "100m/100m 100Mi/-") // the default is where LimitRanger put it
}

// resourcesAtPodLevelAreLeftAlone with the gate off, and containers stay within them.
func resourcesAtPodLevelAreLeftAlone(t *testing.T) {
	ns := namespace(t, "np-alone")
	limitRange(t, ns, "defaults", "[{type: Container, max: {cpu: 100}}]")
	free := namespace(t, "np-alone-free")
	spoiled, w := newWorkload(t, ns, "w", "", both), newWorkload(t, free, "w", "", both)
	seen(t, ns)

	p := w.created(t, "{resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 2Gi}}, containers: [{name: a, resources: {requests: {cpu: 100m}}}, {name: b}]}")
	has(t, p, "pod 1/2 1Gi/2Gi", "200m/- 200Mi/-", "100m/- 100Mi/-")
	require.Equal(t, "container 0: cpu request, memory request; container 1: cpu request, memory request", updates(p))

	p = w.created(t, "{resources: {requests: {cpu: 150m, memory: 1Gi}}, containers: [{name: a, resources: {requests: {cpu: 10m}}}, {name: b}]}")
	has(t, p, "pod 150m/- 1Gi/-", "100m/- 200Mi/-", "50m/- 100Mi/-")
	require.Equal(t, "container 0: cpu capped to fit the pod, cpu request, memory request; container 1: cpu capped to fit the pod, cpu request, memory request", updates(p))

	p = spoiled.created(t, "{resources: {requests: {cpu: 1}}, containers: [{name: a, resources: {limits: {cpu: 1m}}}, {name: b, resources: {limits: {cpu: 1m}}}]}")
	has(t, p, "pod 1/1 300Mi/-", "200m/200m 200Mi/-", "100m/100m 100Mi/-") // of the pod, what the API server fills in
}

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
