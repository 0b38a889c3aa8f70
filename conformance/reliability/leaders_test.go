package reliability

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/hang"
)

// electing are the flags of replicas that elect a leader in 20 s. A busy machine keeps no process from its turn for as long as
// a leader has to renew its lease.
func electing(lease string) []string {
	return []string{"--leader-elect", "--leader-elect-resource-name=" + lease,
		"--leader-elect-lease-duration=20s", "--leader-elect-renew-deadline=15s", "--leader-elect-retry-period=1s"}
}

// leader is who holds a lease.
func leader(ctx context.Context, lease string) (string, error) {
	var l coordinationv1.Lease
	err := cluster.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: lease}, &l)
	return ptr.Deref(l.Spec.HolderIdentity, ""), err
}

// gaveUp requires that a process ended because it lost the lead.
func gaveUp(t *testing.T, p *program) {
	t.Helper()
	text, err := os.ReadFile(p.LogFile)
	require.NoError(t, err)
	require.Contains(t, string(text), "leader election lost")
}

// TestALeaderThatStandsStillInItsCycle and goes on when another has taken over: what it had decided is out of date.
func TestALeaderThatStandsStillInItsCycle(t *testing.T) {
	t.Parallel()
	const lease = "rel-still"
	s := newStage(t, "rel-still", newProxy(t))
	s.recommender = s.start("recommender")
	s.haveRecommendations("web", "inplace", "off", "fitting")

	// Its first eviction is held back until it stands still, and its cycle lasts longer than its lease.
	held := s.proxy.Inject(faults.Fault{On: faults.On("pods/eviction"), Share: 1, Effects: []faults.Effect{faults.Delay(hang.Limit)}})
	first := s.launch("updater", "updater-1", append(electing(lease), "--updater-interval=40s")...)
	t.Cleanup(first.Kill)
	require.NoError(t, first.WaitReady(t.Context()))
	s.begin()
	hang.Eventually(t, "an eviction", func(context.Context) (bool, error) { return s.proxy.Requests()["create pods/eviction"] > 0, nil })
	old, err := leader(t.Context(), lease)
	require.NoError(t, err)
	require.NotEmpty(t, old)
	standStill(t, first.Pid())
	held()
	s.updater = s.start("updater", electing(lease)...)
	hang.Eventually(t, "another leader", func(ctx context.Context) (bool, error) {
		now, err := leader(ctx, lease)
		return now != old && now != "", err
	})
	require.NoError(t, syscall.Kill(first.Pid(), syscall.SIGCONT))
	s.ends()
	s.losesNothing()
	hang.Receive(t, first.Exited(), "the first one still leads")
	gaveUp(t, first)
}

// TestALeaderThatCannotRenewItsLease ends in the midst of its cycle, and another takes over.
func TestALeaderThatCannotRenewItsLease(t *testing.T) {
	t.Parallel()
	const lease = "rel-renew"
	mine, others := newProxy(t), newProxy(t)
	s := newStage(t, "rel-renew", mine)
	s.recommender = s.start("recommender")
	first := s.launch("updater", "updater-1", electing(lease)...)
	t.Cleanup(first.Kill)
	require.NoError(t, first.WaitReady(t.Context()))
	hang.Eventually(t, "the first leader", func(ctx context.Context) (bool, error) {
		now, err := leader(ctx, lease)
		return now != "", err
	})
	s.proxy = others
	s.updater = s.start("updater", electing(lease)...)
	s.haveRecommendations("web", "inplace", "off", "fitting")
	end := mine.Inject(faults.Fault{On: faults.On("pods/eviction"), Share: 1, Effects: []faults.Effect{faults.Delay(900 * time.Millisecond)}})
	s.begin()
	hang.Eventually(t, "an eviction", func(context.Context) (bool, error) { return mine.Requests()["create pods/eviction"] > 0, nil })
	hung := mine.Inject(faults.Fault{On: faults.On("leases", "update", "get"), Share: 1, Effects: []faults.Effect{faults.Hang()}})
	hang.Receive(t, first.Exited(), "the first one leads without a lease")
	end()
	hung()
	s.ends()
	s.losesNothing()
	gaveUp(t, first)
}

// TestTwoRecommendersOfOneName write the same VPAs and checkpoints without a lease.
func TestTwoRecommendersOfOneName(t *testing.T) {
	t.Parallel()
	s := newStage(t, "rel-two", nil)
	// Each has counted other samples, and the slower one fewer. A history that was lost would begin at 0.
	s.mayBeBehind(history().TotalSamplesCount / 2)
	s.updater = s.start("updater")
	started := time.Now()
	s.recommender = s.start("recommender")
	other := s.launch("recommender", "recommender-2")
	t.Cleanup(other.Kill)
	require.NoError(t, other.WaitReady(t.Context()))
	s.haveRecommendations("web", "inplace", "off", "fitting")
	s.begin()
	s.ends()
	s.moreCycles(other, "recommender", 15)
	s.losesNothing()
	require.NoError(t, other.Alive())
	// Each has its own samples: none is counted for both. There is one for each pod in 10 s.
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, app := range map[string]string{"off-app": "off", "fitting-app": "fitting"} {
		most := history().TotalSamplesCount + replicas[app]*int(time.Since(started)/(10*time.Second)+2)
		require.LessOrEqual(t, s.witness.samples[name], most, fmt.Sprintf("samples in checkpoint %s", name))
	}
}
