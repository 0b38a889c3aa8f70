package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

// Tools compiles helm and kubectl from their modules, as conformance/chart pins them, into bin/chart, and returns that folder.
func Tools(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, "bin", "chart")
	for name, path := range map[string]string{"helm": "helm.sh/helm/v4/cmd/helm", "kubectl": "./kubectl"} {
		build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "conformance", "chart"), "-o", filepath.Join(folder, name), path)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := building(root, name, build); err != nil {
			return "", err
		}
	}
	return folder, nil
}
