package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/celvpa/celvpa/conformance/lab/detached"
)

func TestAComponentThatWasKilledDoesNotRunAlthoughNobodyWaitedForIt(t *testing.T) {
	c, err := newCluster(t.TempDir(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.pid("etcd"); err == nil {
		t.Error("a component that was never started runs")
	}
	cmd := exec.Command("cat", "-")
	cmd.Dir = t.TempDir()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	// It has no command line while its program is loaded. Once it answers, that is over.
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	file := c.componentFile("pids", "etcd", ".pid")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	if pid, err := c.pid("etcd"); pid != cmd.Process.Pid || err != nil {
		t.Errorf("process %d is found as %d, %v", cmd.Process.Pid, pid, err)
	}
	again, err := sameCommand(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if again.Dir != cmd.Dir || len(again.Args) != 2 || again.Args[1] != "-" {
		t.Errorf("it was started with %v in %s, and would be again with %v in %s", cmd.Args, cmd.Dir, again.Args, again.Dir)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil { // its end, of which it stays a zombie
		t.Fatal(err)
	}
	if detached.Runs(cmd.Process.Pid) {
		t.Error("a killed process runs")
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(cmd.Process.Pid)); err != nil {
		t.Error("somebody waited for it, so this test shows nothing")
	}
	if _, err := c.pid("etcd"); err == nil {
		t.Error("a killed component runs")
	}
}

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
