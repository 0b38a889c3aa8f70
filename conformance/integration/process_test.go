package integration

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// ended is how a celvpa process ended.
type ended struct {
	code   int
	stdout string
	stderr string
	err    error // it did not end, or could not be started
}

// withoutCRDs is the output of celvpa before the CRDs were installed; see TestMain.
var withoutCRDs ended

// runToEnd runs celvpa until it exits.
func runToEnd(args ...string) ended {
	ctx, cancel := context.WithTimeout(context.Background(), hang.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG=")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	exit := &exec.ExitError{}
	switch {
	case ctx.Err() != nil:
		return ended{err: fmt.Errorf("celvpa %s did not end within %s: %s", strings.Join(args, " "), hang.Limit, stderr.String())}
	case errors.As(err, &exit):
		return ended{code: exit.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	}
	return ended{stdout: stdout.String(), stderr: stderr.String(), err: err}
}

// lastLine is what a user reads; log lines may precede it.
func (e ended) lastLine() string {
	lines := strings.Split(strings.TrimSpace(e.stderr), "\n")
	return lines[len(lines)-1]
}

func requireRefusal(t *testing.T, e ended, parts ...string) {
	t.Helper()
	require.NoError(t, e.err)
	require.Equal(t, 2, e.code, e.stderr)
	require.NotContains(t, e.stderr, "goroutine ", "no stack trace")
	for _, part := range parts {
		require.Contains(t, e.lastLine(), part)
	}
}

func TestBadSurroundingsEndInOneClearLine(t *testing.T) {
	t.Run("CRDs are missing", func(t *testing.T) {
		requireRefusal(t, withoutCRDs, "does not know verticalpodautoscalers.autoscaling.k8s.io", "celvpa crd | kubectl apply")
	})
	t.Run("no API server to talk to", func(t *testing.T) {
		requireRefusal(t, runToEnd("run", "--kubeconfig="+filepath.Join(t.TempDir(), "none")), "no Kubernetes API to talk to", "give --kubeconfig")
	})
	t.Run("the API server does not answer", func(t *testing.T) {
		config := filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, os.WriteFile(config, []byte(`{apiVersion: v1, kind: Config, current-context: c, users: [{name: u, user: {}}],
  contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`), 0o600))
		requireRefusal(t, runToEnd("run", "--kubeconfig="+config), "the Kubernetes API at https://127.0.0.1:1 does not answer", "connection refused")
	})
	t.Run("a port is taken", func(t *testing.T) {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer taken.Close()
		address := taken.Addr().String()
		requireRefusal(t, runToEnd("recommender", "--kubeconfig="+kubeconfig, "--address="+address), address+": bind: address already in use", "--address")
		port := fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)
		requireRefusal(t, runToEnd("admission-controller", "--kubeconfig="+kubeconfig, "--address=127.0.0.1:0", "--bind-address=127.0.0.1",
			"--port="+port, "--register-webhook=false"), port+": bind: address already in use", "--port")
	})
	t.Run("an unknown flag, gate and value", func(t *testing.T) {
		requireRefusal(t, runToEnd("updater", "--min-replicants=1"), "unknown flag: --min-replicants")
		requireRefusal(t, runToEnd("updater", "--feature-gates=Magic=true"), `there is no gate "Magic"`, "known: CPUStartupBoost, InPlace")
		requireRefusal(t, runToEnd("recommender", "--target-cpu-percentile=lots"), `--target-cpu-percentile: "lots" is not a finite number (param target.cpu of RuleSet estimate@1.0.0`)
		requireRefusal(t, runToEnd("run", "--vpa-object-namespace=a", "--ignored-vpa-object-namespaces=b"), "exclude each other")
		requireRefusal(t, runToEnd("run", "--kubeconfig="+kubeconfig, "--register-by-url"), "--register-by-url needs --webhook-address")
	})
}

