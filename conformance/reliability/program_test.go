package reliability

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/harness"
)

// program is a process of celvpa with its log.
type program struct {
	*harness.Celvpa
	harness.Log
}

// eventually polls until a condition holds; what describes the condition.
func eventually(t *testing.T, limit time.Duration, what string, condition func(ctx context.Context) (bool, error)) {
	t.Helper()
	limit = harness.Patience(limit)
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, limit, true, func(context.Context) (done bool, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // of its own, so that last says what is wrong at the end
		defer cancel()
		done, last = condition(ctx) // the API server may be the one that fails
		return done && last == nil, nil
	})
	require.NoError(t, err, "%s did not happen within %s: %v; logs are in bin/reliability", what, limit, last)
}

// start runs a component for the namespace of the scene, as its own user, until the test ends.
func (s *scene) start(component string, flags ...string) *program {
	s.t.Helper()
	p := s.launch(component, component, flags...)
	s.t.Cleanup(func() {
		if err := p.Stop(20 * time.Second); err != nil {
			s.t.Errorf("%s ended with %v; see %s", component, err, p.LogFile)
		}
	})
	require.NoError(s.t, p.WaitReady(s.t.Context(), 30*time.Second))
	return p
}

// launch is start for programs that the test stops. Each name has a log of its own.
func (s *scene) launch(component, name string, flags ...string) *program {
	s.t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(s.t, err)
	p := &program{}
	args := []string{component, "--kubeconfig=" + s.kubeconfig(component), "--address=" + address, "--vpa-object-namespace=" + s.ns, "--" + component + "-interval=1s"}
	p.Celvpa, err = harness.Start(celvpa, address, filepath.Join(logs, s.ns+"-"+name+".log"), append(args, flags...), p.Add)
	require.NoError(s.t, err)
	return p
}

// kubeconfig is that of a component, behind the proxy of the scene if it has one.
func (s *scene) kubeconfig(component string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "kubeconfig")
	if s.proxy != nil {
		require.NoError(s.t, s.proxy.WriteKubeconfig(file, users[component].Token))
		return file
	}
	config, err := clientcmd.LoadFromFile(lab.Kubeconfig)
	require.NoError(s.t, err)
	for _, user := range config.AuthInfos {
		*user = clientcmdUser(users[component].Token)
	}
	require.NoError(s.t, clientcmd.WriteToFile(*config, file))
	return file
}

// newProxy starts a proxy to the lab until the test ends.
func newProxy(t *testing.T) *faults.Proxy {
	t.Helper()
	p, err := faults.Start(cluster.Config, 20)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// cycles is how many cycles a recommender or updater has finished.
func (p *program) cycles(component string) float64 {
	return harness.Metric(p.Address, fmt.Sprintf(`vpa_%s_execution_latency_seconds_count{step="total"}`, component))
}

// moreCycles waits until n cycles have started and ended from now on.
func (s *scene) moreCycles(p *program, component string, n int) {
	s.t.Helper()
	until := p.cycles(component) + float64(n) + 1 // one may be under way
	eventually(s.t, 60*time.Second, fmt.Sprintf("%d cycles of the %s", n, component), func(context.Context) (bool, error) { return p.cycles(component) >= until, nil })
}
