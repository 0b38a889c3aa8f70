package integration

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/harness"
)

// upstreamCRDs is the file with the CRDs of harness.UpstreamRelease. The module is downloaded if need be.
func upstreamCRDs(t *testing.T) string {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	download := exec.Command("go", "mod", "download", "-json", "k8s.io/autoscaler/vertical-pod-autoscaler")
	download.Dir = filepath.Join(root, "conformance", "upstream")
	out, err := download.Output()
	require.NoError(t, err, "%s", out)
	var found struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &found))
	return filepath.Join(found.Dir, "deploy", "vpa-v1-crd-gen.yaml")
}