// TestBrokenRulesStopTheStart: every error is reported with its position, and none hides another.
func TestBrokenRulesStopTheStart(t *testing.T) {
	dir := ownRules(t)
	edit := func(file, from, to string) { editRules(t, dir, file, from, to) }
	edit("requests.yaml", "resource in recommended", "resource in recomended")
	edit("container-caps.yaml", "now[resource] > policy.maxAllowed[resource]", "now[resource] > 'a lot'")
	got := runToEnd("run", "--kubeconfig="+kubeconfig, "--rules-dir="+dir)
	require.NoError(t, got.err)
	require.Equal(t, 2, got.code)
	require.NotContains(t, got.stderr, "goroutine ")
	require.Regexp(t, `container-caps\.yaml:\d+:\d+: RuleSet container-caps@1\.0\.0, stage policy, rule max-allowed, when: operator`, got.stderr)
	require.Regexp(t, `requests\.yaml:\d+:\d+: RuleSet requests@1\.0\.0, stage recommended, rule request, when: undeclared reference to 'recomended'`, got.stderr)

	requireRefusal(t, runToEnd("run", "--kubeconfig="+kubeconfig, "--rules-dir="+filepath.Join(dir, "none")), "none: no such file or directory")
	requireRefusal(t, runToEnd("run", "--kubeconfig="+kubeconfig, "--pipeline=other"), `no pipeline "other"; loaded: default@1.0.0`)
}

// ownRules is a copy of the shipped rules.
func ownRules(t *testing.T) string {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "rules"))))
	return dir
}

func editRules(t *testing.T, dir, file, from, to string) {
	t.Helper()
	path := filepath.Join(dir, file)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), from)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
}

// TestChangedRulesTakeEffectWithoutARestart: a valid change takes effect; an invalid one is
// counted, and the last good rules stay.
func TestChangedRulesTakeEffectWithoutARestart(t *testing.T) {
	dir := ownRules(t)
	_, address, err := harness.LocalWebhookArgs("127.0.0.1")
	require.NoError(t, err)
	c, err := harness.Start(program, address, filepath.Join(t.TempDir(), "log"), []string{"recommender", "--kubeconfig=" + kubeconfig,
		"--vpa-object-namespace=it-nowhere", "--address=" + address, "--rules-dir=" + dir, "--rules-reload-interval=100ms"}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	require.NoError(t, c.WaitReady(t.Context()))
	metric := func(pattern string) string {
		text, err := harness.Get(t.Context(), "http://"+address+"/metrics")
		require.NoError(t, err)
		return regexp.MustCompile(pattern).FindString(text)
	}
	const inForce = `celvpa_rules_info\{digest="[0-9a-f]{12}",pipeline="default",version="1\.0\.0"\} 1`
	first := metric(inForce)
	require.NotEmpty(t, first)
	editRules(t, dir, "estimate.yaml", "default: 0.15", "default: 0.25")
	hang.Eventually(t, "another digest in force", func(context.Context) (bool, error) { return metric(inForce) != first, nil })
	second := metric(inForce)
	editRules(t, dir, "estimate.yaml", "default: 0.25", "default: much")
	hang.Eventually(t, "the refusal", func(context.Context) (bool, error) {
		return metric(`celvpa_rules_reload_total\{result="error"\} [1-9]`) != "", nil
	})
	require.Equal(t, second, metric(inForce))
}

// TestEachComponentRunsAloneAndStopsInOrder: it is ready once it leads, exits without error, and
// releases the lease.
func TestEachComponentRunsAloneAndStopsInOrder(t *testing.T) {
	for _, name := range []string{"recommender", "updater", "admission-controller"} {
		t.Run(name, func(t *testing.T) {
			args, address, err := harness.LocalWebhookArgs("127.0.0.1")
			require.NoError(t, err)
			lease := "it-" + name
			switch name {
			case "admission-controller":
				args = append(args, "--register-webhook=false") // the shared celvpa is registered
			default:
				args = append(leading, "--address="+address, "--leader-elect-resource-name="+lease)
			}
			args = append([]string{name, "--kubeconfig=" + kubeconfig, "--vpa-object-namespace=it-nowhere"}, args...)
			c, err := harness.Start(program, address, filepath.Join(t.TempDir(), "log"), args, nil)
			require.NoError(t, err)
			require.NoError(t, c.WaitReady(t.Context()))
			key := client.ObjectKey{Namespace: "kube-system", Name: lease}
			holder := func() string {
				var l coordinationv1.Lease
				if err := cluster.Get(t.Context(), key, &l); err != nil {
					return ""
				}
				return ptr.Deref(l.Spec.HolderIdentity, "")
			}
			if name != "admission-controller" {
				hang.Eventually(t, "the lead", func(context.Context) (bool, error) { return holder() != "", nil })
			}
			require.NoError(t, c.Stop())
			require.Empty(t, holder(), "the lead is given back")
		})
	}
}

// A template calls methods by name, so once a template can be executed the linker keeps all of
// them: a single call of cobra's SetVersionTemplate made the program 18 MB larger, most of it in
// the memory of each component.
func TestTheProgramExecutesNoTemplates(t *testing.T) {
	file, err := elf.Open(program)
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.Symbols()
	require.NoError(t, err)
	has := func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	}
	require.True(t, has("main.main"), "symbols cannot be read")
	require.False(t, has("text/template.(*Template).Execute"),
		"find the caller with `go build -ldflags=-dumpdep ./cmd/celvpa 2>&1 | grep -- '-> text/template'`")
}

