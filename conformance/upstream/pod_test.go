package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// generatedPods is how many cases of each kind run.
const generatedPods = 3000

var podKinds = map[string]podKind{
	"pods":                    {},
	"startup boosts":          {boost: true},
	"resources at pod level":  {podLevel: true},
	"boosts within such pods": {boost: true, podLevel: true},
}

// TestCelvpaChangesPodsAsUpstreamDoes admits generated pods with both. Each mismatch is a bug in
// celvpa, or needs an entry in the table of deliberate differences. If upstream panics, celvpa must
// still return a valid pod.
func TestCelvpaChangesPodsAsUpstreamDoes(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	met, ran := map[string]int{}, 0
	for _, name := range slices.Sorted(maps.Keys(podKinds)) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			manyPods(t, podKinds[name], met)
			ran++
		})
	}
	if ran == len(podKinds) {
		for _, x := range deliberateOfPods {
			explainsSome(t, met, x.name)
		}
	}
}

func manyPods(t *testing.T, kind podKind, met map[string]int) {
	wrong, counts, number := mismatches{}, map[string]int{}, cases(generatedPods)
	for seed := range seeds(t, number) {
		c := generatePod(seed, kind)
		var explained []string
		r, unexplained, err := judgePod(c, func(entry string) {
			met[entry]++
			explained = append(explained, entry)
		})
		require.NoError(t, err)
		switch {
		case r.Upstream.Panicked != "":
			counts["upstream panics"]++
		case len(unexplained) > 0:
			counts["differ"]++
		case len(explained) > 0:
			counts["differ on purpose"]++
		case r.Celvpa.Patch == nil:
			counts["both leave it"]++
		default:
			counts["both do the same"]++
		}
		for _, d := range unexplained {
			wrong.add(d.signature(), c, seed)
		}
	}
	t.Log(countsText(counts))
	require.Greater(t, counts["both do the same"], number/5, "the generator makes too few pods to compare")
	wrong.report(t, explainPod)
}

// explainPod shrinks a case as long as it still shows the mismatch, and prints both answers.
func explainPod(c testCase, signature string) string {
	small := shrink(c, func(candidate testCase) bool {
		if get(c.Object, inStatus) != nil && get(candidate.Object, inStatus) == nil || !isNamed(candidate) {
			return false // smaller, but another case
		}
		_, unexplained, err := judgePod(candidate, nil)
		return err == nil && slices.ContainsFunc(unexplained, func(d podDiscrepancy) bool { return d.signature() == signature })
	})
	return signature + "\n" + describePod(small)
}

const inStatus = "vpa.status.recommendation"

// isNamed reports whether all containers of a case have distinct names.
func isNamed(c testCase) bool {
	list, _ := get(c.Object, "pod.spec.containers").([]any)
	var names []string
	for _, container := range list {
		name, _ := get(container, "name").(string)
		if name == "" || slices.Contains(names, name) {
			return false
		}
		names = append(names, name)
	}
	return true
}

func describePod(c testCase) string {
	r, unexplained, err := judgePod(c, nil)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%supstream %scelvpa %s", c, &r.Upstream, &r.Celvpa)
	for _, d := range unexplained {
		fmt.Fprintf(&out, "%s (%s)\n", d.signature(), d.Text)
	}
	return out.String()
}

// TestEveryDifferenceOfPodsHasAnExample also keeps the table minimal: an example needs its own
// entry and no other.
func TestEveryDifferenceOfPodsHasAnExample(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	for _, x := range deliberateOfPods {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			require.NotEmpty(t, x.why)
			var met []string
			c := readCase(t, x.example)
			r, unexplained, err := judgePod(c, func(entry string) { met = append(met, entry) })
			require.NoError(t, err)
			require.Empty(t, r.Upstream.Panicked)
			require.Empty(t, unexplained, describePod(c))
			met = slices.DeleteFunc(met, func(name string) bool { return name == whatBoundsPods && name != x.name })
			require.Equal(t, []string{x.name}, met, describePod(c))
		})
	}
}

