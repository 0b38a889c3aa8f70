package emit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/celvpa/celvpa/conformance/admission"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/crds/schema"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// generated returns the CRDs and the rules, with a folder over the shipped rules if not empty.
func generated(t *testing.T, dir string) (map[string]*apiextensionsv1.CustomResourceDefinition, *engine.Plan) {
	t.Helper()
	book, err := policy.Load(policy.Options{Path: dir})
	require.NoError(t, err)
	all, err := emit.CRDs(book.Default().Validations(facts.VPAValidate))
	require.NoError(t, err)
	out := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range all {
		out[crd.Name] = crd
	}
	return out, book.Default()
}

// Limits on the estimated cost of a CRD's rules, each and in total: StaticEstimatedCostLimit and
// StaticEstimatedCRDCostLimit in pkg/apis/apiextensions/validation of apiextensions-apiserver.
const (
	ruleLimit = 10_000_000
	crdLimit  = 100_000_000
)

// Every supported Kubernetes refuses a CRD beyond the budget.
func TestTheRulesOfTheSchemaStayWithinTheBudget(t *testing.T) {
	all, _ := generated(t, "")
	root, _, err := schema.Structural(all[crds.VPA].Spec.Versions[0].Schema)
	require.NoError(t, err)
	for minor := uint(33); minor <= 37; minor++ {
		kubernetes := version.MajorMinor(1, minor)
		t.Run(kubernetes.String(), func(t *testing.T) {
			c := &costs{t: t, env: environment.MustBaseEnvSet(kubernetes)}
			c.walk("", root, model.SchemaDeclType(root, true), 1)
			t.Logf("%d rules cost %d of %d; the costliest %d of %d: %s", c.rules, c.total, crdLimit, c.most, ruleLimit, c.costliest)
			require.Greater(t, c.rules, 20, "the schema has rules")
			require.LessOrEqual(t, c.most, uint64(ruleLimit))
			require.LessOrEqual(t, c.total, uint64(crdLimit))
		})
	}
}

// costs sums estimated rule costs as CRD validation does.
type costs struct {
	t           *testing.T
	env         *environment.EnvSet
	rules       int
	total, most uint64
	costliest   string
}

// walk visits a schema; values is how many instances an object can have.
func (c *costs) walk(path string, s *structural.Structural, declared *apiservercel.DeclType, values uint64) {
	compiled, err := schemacel.Compile(s, declared, celconfig.PerCallLimit, c.env, schemacel.NewExpressionsEnvLoader())
	require.NoError(c.t, err, path)
	for i, rule := range compiled {
		message := s.XValidations[i].Message
		require.Nil(c.t, rule.Error, "%s: %s", path, message)
		require.Nil(c.t, rule.MessageExpressionError, "%s: %s", path, message)
		require.NotZero(c.t, values, "%s is within something that has no bounds", path)
		require.LessOrEqual(c.t, rule.MessageExpressionMaxCost, uint64(ruleLimit), "%s: the text of %s", path, message)
		cost := rule.MaxCost * values
		c.rules, c.total = c.rules+1, c.total+cost+rule.MessageExpressionMaxCost
		if cost > c.most {
			c.most, c.costliest = cost, path+": "+message
		}
	}
	for name, field := range s.Properties {
		at := strings.TrimPrefix(path+"."+name, ".")
		if name == "metadata" && path == "" {
			continue // it has no rules, and the schema does not define its type
		}
		c.walk(at, &field, model.SchemaDeclType(&field, false), values)
	}
	if s.Items != nil {
		c.walk(path+"[*]", s.Items, model.SchemaDeclType(s.Items, false), values*most(s.ValueValidation, func(v *structural.ValueValidation) *int64 { return v.MaxItems }))
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		below := s.AdditionalProperties.Structural
		c.walk(path+"{*}", below, model.SchemaDeclType(below, false), values*most(s.ValueValidation, func(v *structural.ValueValidation) *int64 { return v.MaxProperties }))
	}
}

// most returns a bound, or 0.
func most(v *structural.ValueValidation, bound func(*structural.ValueValidation) *int64) uint64 {
	if v == nil || bound(v) == nil {
		return 0
	}
	return uint64(*bound(v))
}

func TestOneFileChangesTheCRDAndTheWebhook(t *testing.T) {
	const rule = "vpa-object/min-replicas-positive"
	file, err := os.ReadFile("../../rules/vpa-object.yaml")
	require.NoError(t, err)
	own := strings.Replace(string(file), "expression: self > 0\n    message: minReplicas must be greater than 0", "expression: self > 1\n    message: minReplicas must be greater than 1", 1)
	require.NotEqual(t, string(file), own)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vpa-object.yaml"), []byte(own), 0o600))

	const one = `{"metadata":{"name":"web"},"spec":{"targetRef":{"kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"Off","minReplicas":1}}}`
	object := map[string]any{
		"metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"targetRef": map[string]any{"kind": "Deployment", "name": "web"},
			"updatePolicy": map[string]any{"updateMode": "Off", "minReplicas": int64(1)}},
	}
	for folder, refused := range map[string]bool{"": false, dir: true} {
		all, plan := generated(t, folder)
		server, err := admission.NewAPIServer(all[crds.VPA])
		require.NoError(t, err)
		verdict := server.Judge(object, nil)
		answer := vpareview.Review(plan, vpareview.Read([]byte(one), nil, ""))
		require.Empty(t, verdict.Structure)
		require.Equal(t, refused, !answer.Allowed())
		if refused {
			require.Equal(t, []string{rule + "@spec.updatePolicy.minReplicas"}, verdict.Refused)
			require.Equal(t, "spec.updatePolicy.minReplicas: minReplicas must be greater than 1 (rule "+rule+")", answer.Causes[0].String())
		} else {
			require.Empty(t, verdict.Refused)
		}
	}
}