// service forwards connections to one of several replicas, like a Service; open connections stay
// where they are.
type service struct {
	net.Listener
	endpoint atomic.Pointer[string] // host:port
	open     sync.Map               // of connections
}

// drop closes the open connections.
func (s *service) drop() {
	s.open.Range(func(one, _ any) bool { return one.(net.Conn).Close() == nil })
}

func newService(t *testing.T) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &service{Listener: listener}
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go s.pass(from)
		}
	}()
	return s
}

func (s *service) pass(from net.Conn) {
	s.open.Store(from, nil)
	defer s.open.Delete(from)
	defer from.Close()
	to, err := net.Dial("tcp", *s.endpoint.Load())
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		defer from.Close()
		_, _ = io.Copy(from, to)
	}()
	_, _ = io.Copy(to, from)
}

// TestARollingUpdateRefusesNoPod: with failurePolicy Fail, one replica replaces another behind a
// Service that lags, while pods are created. Where the machine takes longer than the old replica goes
// on, which would be a delay that is too short for its Service, it is done again with a longer one.
func TestARollingUpdateRefusesNoPod(t *testing.T) {
	withoutCelvpa(t)
	for delay := 3 * time.Second; ; delay *= 5 {
		require.Less(t, delay, hang.Limit)
		if rollingUpdate(t, delay) {
			return
		}
		t.Logf("this machine takes more than %s until the Service has noticed", delay)
	}
}

// rollingUpdate reports whether the old replica still ran when its Service no longer led to it.
func rollingUpdate(t *testing.T, delay time.Duration) (inTime bool) {
	front := newService(t)
	_, port, err := net.SplitHostPort(front.Addr().String())
	require.NoError(t, err)
	replica := func(name string) (one *harness.Celvpa, endpoint string) {
		ports := [2]string{}
		for i := range ports {
			ports[i], err = harness.FreeAddress()
			require.NoError(t, err)
		}
		_, own, err := net.SplitHostPort(ports[1])
		require.NoError(t, err)
		one, err = harness.Start(program, ports[0], filepath.Join(t.TempDir(), name+".log"), []string{"admission-controller", "--kubeconfig=" + kubeconfig, "--webhook-failure-policy-fail",
			"--register-by-url", "--webhook-address=127.0.0.1", "--webhook-port=" + port, "--webhook-timeout-seconds=30",
			"--bind-address=127.0.0.1", "--port=" + own, "--address=" + ports[0], fmt.Sprint("--shutdown-delay-duration=", delay)}, nil)
		require.NoError(t, err)
		require.NoError(t, one.WaitReady(t.Context()))
		return one, ports[1]
	}
	old, oldEndpoint := replica("old")
	front.endpoint.Store(&oldEndpoint)
	refuseAtOnce(t)
	defer unregister(t)
	load := createPods(t, namespace(t, "it-rolling-"+delay.String()))
	load.more(t, 20)
	next, nextEndpoint := replica("next")
	defer func() { require.NoError(t, next.Stop()) }()

	stopped := make(chan error, 1)
	asked := time.Now()
	go func() { stopped <- old.Stop() }()
	hang.Eventually(t, "/readyz to fail", func(ctx context.Context) (bool, error) {
		if old.Alive() != nil {
			return true, nil
		}
		answer, err := http.Get("http://" + old.Address + "/readyz")
		if err != nil {
			return false, err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer.StatusCode == http.StatusInternalServerError && string(body) == "shutting down\n", err
	})
	load.more(t, 20) // the Service has not noticed yet
	front.endpoint.Store(&nextEndpoint)
	if inTime = time.Since(asked) < delay && old.Alive() == nil; !inTime {
		_ = load.end()
		<-stopped
		return false
	}
	require.NoError(t, <-stopped)
	took := time.Since(asked)
	require.GreaterOrEqual(t, took, delay)
	load.more(t, 20)
	require.NoError(t, load.end(), "every creation succeeds")
	require.Equal(t, load.counts().created, load.counts().patched, "and is patched")
	t.Logf("%d pods created and patched; the old replica ended %s after SIGTERM", load.counts().created, took.Round(time.Millisecond))
	return true
}
