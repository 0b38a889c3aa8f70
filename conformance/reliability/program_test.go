package reliability

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// program is a process of celvpa with its log.
type program struct {
	*harness.Celvpa
	harness.Log
}

// start runs a component for the namespace of the scene, as its own user, until the test ends.
func (s *scene) start(component string, flags ...string) *program {
	s.t.Helper()
	p := s.launch(component, component, flags...)
	s.t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			s.t.Errorf("%s ended with %v; see %s", component, err, p.LogFile)
		}
	})
	require.NoError(s.t, p.WaitReady(s.t.Context()))
	return p
}

// launch is start for programs that the test stops. Each name has a log of its own.
func (s *scene) launch(component, name string, flags ...string) *program {
	s.t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(s.t, err)
	p := &program{}
	kubeconfig := s.kubeconfig(component)
	interval, err := harness.Pace(s.t.Context(), kubeconfig, time.Second)
	require.NoError(s.t, err)
	args := []string{component, "--kubeconfig=" + kubeconfig, "--address=" + address, "--vpa-object-namespace=" + s.ns, "--" + component + "-interval=" + interval.String()}
	if component == "updater" { // a webhook on a busy machine may renew its lease late
		args = append(args, "--admission-controller-status-lease-timeout=10m")
	}
	p.Celvpa, err = harness.Start(celvpa, address, filepath.Join(logs, s.ns+"-"+name+".log"), append(args, flags...), p.Add)
	require.NoError(s.t, err)
	return p
}

// kubeconfig is that of a component, behind the proxy of the scene if it has one.
func (s *scene) kubeconfig(component string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "kubeconfig")
	if s.proxy != nil {
		require.NoError(s.t, s.proxy.WriteKubeconfig(file, clientcmdUser(users[component].Token)))
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

// controls is how many series of pods that VPAs control an updater has with a number.
func (p *program) controls() (n int) {
	text, err := harness.Get(context.Background(), "http://"+p.Address+"/metrics")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "vpa_updater_controlled_pods_total{") && !strings.HasSuffix(line, "} 0\n") {
			n++
		}
	}
	return n
}

// moreCycles waits until n cycles have started and ended from now on.
func (s *scene) moreCycles(p *program, component string, n int) {
	s.t.Helper()
	for until, begun := p.cycles(component)+1, 0; begun <= n; begun++ { // one may be under way
		hang.Eventually(s.t, "a cycle of the "+component, func(context.Context) (bool, error) { return p.cycles(component) >= until+float64(begun), nil })
	}
}
