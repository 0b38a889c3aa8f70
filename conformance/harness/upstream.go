package harness

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// UpstreamCRDs is the file of upstream's CRDs, of the release that celvpa is compared with. The error says why it is not there,
// which is so where its Go module was never downloaded.
func UpstreamCRDs() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/autoscaler/vertical-pod-autoscaler")
	list.Dir = filepath.Join(root, "conformance", "upstream")
	out, err := list.Output()
	if err != nil {
		return "", err
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", errors.New("upstream's module is not downloaded: go mod download -C conformance/upstream")
	}
	file := filepath.Join(dir, "deploy", "vpa-v1-crd-gen.yaml")
	_, err = os.Stat(file)
	return file, err
}
