package emit_test

import (
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/celvpa/celvpa/conformance/admission"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/engine"
)

// TestThePoliciesCompile for the oldest Kubernetes that celvpa is for. What they answer is seen on a real API server.
func TestThePoliciesCompile(t *testing.T) {
	_, plan := generated(t, "")
	rules := plan.Validations(facts.VPAValidate)
	policies, left, err := emit.Policies(rules, map[string]bool{"InPlace": true, "PerVPAConfig": false}, facts.VPAValidateFacts())
	require.NoError(t, err)
	require.Len(t, policies, 2)
	set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 33)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("variables", cel.DynType),
		},
	})
	require.NoError(t, err)
	env := set.NewExpressionsEnv()
	judged := map[string]bool{}
	for _, p := range policies {
		for _, v := range p.Policy.Spec.Variables {
			_, issues := env.Compile(v.Expression)
			require.NoError(t, issues.Err(), v.Name)
		}
		for _, v := range p.Policy.Spec.Validations {
			_, issues := env.Compile(v.Expression)
			require.NoError(t, issues.Err(), v.Message)
			judged[admission.RuleOf(v.Message)] = true
		}
	}
	// Each rule has one place where an API server knows it, or is left to the webhook.
	for _, rule := range left {
		require.False(t, judged[rule], rule)
		judged[rule] = true
	}
	for _, v := range rules {
		require.Equal(t, !v.Validation.EnforcedAt(engine.EnforceSchema), judged[v.Rule], v.Rule)
	}
}
