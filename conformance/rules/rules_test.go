// Package rules holds the rows that every shipped rule must pass: what goes in, what comes out, and which rule did
// it. TestEveryShippedRuleHasARow fails when a rule, decision or validation is reached by no row.
package rules

import (
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// rows run with plans compiled for them and note which rules fired.
type rows struct {
	fired       map[string]bool
	interpreted bool
}

// TestShippedRules runs all tables, then checks that they reach every rule.
func TestShippedRules(t *testing.T) { (&rows{fired: map[string]bool{}}).run(t) }

// TestShippedRulesAsCELEvaluatesThem holds the compiled code against CEL.
func TestShippedRulesAsCELEvaluatesThem(t *testing.T) {
	(&rows{fired: map[string]bool{}, interpreted: true}).run(t)
}

func (r *rows) run(t *testing.T) {
	t.Run("container.select", r.selection)
	t.Run("container.estimate", r.estimate)
	t.Run("container.recommend", r.recommend)
	t.Run("pod.admit", r.admit)
	t.Run("vpa.update", r.updateMode)
	t.Run("pod.fit and pod.resources", r.podResources)
	t.Run("pod.priority", r.priority)
	t.Run("pod.update", r.update)
	t.Run("vpa.validate", r.validate)
	t.Run("every shipped rule has a row", r.coverage)
}

func (r *rows) plan(t *testing.T, o policy.Options) *engine.Plan {
	t.Helper()
	plan, err := policy.Load(o)
	require.NoError(t, err)
	if r.interpreted {
		return plan.Interpreted()
	}
	return plan
}

// note remembers what a trace shows.
func (r *rows) note(trace *engine.Trace) (fired []string) {
	seen := map[string]bool{}
	for _, s := range trace.Steps() {
		r.fired[s.Path()] = true
		if !seen[s.Path()] {
			fired = append(fired, s.Path())
		}
		seen[s.Path()] = true
	}
	return fired
}

func (r *rows) coverage(t *testing.T) {
	library, err := policy.Shipped()
	require.NoError(t, err)
	var missing []string
	want := func(path string) {
		if !r.fired[path] {
			missing = append(missing, path)
		}
	}
	for _, set := range library.RuleSets {
		name := set.Name.Value
		for _, stage := range set.Stages {
			for _, rule := range stage.Rules {
				want(name + "/" + stage.Name.Value + "/" + rule.Name.Value)
			}
		}
		for _, d := range set.Decisions {
			want(name + "/" + d.Name.Value)
		}
		for _, v := range set.Validations {
			want(name + "/" + v.Name.Value)
		}
	}
	sort.Strings(missing)
	require.Empty(t, missing, "rules without a row in this package")
}

// list reads "cpu=100m memory=1Gi".
func list(t *testing.T, text string) corev1.ResourceList {
	t.Helper()
	if text == "" {
		return nil
	}
	out := corev1.ResourceList{}
	for _, part := range strings.Fields(text) {
		name, value, ok := strings.Cut(part, "=")
		require.True(t, ok, text)
		out[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return out
}

// show is the inverse of list, cpu first.
func show(l corev1.ResourceList) string {
	var parts []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := l[name]; ok {
			parts = append(parts, string(name)+"="+q.String())
		}
	}
	return strings.Join(parts, " ")
}

// fromYAML reads one object strictly enough for a test.
func fromYAML[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), out), text)
	return out
}

// containerPolicy reads the fields of a container policy.
func containerPolicy(t *testing.T, text string) *vpav1.ContainerResourcePolicy {
	t.Helper()
	if text == "" {
		return nil
	}
	return fromYAML[vpav1.ContainerResourcePolicy](t, text)
}
