package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/facts"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// One overlay with such a quantity kept all rules from being reloaded, and a restarted process from
// listening.
func TestQuantitiesWithHugeExponentsInRulesAreRefused(t *testing.T) {
	raw := func(text string) map[string]apiextensionsv1.JSON {
		return map[string]apiextensionsv1.JSON{"now.memory": {Raw: []byte(text)}}
	}
	stage := func(expression string) []rulesv1alpha1.Change {
		return []rulesv1alpha1.Change{{After: "container-caps", Stage: &rulesv1alpha1.Stage{Name: "more", Each: &apiextensionsv1.JSON{Raw: []byte(`"bound"`)},
			Rules: []rulesv1alpha1.Rule{{Name: "more", Set: raw(expression)}}}}}
	}
	for name, change := range map[string][]rulesv1alpha1.Change{
		"a literal":                    stage(`"mem('1e-999999999')"`),
		"a literal of very many zeros": stage(`"mem('1e0000000000000000000000000000000000000000000000000000000000000000009')"`),
		"a param":                      {{Params: map[string]apiextensionsv1.JSON{"containerMaxAllowed.memory": {Raw: []byte(`"1e-999999999"`)}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, objects, _ := clusterSource(t)
			*objects = []rulesv1alpha1.RuleOverlay{
				{ObjectMeta: metav1.ObjectMeta{Name: "endless", UID: "1", Generation: 1}, Spec: rulesv1alpha1.RuleOverlaySpec{Mode: "Audit", Change: change}},
				marginOverlay("other", 1, "0.3", "payments"),
			}
			hang.Within(t, func() { s.Reload(t.Context()) })
			require.ErrorContains(t, s.Accepted()["endless"].Err, "write it like 250m or 4Gi")
			require.NoError(t, s.Accepted()["other"].Err)
			require.Equal(t, []string{"other"}, overlaysFor(s, "payments"))
		})
	}
	hang.Within(t, func() {
		_, err := NewSource(Options{Params: map[string]string{"containerMaxAllowed.memory": "1e-999999999"}}, time.Second, testclock.NewFakeClock(time.Unix(0, 0)), logr.Discard())
		require.ErrorContains(t, err, "exponent", "as with a flag")
	})
}

// Validations read quantities by functions of Kubernetes, which check nothing.
func TestQuantitiesInValidationsThatTakeForEverAreNone(t *testing.T) {
	for name, expression := range map[string]string{
		"a literal":          "quantity('1e-999999999').compareTo(quantity('0')) == 0",
		"a value unguarded":  "!has(self.resourcePolicy) || self.resourcePolicy.containerPolicies.all(p, !isQuantity(string(p.maxAllowed['cpu'])) || quantity(string(p.maxAllowed['cpu'])).compareTo(quantity('0')) == 0)",
		"one that is summed": "[quantity('1'), quantity('1e999999999')].total().compareTo(quantity('0')) == 0",
	} {
		t.Run(name, func(t *testing.T) {
			s, objects, _ := clusterSource(t)
			*objects = []rulesv1alpha1.RuleOverlay{{ObjectMeta: metav1.ObjectMeta{Name: "endless", UID: "1", Generation: 1}, Spec: rulesv1alpha1.RuleOverlaySpec{
				Change: []rulesv1alpha1.Change{{After: "vpa-object/one-recommender", Validation: &rulesv1alpha1.Validation{Name: "mine", At: &apiextensionsv1.JSON{Raw: []byte(`"spec"`)}, Enforce: []string{"Admission"}, Expression: expression, Message: "no"}}},
			}}}
			hang.Within(t, func() { s.Reload(t.Context()) })
			require.NoError(t, s.Accepted()["endless"].Err)
			object := map[string]any{"metadata": map[string]any{"name": "v"}, "spec": map[string]any{"resourcePolicy": map[string]any{"containerPolicies": []any{
				map[string]any{"containerName": "a", "maxAllowed": map[string]any{"cpu": "1e-999999999"}}}}}}
			hang.Within(t, func() {
				plan, err := s.Rules().Everywhere()
				require.NoError(t, err)
				_ = plan.Validate(facts.VPAValidate, engine.Judged{Object: object, Facts: facts.ValidateFacts(&vpav1.VerticalPodAutoscaler{}, facts.Beside{}, facts.PolicyRules{})}, nil)
			})
		})
	}
}

// An overlay that is accepted can have a hundred validations, each of which takes an API server's
// limit for each of many containers: a review took minutes, in mode Audit too.
func TestTheValidationsOfOneReviewEndTogether(t *testing.T) {
	numbers := "[" + strings.Repeat("1, ", 74) + "1]"
	var change []rulesv1alpha1.Change
	for i := range 100 {
		change = append(change, rulesv1alpha1.Change{After: "vpa-object", Validation: &rulesv1alpha1.Validation{Name: fmt.Sprintf("mine-%d", i), Message: "no",
			At:         &apiextensionsv1.JSON{Raw: []byte(`"spec.resourcePolicy.containerPolicies[*]"`)},
			Expression: strings.ReplaceAll("LIST.all(a, LIST.all(b, LIST.all(c, a + b + c > 0 || self.containerName == '')))", "LIST", numbers)}})
	}
	s, objects, _ := clusterSource(t)
	*objects = []rulesv1alpha1.RuleOverlay{{ObjectMeta: metav1.ObjectMeta{Name: "heavy", UID: "1", Generation: 1}, Spec: rulesv1alpha1.RuleOverlaySpec{Change: change}}}
	s.Reload(t.Context())
	require.NoError(t, s.Accepted()["heavy"].Err)
	plan, err := s.Rules().Everywhere()
	require.NoError(t, err)
	object := func(labels map[string]any) map[string]any {
		policies := []any{}
		for i := range 10 {
			policies = append(policies, map[string]any{"containerName": fmt.Sprintf("c%d", i)})
		}
		return map[string]any{"metadata": map[string]any{"name": "v", "labels": labels}, "spec": map[string]any{
			"targetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "resourcePolicy": map[string]any{"containerPolicies": policies}}}
	}
	for old, warning := range map[*map[string]any]bool{nil: false, new(object(nil)): true} {
		judged := engine.Judged{Object: object(map[string]any{"a": "b"}), Facts: facts.ValidateFacts(&vpav1.VerticalPodAutoscaler{}, facts.Beside{}, facts.PolicyRules{})}
		if old != nil {
			judged.Old = *old
		}
		var got []engine.Violation
		hang.Within(t, func() { got = plan.Validate(facts.VPAValidate, judged, nil) })
		require.LessOrEqual(t, len(got), 10)
		last := got[len(got)-1]
		require.Equal(t, "the rule failed: the rules take more than 10000000 steps for this object", last.Message)
		require.True(t, last.Failed)
		require.Equal(t, warning, last.Warning, "what a change does not touch stays editable")
	}
}
