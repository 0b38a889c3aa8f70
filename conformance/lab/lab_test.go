package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNamesThatFitAFolderAndALabel(t *testing.T) {
	for name, ok := range map[string]bool{"celvpa": true, "a": true, "a-1": true, "": false, "A": false, "-a": false, "a/b": false, "../x": false} {
		if _, err := newCluster(t.TempDir(), name, nil); (err == nil) != ok {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

func TestPrebuiltProgramsAreUsedWhereTheyExist(t *testing.T) {
	own := t.TempDir()
	if err := os.WriteFile(filepath.Join(own, "etcd"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LAB_PARTS", own)
	p := newParts("/lab")
	if got := p.path("etcd"); got != filepath.Join(own, "etcd") {
		t.Errorf("etcd is taken from %s", got)
	}
	if got := p.path("kwok"); got != "/lab/parts/kwok-"+kwokVersion {
		t.Errorf("kwok, which is missing there, is taken from %s", got)
	}
}

func TestALabNeedsNoPrometheusUnlessAskedFor(t *testing.T) {
	names := func(asked ...string) string {
		list, err := wanted(asked)
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, part := range list {
			out = append(out, part.name)
		}
		return strings.Join(out, " ")
	}
	if got := names(); !strings.Contains(got, "etcd") || strings.Contains(got, "prometheus") {
		t.Errorf("a lab needs %s", got)
	}
	if got := names("prometheus"); got != "prometheus" {
		t.Errorf("asked for prometheus, it builds %s", got)
	}
	if got := names("prometheus", "grafana"); !strings.Contains(got, `no part "grafana"`) {
		t.Errorf("an unknown part gives %s", got)
	}
}

// Two that start at once would find the same free ports.
func TestControlPlanesStartOneAtATime(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ended, cancel := context.WithCancel(t.Context())
	err := alone(t.Context(), func() error {
		cancel()
		return alone(ended, func() error { return errors.New("started beside another") })
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the second one does not wait until Ctrl-C: %v", err)
	}
	if err := alone(t.Context(), func() error { return nil }); err != nil {
		t.Errorf("it does not start after the first: %v", err)
	}
}

// TestAControlPlaneWithoutControllersIsStartedAgain: on a busy machine the controller manager gave up on the API server and ended, so
// that no pod was ever created.
func TestAControlPlaneWithoutControllersIsStartedAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer server.Close()
	own, called := t.TempDir(), filepath.Join(t.TempDir(), "called")
	t.Setenv("LAB_PARTS", own)
	labDir := t.TempDir()
	c, err := newCluster(labDir, "x", newParts(labDir))
	if err != nil {
		t.Fatal(err)
	}
	pid := c.componentFile("pids", "kube-controller-manager", ".pid")
	// The first controller manager has ended, the second is this process.
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in *"create cluster"*) ;; *) exit ;; esac
echo >>%[1]s
mkdir -p %[2]s
[ $(wc -l <%[1]s) = 1 ] && echo 4194304 >%[3]s || echo %[4]d >%[3]s
cat >%[5]s <<END
{clusters: [{name: x, cluster: {server: "%[6]s"}}], contexts: [{name: x, context: {cluster: x}}], current-context: x}
END
`, called, filepath.Dir(pid), pid, os.Getpid(), c.kubeconfig(), server.URL)
	for _, part := range allParts {
		if err := os.WriteFile(filepath.Join(own, part.name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.start(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(called); err != nil || len(text) != 2 {
		t.Errorf("it was started %d times, want 2 (%v)", len(text), err)
	}
}

// LAB_PARTS may be unset by then.
func TestALabIsStoppedByTheProgramsThatStartedIt(t *testing.T) {
	labDir, own, called := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "called")
	for _, part := range allParts {
		if err := os.WriteFile(filepath.Join(own, part.name), []byte("#!/bin/sh\necho \"$@\" >>"+called+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lab := func() *cluster {
		c, err := newCluster(labDir, "x", newParts(labDir))
		if err != nil {
			t.Fatal(err)
		}
		c.recallParts()
		return c
	}
	t.Setenv("LAB_PARTS", own)
	if err := lab().create(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	c := lab()
	if err := os.MkdirAll(filepath.Join(c.dir, "kwok"), 0o755); err != nil { // like the real one
		t.Fatal(err)
	}
	t.Setenv("LAB_PARTS", "")
	if got := lab().parts.path("etcd"); got != filepath.Join(own, "etcd") {
		t.Errorf("lab up would take etcd from %s", got)
	}
	if err := lab().down(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(called)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "--name x delete cluster") {
		t.Errorf("kwokctl was called with %s", text)
	}
	if got := lab().parts.path("etcd"); got != filepath.Join(labDir, "parts", "etcd-"+etcdVersion) {
		t.Errorf("a lab that is gone still takes etcd from %s", got)
	}
}

func TestALabWhoseProgramsAreGoneSaysHowToStopIt(t *testing.T) {
	t.Setenv("LAB_PARTS", "")
	labDir := t.TempDir()
	c, err := newCluster(labDir, "x", newParts(labDir))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(c.dir, "kwok"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.down(t.Context()); err == nil || !strings.Contains(err.Error(), "set LAB_PARTS") {
		t.Errorf("it says %v", err)
	}
}
