package emit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/crds/schema"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/source"
)

func rule(name, at, expression string) engine.ValidationInfo {
	scalar := func(s string) source.Scalar { return source.Scalar{Value: s} }
	return engine.ValidationInfo{Rule: "mine/" + name, Validation: &document.Validation{
		Name: scalar(name), At: []source.Scalar{scalar(at)}, Enforce: []source.Scalar{scalar(document.EnforceSchema)},
		Expression: scalar(expression), Message: scalar("no"),
	}}
}

func TestARuleThatAnAPIServerRefusesIsNamed(t *testing.T) {
	for name, tt := range map[string]struct {
		rule engine.ValidationInfo
		want string
	}{
		"it costs too much": {rule("pairs", "spec.resourcePolicy.containerPolicies", "self.all(p, self.all(q, self.all(r, p.containerName + q.containerName != r.containerName)))"),
			"rule mine/pairs at spec.resourcePolicy.containerPolicies: it costs "},
		"its message has two lines": {func() engine.ValidationInfo {
			r := rule("lines", "spec.updatePolicy", "has(self.updateMode)")
			r.Validation.Message.Value = "no\nway"
			return r
		}(), "rule mine/lines at spec.updatePolicy: its message has line breaks"},
		"it does not compile": {rule("typo", "spec.updatePolicy", "self.updateMood == 'x'"), "rule mine/typo at spec.updatePolicy: compilation failed"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := CRDs([]engine.ValidationInfo{rule("fine", "spec.updatePolicy", "has(self.updateMode)"), tt.rule})
			require.NoError(t, err)
			refused := 0
			for _, crd := range all {
				refusals, err := Check(crd, schema.LowestKubernetes)
				require.NoError(t, err)
				for _, r := range refusals {
					refused++
					require.ErrorContains(t, r, "an API server would refuse CRD verticalpodautoscalers.autoscaling.k8s.io: "+tt.want)
				}
			}
			require.Equal(t, 1, refused)
		})
	}
}
