package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// controllers/facts/resize.go reads what kubelets say about resizes. This fails when Kubernetes says it in other words.
func TestKubeletsSayWhatTheFactsOfAResizeRead(t *testing.T) {
	facts, err := os.ReadFile("../../controllers/facts/resize.go")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("finding the source of Kubernetes: %v", err)
	}
	kubelet := filepath.Join(strings.TrimSpace(string(out)), "pkg", "kubelet")
	for name, c := range map[string]struct{ file, format string }{
		"KubeletLacks":      {"lifecycle/predicate.go", "%s, requested: %d, used: %d, capacity: %d\",\n\t\te.ResourceName"},
		"KubeletBelowUsage": {"kuberuntime/kuberuntime_manager.go", `%w", agg)`},
	} {
		text := regexp.MustCompile(name + ` += "([^"]+)"`).FindSubmatch(facts)
		if text == nil {
			t.Errorf("controllers/facts/resize.go has no constant %s", name)
			continue
		}
		source, err := os.ReadFile(filepath.Join(kubelet, c.file))
		if err != nil {
			t.Errorf("the source of %s: %v", name, err)
		} else if want := string(text[1]) + c.format; !bytes.Contains(source, []byte(`"`+want)) {
			t.Errorf("%s of the kubelet no longer makes the message %q; look for what it says now, and keep what older ones say", c.file, want)
		}
	}
}
