package integration

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/harness"
)

// upstreamCRDs is the file with the CRDs of harness.UpstreamRelease.
func upstreamCRDs(t *testing.T) string {
	t.Helper()
	folder, err := harness.UpstreamManifests(t.Context())
	require.NoError(t, err)
	return filepath.Join(folder, "vpa-v1-crd-gen.yaml")
}
