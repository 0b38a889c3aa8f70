package admission

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/crds/schema"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

var objects = flag.Int("parity.objects", 1000, "how many random objects, each with two changes, are judged by both sides")

// both judges by the generated CRD, like an API server, and by the rules, like the webhook.
type both struct {
	server *APIServer
	plan   *engine.Plan
	types  *schema.Objects
	schema map[string]bool // rules in the schema
}

func newBoth(t testing.TB) *both {
	t.Helper()
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	rules := book.Default().Validations(facts.VPAValidate)
	all, err := emit.CRDs(rules)
	require.NoError(t, err)
	out := &both{plan: book.Default(), schema: map[string]bool{}}
	out.types, err = policy.VPASchema()
	require.NoError(t, err)
	for _, crd := range all {
		if crd.Name == crds.VPA {
			out.server, err = NewAPIServer(crd)
			require.NoError(t, err)
		}
	}
	for _, v := range rules {
		out.schema[v.Rule] = v.Validation.EnforcedAt(document.EnforceSchema)
	}
	return out
}

type outcome struct {
	misfit  bool // does not fit the schema, so rules are not compared: servers mostly skip them
	refused []string
	warned  []string
}

// judge returns how the two verdicts differ; empty = they agree.
func (b *both) judge(object, old map[string]any) (outcome, string) {
	now, err := b.server.Decoded(object)
	if err != nil {
		return outcome{misfit: true}, ""
	}
	before, err := b.server.Decoded(old)
	if err != nil {
		return outcome{misfit: true}, ""
	}
	if before != nil && slices.ContainsFunc(b.server.Judge(before, nil).Structure, unstorable) {
		return outcome{misfit: true}, ""
	}
	verdict := b.server.Judge(now, before)
	var faults []string
	for _, f := range b.types.Check(object, old) {
		if !f.Unknown {
			faults = append(faults, fmt.Sprintf("%s: %s", f.Field, f.Message))
		}
	}
	if fits := len(verdict.Structure) == 0; fits != (len(faults) == 0) {
		return outcome{}, fmt.Sprintf("the schema: the server says %v, Check says %v", verdict.Structure, faults)
	}
	if len(verdict.Structure) > 0 {
		return outcome{misfit: true, refused: verdict.Refused}, ""
	}
	var replaced []byte
	if before != nil {
		replaced = text(before)
	}
	request := vpareview.Read(text(now), replaced, "")
	request.CRD = b.plan
	answer := vpareview.Review(b.plan, request)
	ours := func(causes []vpareview.Cause) (out []string) {
		for _, c := range causes {
			if b.schema[c.Rule] {
				out = append(out, c.Rule+"@"+c.Field)
			}
		}
		slices.Sort(out)
		return out
	}
	refused, warned := ours(answer.Causes), ours(answer.Warnings)
	unreadable := slices.IndexFunc(answer.Causes, func(c vpareview.Cause) bool { return c.Rule == vpareview.SchemaRule })
	if unreadable >= 0 && len(verdict.Refused)+len(verdict.Warned) == 0 {
		return outcome{}, fmt.Sprintf("the server accepts without a word what the controllers cannot read: %v", answer.Causes[unreadable])
	}
	if !slices.Equal(verdict.Refused, refused) || !slices.Equal(verdict.Warned, warned) {
		return outcome{}, fmt.Sprintf("the rules: the server says %v, the webhook refuses %v and warns of %v: %v", verdict, refused, warned, answer)
	}
	return outcome{refused: refused, warned: warned}, ""
}

// unstorable reports faults that no version of the CRD ever admitted: types, quantities and
// required fields never changed; bounds and enumerations did.
func unstorable(err *field.Error) bool {
	return err.Type == field.ErrorTypeTypeInvalid || err.Type == field.ErrorTypeInvalid || err.Type == field.ErrorTypeRequired
}

func text(object map[string]any) []byte {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err) // cannot happen: it came from JSON
	}
	return data
}

// The CRD enforces the tables' expectations for rules in the schema.
func TestRowsOfTables(t *testing.T) {
	b := newBoth(t)
	rows, err := Rows()
	require.NoError(t, err)
	misfits := 0
	for _, row := range rows {
		came, difference := b.judge(row.Object, row.Old)
		require.Empty(t, difference, row.String())
		if came.misfit {
			misfits++
			continue
		}
		var want []string
		for _, v := range row.Violations {
			if b.schema[v.Rule] && v.Severity != document.SeverityWarn {
				want = append(want, v.Rule+"@"+v.Field)
			}
		}
		slices.Sort(want)
		if len(row.Params) == 0 { // the schema has no params
			require.Equal(t, want, came.refused, row.String())
		}
	}
	t.Logf("%d rows, of which %d do not fit the schema", len(rows), misfits)
	require.Less(t, misfits, len(rows)/2, "most rows are about rules")
}