// TestPodsThatDifferedOnce are regressions: a difference of the table explains each.
func TestPodsThatDifferedOnce(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	for name, text := range map[string]string{
		"a maximum below what a LimitRange demands of the pod, beside a boost": `{gates: {CPUStartupBoost: true}, object: {pod: {spec: {containers: [{name: a, resources: {limits: {cpu: 50m}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, min: {cpu: 150m}}]}}],
vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: "*", maxAllowed: {cpu: 100m}, startupBoost: {cpu: {type: Quantity, quantity: 1500m}}}]}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 2}}]}}}}}`,
		"a boost beside a container that has nothing, as its recommendation is above the ceiling": `{gates: {CPUStartupBoost: true}, object: {pod: {spec: {containers: [{name: b}, {name: d}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Container, min: {cpu: 600m}}]}}],
vpa: {spec: {startupBoost: {cpu: {type: Quantity, quantity: 100m}}}, status: {recommendation: {containerRecommendations: [{containerName: b, target: {cpu: "1e10"}}, {containerName: d, target: {cpu: 4m}}]}}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := readCase(t, text)
			_, unexplained, err := judgePod(c, nil)
			require.NoError(t, err)
			require.Empty(t, unexplained, describePod(c))
		})
	}
}

// FuzzPodAdmission is the same test for any seed and kind.
func FuzzPodAdmission(f *testing.F) {
	names := slices.Sorted(maps.Keys(podKinds))
	for i := range names {
		f.Add(uint64(generatedPods), i)
	}
	f.Cleanup(func() { _ = setUpstreamGates(gates{}) })
	f.Fuzz(func(t *testing.T, seed uint64, kind int) {
		if kind < 0 || kind >= len(names) {
			t.Skip("there is no such kind")
		}
		c := generatePod(seed, podKinds[names[kind]])
		_, unexplained, err := judgePod(c, nil)
		require.NoError(t, err)
		for _, d := range unexplained {
			t.Error(explainPod(c, d.signature()))
		}
	})
}

// podTable are worked examples: requests and limits of each container, as request/limit of CPU and
// of memory.
var podTable = []struct {
	name   string
	input  string
	want   []string
	ours   []string // what celvpa does instead, where API servers refuse upstream's pod
	phrase []string // of the first container, in vpaUpdates
}{
	{
		name: "a limit is kept below the maximum of a container",
		input: `{pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Container, max: {cpu: 300m, memory: 1Gi}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 250m, memory: 200Mi}}]}}}}`,
		want: []string{"200m/300m 200Mi/400Mi"},
	},
	{
		name: "the minimum of a container holds for the request, too",
		input: `{pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Container, min: {cpu: 50m, memory: 250Mi}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 250m, memory: 100Mi}}]}}}}`,
		want: []string{"250m/375m 250Mi/500Mi"},
	},
	{
		name: "the limits of two containers share the maximum of a pod",
		input: `{pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}},
{name: b, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {cpu: 600m, memory: 1Gi}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 250m, memory: 200Mi}}, {containerName: b, target: {cpu: 250m, memory: 200Mi}}]}}}}`,
		want: []string{"200m/300m 200Mi/400Mi", "200m/300m 200Mi/400Mi"},
	},
	{
		name: "the requests of two containers share the minimum of a pod",
		input: `{pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}},
{name: b, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, min: {cpu: 100m, memory: 500Mi}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 120m, memory: 100Mi}}, {containerName: b, target: {cpu: 120m, memory: 100Mi}}]}}}}`,
		want: []string{"120m/180m 250Mi/500Mi", "120m/180m 250Mi/500Mi"},
	},
	{
		name: "a container without a recommendation is scaled, too",
		input: `{pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 100m, memory: 100Mi}}},
{name: b, resources: {requests: {cpu: 400m, memory: 600Mi}, limits: {cpu: 400m, memory: 600Mi}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {cpu: 400m, memory: 1Gi}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 400m, memory: 600Mi}}]}}}}`,
		want: []string{"200m/200m 512Mi/512Mi", "200m/200m 512Mi/512Mi"},
	},
	{
		name:  "cpu is rounded up to the minimum of a pod",
		input: fmt.Sprintf(threeContainers, "min: {cpu: 150m}"),
		want:  []string{"6m/6m none/none", "28m/28m none/none", "118m/118m none/none"},
	},
	{
		name:  "cpu is rounded down to the maximum of a pod",
		input: fmt.Sprintf(threeContainers, "max: {cpu: 80m}"),
		want:  []string{"2m/2m none/none", "14m/14m none/none", "62m/62m none/none"},
	},
	{
		name: "without limits a pod has no maximum",
		input: `{pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}}, limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {cpu: 400m}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 800m}}]}}}}`,
		want: []string{"800m/none none/none"},
		ours: []string{"100m/none none/none"}, // LimitRanger refuses it either way
	},
	{
		name: "a limit that is not ours wins over minAllowed",
		input: `{pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m, memory: 200Mi}}}]}},
vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, controlledValues: RequestsOnly, minAllowed: {cpu: 600m}}]}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 800m, memory: 500Mi}}]}}}}`,
		want:   []string{"200m/200m 200Mi/200Mi"},
		phrase: []string{"cpu capped to container limit", "memory capped to container limit"},
	},
	{
		name: "a maximum of one resource leaves the other",
		input: `{pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m, memory: 200Mi}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Container, max: {memory: 512Mi}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 800m, memory: 500Mi}}]}}}}`,
		want:   []string{"800m/1600m 256Mi/512Mi"},
		phrase: []string{"memory capped to fit Max in container LimitRange"},
	},
	{
		name: "a policy does not win over LimitRanges, as it does upstream",
		input: `{pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m, memory: 200Mi}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Container, max: {cpu: 1}, min: {memory: 80Mi}}]}}],
vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, minAllowed: {cpu: 900m}, maxAllowed: {memory: 60Mi}}]}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 800m, memory: 50Mi}}]}}}}`,
		want: []string{"900m/1800m 60Mi/120Mi"},
		ours: []string{"500m/1 80Mi/160Mi"},
	},
	{name: "a limit keeps its proportion", input: oneContainer("requests: {cpu: 100m}, limits: {cpu: 300m}", "cpu: 250m"), want: []string{"250m/750m none/none"}},
	{name: "a limit without a request follows the request", input: oneContainer("limits: {cpu: 1}", "cpu: 250m"), want: []string{"250m/250m none/none"}},
	{name: "a proportion is rounded down", input: oneContainer("requests: {cpu: 3m}, limits: {cpu: 7m}", "cpu: 10m"), want: []string{"10m/23m none/none"}},
	{
		name: "the default of LimitRanges counts for a limit",
		input: `{pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}}, limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Container, default: {cpu: 500m}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 250m}}]}}}}`,
		want: []string{"250m/1250m none/none"},
	},
	{name: "thousandths of bytes are rounded up", input: oneContainer("requests: {memory: 1}, limits: {memory: 1500m}", "memory: 10"), want: []string{"none/none 10/20"}},
}

const threeContainers = `{pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: b, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}},
{name: c, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}]}}, limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, %s}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 4m}}, {containerName: b, target: {cpu: 21m}}, {containerName: c, target: {cpu: 90m}}]}}}}`

func oneContainer(stanza, target string) string {
	return fmt.Sprintf(`{pod: {spec: {containers: [{name: a, resources: {%s}}]}}, vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {%s}}]}}}}`, stanza, target)
}

// TestWorkedExamplesOfPods holds for both sides (UPSTREAM.md §3.6 to §3.8).
func TestWorkedExamplesOfPods(t *testing.T) {
	for _, x := range podTable {
		t.Run(x.name, func(t *testing.T) {
			c := readCase(t, "object: "+x.input)
			r, unexplained, err := judgePod(c, nil)
			require.NoError(t, err)
			require.Empty(t, unexplained, describePod(c))
			for side, a := range map[string]*podAnswer{"upstream": &r.Upstream, "celvpa": &r.Celvpa} {
				require.Empty(t, a.Panicked+a.Failed, side)
				wants := x.want
				if side == "celvpa" && x.ours != nil {
					wants = x.ours
				}
				for i, want := range wants {
					got := a.Pod.Spec.Containers[i].Resources
					text := fmt.Sprintf("%s/%s %s/%s", amountIn(got.Requests, corev1.ResourceCPU), amountIn(got.Limits, corev1.ResourceCPU),
						amountIn(got.Requests, corev1.ResourceMemory), amountIn(got.Limits, corev1.ResourceMemory))
					require.Equal(t, want, text, "%s, container %d", side, i)
				}
				for _, phrase := range x.phrase {
					require.Contains(t, a.updates()[0], phrase, side)
				}
			}
		})
	}
}

// operation is a JSON Patch operation.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// TestPatchesOfPods compares the operations of both sides with the expected ones (UPSTREAM.md
// §4.11). Upstream's order is random.
func TestPatchesOfPods(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	empty := map[string]any{}
	const at = "/spec/containers/0/resources/"
	for _, x := range []struct {
		name    string
		input   string
		want    []operation
		updates map[int][]string
		only    func(operation) bool // whether upstream alone has it
	}{
		{
			name:  "requests and limits",
			input: `object: ` + oneContainer("requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 300m, memory: 100Mi}", "cpu: 250m, memory: 200Mi"),
			want: []operation{{"add", at + "requests/cpu", "250m"}, {"add", at + "requests/memory", "200Mi"},
				{"add", at + "limits/cpu", "750m"}, {"add", at + "limits/memory", "200Mi"}},
			updates: map[int][]string{0: {"cpu limit", "cpu request", "memory limit", "memory request"}},
		},
		{
			name:    "no limits, and one resource recommended",
			input:   `object: ` + oneContainer("requests: {cpu: 100m, memory: 100Mi}", "cpu: 250m"),
			want:    []operation{{"add", at + "requests/cpu", "250m"}},
			updates: map[int][]string{0: {"cpu request"}},
		},
		{
			name:  "no requests, and one limit",
			input: `object: ` + oneContainer("limits: {memory: 1Gi}", "cpu: 100m, memory: 200Mi"),
			want: []operation{{"add", at + "requests", empty}, {"add", at + "requests/cpu", "100m"}, {"add", at + "requests/memory", "200Mi"},
				{"add", at + "limits/memory", "200Mi"}},
			updates: map[int][]string{0: {"cpu request", "cpu: limit NOT set since originalLimit is nil or 0", "memory limit", "memory request"}},
		},
		{
			name: "nothing set, and a recommendation for another container",
			input: `object: {pod: {spec: {containers: [{name: a}, {name: b, resources: {requests: {cpu: 100m}}}]}},
vpa: {status: {recommendation: {containerRecommendations: [{containerName: b, target: {cpu: 250m}}]}}}}`,
			want:    []operation{{"add", "/spec/containers/0/resources", empty}, {"add", "/spec/containers/1/resources/requests/cpu", "250m"}},
			updates: map[int][]string{1: {"cpu request"}},
			only:    func(o operation) bool { return o.Path == "/spec/containers/0/resources" },
		},
		{
			name:  "no recommendation",
			input: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}}}`,
		},
		{
			name: "a startup boost",
			input: `{gates: {CPUStartupBoost: true}, object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m}}}]}},
vpa: {spec: {startupBoost: {cpu: {type: Factor, factor: 3}}}, status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 250m, memory: 100Mi}}]}}}}}`,
			want: []operation{
				{"add", "/metadata/annotations/vpaCpuStartupBoost~1a", `{"requests":{"cpu":"100m","memory":"100Mi"},"limits":{"cpu":"200m"}}`},
				{"add", at + "requests/cpu", "750m"}, {"add", at + "requests/memory", "100Mi"}, {"add", at + "limits/cpu", "1500m"},
			},
			updates: map[int][]string{0: {"cpu limit", "cpu request", "memory request", "memory: limit NOT set since originalLimit is nil or 0"}},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := readCase(t, x.input)
			r, unexplained, err := judgePod(c, nil)
			require.NoError(t, err)
			require.Empty(t, unexplained, describePod(c))
			for side, a := range map[string]*podAnswer{"upstream": &r.Upstream, "celvpa": &r.Celvpa} {
				require.Empty(t, a.Panicked+a.Failed, side)
				var all []operation
				require.NoError(t, json.Unmarshal(a.Patch, &all))
				require.Equal(t, operation{"add", "/metadata/annotations", empty}, all[0], side)
				require.Equal(t, "/metadata/annotations/"+annotationObserved, all[len(all)-1].Path, side)
				all = all[1 : len(all)-1]
				if len(x.updates) > 0 {
					require.Equal(t, "/metadata/annotations/"+annotationUpdates, all[len(all)-1].Path, side)
					all = all[:len(all)-1]
				}
				for i, items := range x.updates {
					require.Equal(t, items, a.updates()[i], side)
				}
				var want []operation
				for _, o := range x.want {
					if x.only == nil || side == "upstream" || !x.only(o) {
						want = append(want, o)
					}
				}
				require.ElementsMatch(t, want, all, side)
			}
		})
	}
}
