package main

import (
	"os/exec"
	"strings"
	"testing"
)

// A package compiles once for all modules only if they take it, and all that it imports, at the same version.
func TestWhatModulesShareHasOneVersion(t *testing.T) {
	ours := modulesOf(t, "../..", "./...")
	for folder, programs := range map[string][]string{
		".":           {"./programs"},
		"../upstream": {"./..."},
		"../chart":    {"./...", "helm.sh/helm/v4/cmd/helm"},
	} {
		others := modulesOf(t, folder, programs...)
		if _, shared := others["k8s.io/client-go"]; !shared || ours["k8s.io/client-go"] == "" {
			t.Errorf("client-go must be among the modules of both: %d and %d were listed", len(ours), len(others))
		}
		for name, version := range ours {
			if other, shared := others[name]; shared && other != version {
				t.Errorf("%s is %s in go.mod and %s in that of conformance/lab/%s: `go get` the newer one in both, or what imports it compiles twice", name, version, other, folder)
			}
		}
	}
}

// modulesOf lists the modules whose packages the programs link, with their versions.
func modulesOf(t *testing.T, folder string, programs ...string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-tags", "programs", "-deps", "-test", "-f", "{{with .Module}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}"}, programs...)...)
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing the modules of %s: %v", folder, err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			found[name] = version
		}
	}
	return found
}
