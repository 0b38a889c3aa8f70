package admission

import (
	"slices"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// denying are a policy's compiled expressions with their rules.
type denying []struct {
	rule string
	prg  cel.Program
}

func compiled(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy) (out denying) {
	t.Helper()
	set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 33)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("variables", cel.DynType),
		},
	})
	require.NoError(t, err)
	env := set.NewExpressionsEnv()
	for _, v := range policy.Spec.Variables {
		_, issues := env.Compile(v.Expression)
		require.NoError(t, issues.Err(), v.Name)
	}
	for _, v := range policy.Spec.Validations {
		ast, issues := env.Compile(v.Expression)
		require.NoError(t, issues.Err(), v.Message)
		prg, err := env.Program(ast)
		require.NoError(t, err)
		out = append(out, struct {
			rule string
			prg  cel.Program
		}{RuleOf(v.Message), prg})
	}
	return out
}

// denied returns the rules by which a policy refuses an object, sorted and unique.
func (d denying) denied(t *testing.T, gates map[string]bool, object, old map[string]any) (out []string) {
	t.Helper()
	var before any = types.NullValue
	if old != nil {
		before = old
	}
	for _, v := range d {
		answer, _, err := v.prg.Eval(map[string]any{"object": object, "oldObject": before, "variables": map[string]any{"gates": gates}})
		require.NoError(t, err, v.rule)
		if answer != types.True {
			out = append(out, v.rule)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The schema or a policy enforces each rule, or the webhook does.
func TestEachRuleHasItsPlace(t *testing.T) {
	rules := newBoth(t).plan.Validations(facts.VPAValidate)
	policies, left, err := emit.Policies(rules, map[string]bool{"InPlace": true, "PerVPAConfig": false}, facts.VPAValidateFacts())
	require.NoError(t, err)
	require.Len(t, policies, 2)
	judged := map[string]bool{}
	for _, p := range policies {
		for _, v := range compiled(t, p.Policy) {
			judged[v.rule] = true
		}
	}
	for _, rule := range left {
		require.False(t, judged[rule], rule)
		judged[rule] = true
	}
	for _, v := range rules {
		require.Equal(t, !v.Validation.EnforcedAt(document.EnforceSchema), judged[v.Rule], v.Rule)
	}
}

// It tries random objects, new and changed.
func TestThePolicyRefusesWhatTheWebhookRefuses(t *testing.T) {
	b := newBoth(t)
	server, plan := b.server, b.plan
	gates := map[string]bool{}
	for gate := range facts.Gates {
		gates[gate] = false
	}
	policies, _, err := emit.Policies(plan.Validations(facts.VPAValidate), gates, facts.VPAValidateFacts())
	require.NoError(t, err)
	require.Equal(t, emit.DenyPolicy, policies[0].Policy.Name)
	policy := compiled(t, policies[0].Policy)
	here := map[string]bool{}
	for _, v := range policy {
		here[v.rule] = true
	}
	refused, accepted := 0, 0
	for seed := range uint64(300) {
		r := server.Random(seed)
		var old map[string]any
		object := r.Object()
		for range 3 {
			now, err := server.Decoded(object)
			if err != nil || len(server.Judge(now, old).Structure) > 0 {
				break // it never reaches a policy
			}
			var before []byte
			if old != nil {
				before = text(old)
			}
			request := vpareview.Read(text(now), before, "")
			var want []string
			for _, cause := range vpareview.Review(plan, request).Causes {
				if here[cause.Rule] {
					want = append(want, cause.Rule)
				}
			}
			slices.Sort(want)
			want = slices.Compact(want)
			require.Equal(t, want, policy.denied(t, gates, now, old), "seed %d\nobject %s\nreplaces %s", seed, text(now), before)
			if len(want) > 0 {
				refused++
			} else {
				accepted++
			}
			old, object = now, r.Changed(now)
		}
	}
	t.Logf("%d refused, %d accepted", refused, accepted)
	require.Greater(t, refused, 100)
	require.Greater(t, accepted, 100)
}
