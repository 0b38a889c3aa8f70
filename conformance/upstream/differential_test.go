package upstream

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// generated is how many cases run.
const generated = 10_000

// TestCelvpaAnswersAsUpstreamDoes sends generated objects to both webhooks. Each mismatch is a bug
// in celvpa, or needs an entry in the table of deliberate differences.
func TestCelvpaAnswersAsUpstreamDoes(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	wrong, met := mismatches{}, map[string]int{}
	both, number := map[bool]int{}, cases(generated)
	for seed := range seeds(t, number) {
		c := generate(seed)
		o, unexplained, err := judge(c, func(entry string) { met[entry]++ })
		require.NoError(t, err)
		if o.Upstream.allowed() == o.Celvpa.allowed() {
			both[o.Celvpa.allowed()]++
		}
		for _, d := range unexplained {
			wrong.add(d.signature(), c, seed)
		}
	}
	t.Logf("of %d objects both allow %d and refuse %d", number, both[true], both[false])
	require.Greater(t, both[true], number/10, "the generator makes too few objects that are right")
	require.Greater(t, both[false], number/10, "the generator makes too few objects that are wrong")

	wrong.report(t, explainMismatch)
	for _, x := range deliberate {
		explainsSome(t, met, x.name)
	}
}

// FuzzVPAValidation is the same test for any seed.
func FuzzVPAValidation(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed)
	}
	f.Cleanup(func() { _ = setUpstreamGates(gates{}) })
	f.Fuzz(func(t *testing.T, seed uint64) {
		c := generate(seed)
		_, unexplained, err := judge(c, nil)
		require.NoError(t, err)
		for _, d := range unexplained {
			t.Error(explainMismatch(c, d.signature()))
		}
	})
}

// explainMismatch shrinks a case as long as it still shows the mismatch, and prints both answers.
func explainMismatch(c testCase, signature string) string {
	faults := math.MaxInt // leaving out a required field would be smaller, but another fault
	small := shrink(c, func(candidate testCase) bool {
		o, unexplained, err := judge(candidate, nil)
		found := len(o.Upstream.Denied) + len(o.Celvpa.Denied)
		if err != nil || found > faults || !slices.ContainsFunc(unexplained, func(d discrepancy) bool { return d.signature() == signature }) {
			return false
		}
		faults = found
		return true
	})
	o, _, err := judge(small, nil)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s\n%supstream %scelvpa %s", signature, small, o.Upstream, o.Celvpa)
}

// TestCasesThatDifferedOnce are regressions, each with its cause.
func TestCasesThatDifferedOnce(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	for name, text := range map[string]string{
		"a policy that is new is not compared with what is called alike above it": `
old: {spec: {startupBoost: {cpu: {type: Factor, factor: 2}}}}
object: {spec: {startupBoost: {cpu: {type: Factor, factor: 2}}, resourcePolicy: {containerPolicies: [{containerName: a, startupBoost: {cpu: {type: Factor, factor: 0}}}]}}}`,
		"a maximum below a minimum with a blank in it, both from before": `
old: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, minAllowed: {nvidia.com/gpu: "1 "}, maxAllowed: {nvidia.com/gpu: 0}}]}}}
object: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, minAllowed: {nvidia.com/gpu: "1 "}, maxAllowed: {nvidia.com/gpu: 0}}]}}}`,
		"a maximum below a minimum that is not a quantity to the schema, both from before, beside a field that it refuses": `
old: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, minAllowed: {memory: 1.0e+30}, maxAllowed: {memory: 1Ti}}]}}}
object: {spec: {targetRef: {}, resourcePolicy: {containerPolicies: [{containerName: a, minAllowed: {memory: 1.0e+30}, maxAllowed: {memory: 1Ti}}]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			o, unexplained, err := judge(readCase(t, text), nil)
			require.NoError(t, err)
			require.Empty(t, unexplained, "upstream %scelvpa %s", o.Upstream, o.Celvpa)
		})
	}
}

// TestEveryDeliberateDifferenceHasAnExample also keeps the table minimal: an example needs its own
// entry and no other.
func TestEveryDeliberateDifferenceHasAnExample(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	for _, x := range deliberate {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			require.NotEmpty(t, x.why)
			var met []string
			o, unexplained, err := judge(readCase(t, x.example), func(entry string) { met = append(met, entry) })
			require.NoError(t, err)
			require.Empty(t, unexplained)
			require.Equal(t, []string{x.name}, slices.Compact(met), "upstream %scelvpa %s", o.Upstream, o.Celvpa)
		})
	}
}

// readCase reads a case from YAML. Whole numbers are integers, as in generated cases.
func readCase(t testing.TB, text string) testCase {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	var c testCase
	require.NoError(t, json.Unmarshal(raw, &c))
	c.Object, c.Old = wholeNumbers(c.Object).(map[string]any), wholeNumbers(c.Old).(map[string]any)
	return c
}

func wholeNumbers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for key := range x {
			x[key] = wholeNumbers(x[key])
		}
	case []any:
		for i := range x {
			x[i] = wholeNumbers(x[i])
		}
	case float64:
		if x == float64(int64(x)) {
			return int64(x)
		}
	}
	return v
}
