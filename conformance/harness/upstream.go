package harness

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
)

// UpstreamCRDs is the file of upstream's CRDs, of the release that celvpa is compared with. Its Go module is downloaded where
// that was not done before.
func UpstreamCRDs() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	const module = "k8s.io/autoscaler/vertical-pod-autoscaler"
	download := exec.Command("go", "mod", "download", "-json", module)
	download.Dir = filepath.Join(root, "conformance", "upstream")
	out, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w: %s", module, err, out)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("finding %s: %w", module, err)
	}
	return filepath.Join(found.Dir, "deploy", "vpa-v1-crd-gen.yaml"), nil
}
