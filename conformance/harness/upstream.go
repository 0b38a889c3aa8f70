package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

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
