package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
