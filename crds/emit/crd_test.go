package emit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/celvpa/celvpa/conformance/admission"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds"
	"github.com/celvpa/celvpa/crds/emit"
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

// Every supported Kubernetes refuses a CRD beyond its limits of cost.
func TestTheRulesOfTheSchemaStayWithinTheBudget(t *testing.T) {
	all, plan := generated(t, "")
	require.Greater(t, len(plan.Validations(facts.VPAValidate)), 20, "the schema has rules")
	for minor := uint(33); minor <= 37; minor++ {
		kubernetes := version.MajorMinor(1, minor)
		t.Run(kubernetes.String(), func(t *testing.T) {
			refusals, err := emit.Check(all[crds.VPA], kubernetes)
			require.NoError(t, err)
			require.Empty(t, refusals)
		})
	}
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