// Enough objects must reach the rules, and each schema rule must refuse one.
func TestRandomObjects(t *testing.T) {
	b := newBoth(t)
	seen := map[string]int{}
	count := map[string]int{}
	for seed := range uint64(*objects) {
		for _, c := range cases(b.server, seed) {
			came, difference := b.judge(c.object, c.old)
			require.Empty(t, difference, "seed %d\nobject %s\nreplaces %s", seed, text(c.object), text(c.old))
			switch {
			case came.misfit:
				count["misfit"]++
			case len(came.refused) > 0:
				count["refused"]++
			default:
				count["accepted"]++
			}
			if len(came.warned) > 0 {
				count["warned of what was so before"]++
			}
			for _, violation := range came.refused {
				rule, _, _ := strings.Cut(violation, "@")
				seen[rule]++
			}
		}
	}
	t.Logf("%v", count)
	for _, what := range []string{"misfit", "refused", "accepted", "warned of what was so before"} {
		require.Greater(t, count[what], *objects/50, what)
	}
	for rule, inSchema := range b.schema {
		if inSchema {
			require.NotZero(t, seen[rule], "no random object violates rule %s", rule)
		}
	}
}

type judged struct{ object, old map[string]any }

// cases are a new object and changes to it.
func cases(server *APIServer, seed uint64) []judged {
	r := server.Random(seed)
	first := r.Object()
	second := r.Changed(first)
	return []judged{{first, nil}, {second, first}, {r.Changed(second), second}}
}

// FuzzParity is TestRandomObjects without an end.
func FuzzParity(f *testing.F) {
	b := newBoth(f)
	for _, seed := range []uint64{0, 1, 1 << 40} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		for _, c := range cases(b.server, seed) {
			_, difference := b.judge(c.object, c.old)
			require.Empty(t, difference, "object %s\nreplaces %s", text(c.object), text(c.old))
		}
	})
}

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

// large is a valid object with full container policies.
func large(policies int) map[string]any {
	amounts := func(value string) map[string]any {
		out := map[string]any{"cpu": value, "memory": value}
		for i := range 30 {
			out[fmt.Sprintf("example.com/device-%d", i)] = value
		}
		return out
	}
	var list []any
	for i := range policies {
		list = append(list, map[string]any{
			"containerName": fmt.Sprintf("%s-%03d", strings.Repeat("c", 59), i),
			"minAllowed":    amounts("1"), "maxAllowed": amounts("2"),
			"controlledResources": []any{"cpu", "memory"},
			"requestToLimitRatio": map[string]any{"cpu": map[string]any{"type": "Factor", "factor": 1.5}},
		})
	}
	return map[string]any{
		"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
		"metadata": map[string]any{"name": "web", "namespace": "shop"},
		"spec": map[string]any{
			"targetRef":      map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
			"resourcePolicy": map[string]any{"containerPolicies": list, "podPolicies": map[string]any{"minAllowed": amounts("500"), "maxAllowed": amounts("1k")}},
		},
	}
}

// The budgets of API servers and of the engine must cover the schema's bounds. The runtime budget
// is smaller than the estimated cost allowed at CRD installation.
func TestTheLargestObjectIsJudged(t *testing.T) {
	b := newBoth(t)
	policies := b.server.root.Properties["spec"].Properties["resourcePolicy"].Properties["containerPolicies"]
	most := int(*policies.ValueValidation.MaxItems)
	for want, count := range map[bool]int{false: most, true: most + 1} {
		begin := time.Now()
		came, difference := b.judge(large(count), nil)
		t.Logf("%d container policies: %s", count, time.Since(begin).Round(time.Millisecond))
		require.Empty(t, difference)
		require.Equal(t, outcome{misfit: want}, came)
	}
}

// API servers run rules even on values that the pattern refuses, and cannot interrupt a comparison.
// One of these quantities takes minutes, so a failure would hang the test.
func TestNoRuleOfTheSchemaReadsEndlessQuantities(t *testing.T) {
	b := newBoth(t)
	for _, endless := range []string{"1e999999999", "1E-999999999", "-1e+99999999"} {
		amounts := map[string]any{"cpu": endless, "memory": endless, "example.com/device": endless}
		boost := map[string]any{"cpu": map[string]any{"type": "Quantity", "quantity": endless}}
		ratio := map[string]any{"cpu": boost["cpu"], "memory": boost["cpu"]}
		verdict := b.server.Judge(map[string]any{
			"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
			"metadata": map[string]any{"name": "web", "namespace": "shop"},
			"spec": map[string]any{
				"targetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "startupBoost": boost,
				"resourcePolicy": map[string]any{
					"containerPolicies": []any{map[string]any{
						"containerName": "app", "minAllowed": amounts, "maxAllowed": amounts, "startupBoost": boost, "requestToLimitRatio": ratio,
						"oomBumpUpRatio": endless, "oomMinBumpUp": endless, "memoryPerCPU": endless,
					}},
					"podPolicies": map[string]any{"minAllowed": amounts, "maxAllowed": amounts},
				},
			},
		}, nil)
		require.Len(t, verdict.Structure, 19, "each is refused by the pattern: %v", verdict.Structure)
		require.Contains(t, verdict.Refused, "per-vpa-config/oom-ratio-parses@spec.resourcePolicy.containerPolicies[0].oomBumpUpRatio", "and the rules are run")
	}
}
