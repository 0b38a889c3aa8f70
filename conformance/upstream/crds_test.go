package upstream

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/emit"
)

// TestAPIServersAcceptTheCRDs of celvpa as new ones, and as updates of upstream's.
func TestAPIServersAcceptTheCRDs(t *testing.T) {
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	all, err := emit.CRDs(book.Default().Validations(facts.VPAValidate))
	require.NoError(t, err)
	ours := map[string]*apiextensions.CustomResourceDefinition{}
	for _, crd := range all {
		now := internal(t, crd)
		for _, v := range now.Spec.Versions {
			if v.Storage {
				now.Status.StoredVersions = []string{v.Name} // the API server sets it before it validates
			}
		}
		require.Empty(t, validation.ValidateCustomResourceDefinition(t.Context(), now), crd.Name)
		ours[crd.Name] = now
	}
	before := upstreamCRDs(t)
	require.Len(t, before, 2)
	for name, old := range before {
		require.Contains(t, ours, name)
		was, now := internal(t, old), ours[name]
		for _, v := range was.Spec.Versions { // objects were stored in each of them, long ago
			was.Status.StoredVersions = append(was.Status.StoredVersions, v.Name)
		}
		was.Status.Conditions = []apiextensions.CustomResourceDefinitionCondition{{Type: apiextensions.Established, Status: apiextensions.ConditionTrue}}
		was.ResourceVersion, now.ResourceVersion, now.Status = "1", "1", was.Status
		require.Empty(t, validation.ValidateCustomResourceDefinitionUpdate(t.Context(), now, was), name)
	}
}

// internal is a CRD in the form that API servers validate, with defaults.
func internal(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	t.Helper()
	crd = crd.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	out := &apiextensions.CustomResourceDefinition{}
	require.NoError(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, out, nil))
	return out
}

// upstreamCRDs are the CRDs of upstream's release.
func upstreamCRDs(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/autoscaler/vertical-pod-autoscaler").Output()
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "deploy", "vpa-v1-crd-gen.yaml"))
	require.NoError(t, err)
	out := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := reader.Decode(crd)
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		if crd.Name != "" {
			out[crd.Name] = crd
		}
	}
}

const document = "../../docs/upstream-differences.md"

// TestTheDocumentListsTheDeliberateDifferences compares the bold first cells of the document's
// tables with the names in the code, in both directions and in order.
func TestTheDocumentListsTheDeliberateDifferences(t *testing.T) {
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	var documented, meant []string
	for _, row := range regexp.MustCompile(`(?m)^\| \*\*(.+?)\*\* \|`).FindAllSubmatch(text, -1) {
		documented = append(documented, string(row[1]))
	}
	for _, x := range deliberate {
		meant = append(meant, x.name)
	}
	for _, x := range deliberateOfRecommender {
		meant = append(meant, x.name)
	}
	for _, x := range deliberateOfPods {
		meant = append(meant, x.name)
	}
	for _, x := range deliberateOfUpdater {
		meant = append(meant, x.name)
	}
	require.Equal(t, meant, documented)
}

// old generates the old object: unrelated, identical, or similar.
func (g *generator) old(now map[string]any) map[string]any {
	switch {
	case g.chance(0.15):
		return object("metadata", object("name", "web"), "spec", object("targetRef", object("kind", "Deployment", "name", "web")))
	case g.chance(0.2):
		was := g.gates
		g.gates = gates{InPlace: true, PerVPAConfig: true, CPUStartupBoost: true} // it may have used what is off by now
		g.temper()
		out := g.object()
		g.gates = was
		return out
	case g.chance(0.15):
		return runtime.DeepCopyJSON(now)
	}
	return g.variant(now)
}

// variant is a copy of an object with some parts generated again or removed.
func (g *generator) variant(now map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(now)
	spec := out["spec"].(map[string]any)
	for _, f := range specFields {
		switch {
		case g.chance(0.15):
			delete(spec, f.name)
		case g.chance(0.15):
			spec[f.name] = f.make(g)
		}
	}
	if update, ok := spec["updatePolicy"].(map[string]any); ok && g.chance(0.5) {
		g.renew(update, g.updatePolicy())
	}
	resources, _ := spec["resourcePolicy"].(map[string]any)
	policies, _ := resources["containerPolicies"].([]any)
	if len(policies) == 0 || !g.chance(0.6) {
		return out
	}
	switch i := g.IntN(len(policies)); g.IntN(3) {
	case 0:
		resources["containerPolicies"] = policies[:i]
	case 1:
		resources["containerPolicies"] = append(policies, g.containerPolicy(len(policies)))
	default:
		g.renew(policies[i].(map[string]any), g.containerPolicy(i))
	}
	return out
}

// renew copies some fields from another object.
func (g *generator) renew(object, from map[string]any) {
	for _, key := range sortedKeys(object) {
		if g.chance(0.3) {
			delete(object, key)
		}
	}
	for _, key := range sortedKeys(from) {
		if g.chance(0.3) {
			object[key] = from[key]
		}
	}
}

// misfit puts a value of the wrong JSON type somewhere.
func (g *generator) misfit(object map[string]any) {
	all := places(object)
	put(object, all[g.IntN(len(all))], g.pick(list("text", int64(7), true, list(), map[string]any{}, list(int64(1)), 1.5), nil))
}

// null puts a null somewhere; most decoders treat it as an absent field.
func (g *generator) null(object map[string]any) {
	all := places(object)
	put(object, all[g.IntN(len(all))], nil)
}
