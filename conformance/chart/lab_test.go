package chart

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// What the tests on a lab share; empty with -short.
var (
	lab     *harness.Lab
	cluster *harness.Cluster
	program string // celvpa
	tools   string // folder with helm and kubectl
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	if testing.Short() {
		fmt.Println("chart: installing and moving over are not tried with -short, because they need a lab; use make chart-test")
		os.Exit(m.Run())
	}
	code, err := withLab(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		code = 1
	}
	os.Exit(code)
}

// withLab runs the tests with a lab of their own, helm and kubectl.
func withLab(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if program, err = harness.Build(ctx); err != nil {
		return 1, err
	}
	if tools, err = harness.Tools(ctx); err != nil {
		return 1, err
	}
	name := os.Getenv("LAB_NAME")
	if name == "" {
		name = "chart"
	}
	if lab, err = harness.Up(ctx, name, os.Stdout); err != nil {
		return 1, err
	}
	if !lab.Ours { // left behind by a run that was killed
		if err := lab.Down(ctx, os.Stdout); err != nil {
			return 1, err
		}
		if lab, err = harness.Up(ctx, name, os.Stdout); err != nil {
			return 1, err
		}
	}
	defer func() {
		if downErr := lab.Down(ctx, os.Stdout); downErr != nil {
			fmt.Fprintln(os.Stderr, "chart:", downErr)
		}
	}()
	if cluster, err = harness.Connect(lab.Kubeconfig); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// needsLab skips a test with -short.
func needsLab(t *testing.T) {
	t.Helper()
	if lab == nil {
		t.Skip("needs a lab: make chart-test")
	}
}

// shell is a folder in which commands run as a user types them in a clone of the repository.
type shell struct{ dir string }

func newShell(t *testing.T) shell {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	s := shell{t.TempDir()}
	for _, folder := range []string{"deploy", "examples"} {
		require.NoError(t, os.Symlink(filepath.Join(root, folder), filepath.Join(s.dir, folder)))
	}
	return s
}

// try runs a script; the output has both streams.
func (s shell) try(t *testing.T, script string) (string, error) {
	t.Helper()
	out, err := s.command(t.Context(), script).CombinedOutput()
	t.Logf("$ %s\n%s", script, out)
	return string(out), err
}

// limits are those of the commands in the docs, which a busy machine may need more than.
var limits = regexp.MustCompile(`--timeout=\d+[ms]\b`)

func (s shell) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", limits.ReplaceAllString(script, "--timeout="+(2*hang.Limit).String()))
	cmd.Dir = s.dir
	home := filepath.Join(s.dir, ".home") // helm's caches
	cmd.Env = append(os.Environ(), "KUBECONFIG="+lab.Kubeconfig, "PATH="+tools+":"+filepath.Dir(program)+":"+os.Getenv("PATH"), "HOME="+home,
		"XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home)
	return cmd
}

func (s shell) run(t *testing.T, script string) string {
	t.Helper()
	out, err := s.try(t, script)
	require.NoError(t, err, "%s\n%s", script, out)
	return out
}

// cleanUp takes away at the end what a test has left, so that the next one does not meet it.
func (s shell) cleanUp(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for _, command := range []string{
			"helm uninstall celvpa -n celvpa-system --ignore-not-found",
			"kubectl delete --ignore-not-found mutatingwebhookconfiguration/vpa-webhook-config namespace/celvpa-quickstart namespace/celvpa-system namespace/second",
		} {
			out, err := s.command(context.WithoutCancel(t.Context()), command).CombinedOutput()
			require.NoError(t, err, "%s\n%s", command, out)
		}
	})
}

// period is the time of an uninstallation: roles go while processes still end, so what they ask for then does not count.
type period struct{ from, to time.Time }

// forbidden lists what the API server has refused to the service accounts of the release since the lab was started, but in some periods.
func forbidden(t *testing.T, but ...period) (refused []string, requests int) {
	t.Helper()
	require.NoError(t, harness.AuditEvents(lab.Kubeconfig, "system:serviceaccount:"+release.Namespace+":", func(event harness.AuditEvent) {
		requests++
		ending := slices.ContainsFunc(but, func(p period) bool {
			return event.RequestReceivedTimestamp.After(p.from) && event.RequestReceivedTimestamp.Before(p.to)
		})
		if event.Forbidden() && !ending {
			refused = append(refused, event.User.Username+" "+event.Verb+" "+event.RequestURI)
		}
	}))
	return refused, requests
}
