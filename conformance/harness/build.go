package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Root finds the repository: the nearest parent with a go.mod beside a rules folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, mod := os.Stat(filepath.Join(dir, "go.mod"))
		_, rules := os.Stat(filepath.Join(dir, "rules"))
		if mod == nil && rules == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run this inside the repository of celvpa")
		}
		dir = parent
	}
}

// building runs a command that builds a program, one at a time: suites side by side build the same ones, and none may replace what another
// has just built and runs.
func building(root, what string, cmd *exec.Cmd) error {
	folder := filepath.Join(root, "bin")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(folder, ".building-"+strings.ReplaceAll(what, " ", "-")), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("waiting for other builds: %w", err)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", what, err, text)
	}
	return nil
}

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

// UpstreamRelease is what conformance/upstream/programs pins.
const UpstreamRelease = "1.8.1"

// BuildUpstream compiles an upstream component into bin/ and keeps it there. Progress goes to out.
func BuildUpstream(ctx context.Context, component string, out io.Writer) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	program := filepath.Join(root, "bin", "upstream-"+component+"-"+UpstreamRelease)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	fmt.Fprintf(out, "building upstream's %s %s (2 minutes the first time on two cores)\n", component, UpstreamRelease)
	cmd := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "conformance", "upstream", "programs"), "-o", program,
		"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/"+component)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := building(root, "upstream's "+component, cmd); err != nil {
		return "", err
	}
	fmt.Fprintf(out, "built %s\n", program)
	return program, nil
}

// UpstreamManifests is the folder of the manifests in upstream's module, which is downloaded if need be.
func UpstreamManifests(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", "k8s.io/autoscaler/vertical-pod-autoscaler")
	download.Dir = filepath.Join(root, "conformance", "upstream")
	out, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("downloading upstream %s: %w\n%s", UpstreamRelease, err, out)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("downloading upstream %s: %w", UpstreamRelease, err)
	}
	return filepath.Join(found.Dir, "deploy"), nil
}
