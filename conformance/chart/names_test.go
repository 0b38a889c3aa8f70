package chart

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
)

// TestNamesThatYAMLTakesForNumbersOrBooleansStayTexts: API servers refuse a label, a name or a namespace that is not a text.
func TestNamesThatYAMLTakesForNumbersOrBooleansStayTexts(t *testing.T) {
	const word = "word" // in each place for a name, and in no other one
	all := `nameOverride: word
prometheusRule: {enabled: true}
serviceMonitor: {enabled: true}
dashboards: {enabled: true}
networkPolicy: {enabled: true}
recommender: {priorityClassName: word, serviceAccount: {name: word}, leaderElection: {resourceNamespace: word, resourceName: word}}
`
	for _, more := range []string{
		"{fullnameOverride: celvpa, vpaObjectNamespace: word, rulesConfigMap: word, admissionController: {tls: {secretName: word, caKey: word, certKey: word, keyKey: word}}}",
		"{fullnameOverride: celvpa, ignoredVpaObjectNamespaces: [word], rules: {a.yaml: x}, admissionController: {certManager: {enabled: true, createSelfSignedIssuer: {enabled: false}, issuerRef: {name: word}}}}",
		"{fullnameOverride: word, admissionController: {registerWebhook: false, certManager: {enabled: true}, service: {name: word}}}",
	} {
		values := parse(t, all)
		merge(values, parse(t, more))
		text, err := json.Marshal(values)
		require.NoError(t, err)
		for _, name := range []string{"123", "1e3", "0o17", "2026-01-01", "true", "no", "null"} {
			if values["fullnameOverride"] == word && name[0] <= '9' {
				continue // no name of a Service by the schema of the chart
			}
			require.Equal(t, strings.ReplaceAll(objectsOf(t, word, string(text)), word, name), objectsOf(t, name, strings.ReplaceAll(string(text), word, name)), "%s: %s", name, more)
		}
	}
}

// objectsOf renders a release in a namespace of the same name, without the CRDs, as JSON.
func objectsOf(t *testing.T, name, values string) string {
	t.Helper()
	loaded, err := loadOnce()
	require.NoError(t, err)
	files, err := Render(loaded, Release{Name: name, Namespace: name}, parse(t, values))
	require.NoError(t, err)
	objects, err := Objects(files)
	require.NoError(t, err)
	var out strings.Builder
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			continue
		}
		text, err := o.MarshalJSON()
		require.NoError(t, err)
		out.Write(text)
	}
	return out.String()
}

// TestNamesThatServicesCannotHaveAreRefused before anything is installed.
func TestNamesThatServicesCannotHaveAreRefused(t *testing.T) {
	loaded, err := loadOnce()
	require.NoError(t, err)
	try := func(name, values, kubernetes string) error {
		cluster := common.DefaultCapabilities.Copy()
		cluster.KubeVersion = common.KubeVersion{Version: kubernetes}
		all, err := util.ToRenderValues(loaded, parse(t, values), common.ReleaseOptions{Name: name, Namespace: "celvpa-system", IsInstall: true}, cluster)
		require.NoError(t, err)
		_, err = engine.Render(loaded, all)
		return err
	}
	for name, c := range map[string]struct{ values, kubernetes string }{
		"123":      {"{}", "v1.35.2"},
		"prod.vpa": {"{explain: {enabled: false}}", "v1.37.1"},
		"1-celvpa": {"{explain: {enabled: false}, admissionController: {enabled: false}, serviceMonitor: {enabled: true}}", "v1.34.0"},
	} {
		err := try(name, c.values, c.kubernetes)
		require.ErrorContains(t, err, "the names of this release begin with "+name, name)
		require.ErrorContains(t, err, "set fullnameOverride, for example to celvpa", name)
		require.NoError(t, try(name, "fullnameOverride: celvpa", c.kubernetes), name)
	}
	require.NoError(t, try("123", "{}", "v1.36.0-gke.1"))
	require.NoError(t, try("123", "{explain: {enabled: false}, admissionController: {service: {name: webhook}}}", "v1.35.2"), "no Service has a name of the release's")
}
