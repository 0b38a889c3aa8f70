package main

import (
	"os/exec"
	"strings"
	"testing"
)

// A package compiles once for the lab and for celvpa only if both take it, and all that it imports, at the same version.
func TestWhatTheLabAndCelvpaBothUseHasOneVersion(t *testing.T) {
	ours := modulesOf(t, "../..", "./cmd/celvpa", "./conformance/quickstart")
	lab := modulesOf(t, ".", "k8s.io/kubernetes/cmd/kube-apiserver", "sigs.k8s.io/metrics-server/cmd/metrics-server")
	for name, version := range ours {
		if other, shared := lab[name]; shared && other != version {
			t.Errorf("%s is %s in go.mod and %s in conformance/lab/go.mod: `go get` the newer one in both, or `make run` compiles what imports it twice", name, version, other)
		}
	}
	if _, shared := lab["k8s.io/client-go"]; !shared || ours["k8s.io/client-go"] == "" {
		t.Errorf("client-go must be among the modules of both: %d and %d were listed", len(ours), len(lab))
	}
}

// modulesOf lists the modules whose packages the programs link, with their versions.
func modulesOf(t *testing.T, folder string, programs ...string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}"}, programs...)...)
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
