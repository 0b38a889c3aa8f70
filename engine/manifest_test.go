package engine_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine/document"
)

// Tools label and annotate manifests, and kubectl prints what API servers add: each of these keys was
// an unknown one.
func TestAManifestMayBeAFile(t *testing.T) {
	const manifest = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata:
  name: dear
  labels: {app.kubernetes.io/managed-by: Helm}
  annotations: {argocd.argoproj.io/sync-wave: "1"}
  creationTimestamp: "2026-01-31T12:00:00Z"
  generation: 2
  resourceVersion: "123"
  uid: b7d2f0a4-2c3e-4d5f-8a9b-0c1d2e3f4a5b
  managedFields: [{manager: kubectl}]
spec: {change: [{params: {markup.fee: 30}}]}
status: {observedGeneration: 2}
`
	o, err := document.Loader{}.Overlay("o.yaml", []byte(manifest))
	require.NoError(t, err)
	require.Equal(t, "dear", o.Name.Value)

	_, err = document.Loader{}.Overlay("o.yaml", []byte(strings.Replace(manifest, "labels:", "lables:", 1)))
	require.ErrorContains(t, err, `o.yaml:6:3: unknown key "lables"; known here: annotations, `)
	labelled := strings.ReplaceAll(shopRules, "metadata: {", "metadata: {labels: {team: shop}, annotations: {}, ")
	_, err = document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"rules.yaml": {Data: []byte(labelled)}}})
	require.NoError(t, err)
	_, err = document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"rules.yaml": {Data: []byte(strings.ReplaceAll(labelled, "labels:", "uid: a, labels:"))}}})
	require.ErrorContains(t, err, `unknown key "uid"; known here: annotations, labels, name`, "only RuleOverlays live in a cluster")
}
