package reliability

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAnAPIServerThatIsKilledAndStartedAgain in the midst of a rollout. Nothing comes between it and celvpa.
func TestAnAPIServerThatIsKilledAndStartedAgain(t *testing.T) {
	s := newScene(t, "rel-restart", nil)
	s.begin()
	s.rollsOut()
	require.NoError(t, lab.Restart(t.Context(), "kube-apiserver"))
	s.ends()
	s.losesNothing()
	for component, p := range map[string]*program{"recommender": s.recommender, "updater": s.updater, "admission controller": admission} {
		require.NoError(t, p.Alive(), component)
		require.True(t, noticed(p), component)
	}
}

// noticed reports whether a program lost its connections. To one that asked at another moment the server was only starting: its
// watches ended, minutes before their time.
func noticed(p *program) bool {
	return slices.ContainsFunc([]string{"connection refused", "connection reset", "EOF", "Watch close"}, func(words string) bool { return p.Says(words) })
}

// TestAnEtcdThatIsSlow stands still for 0.9 of each second, and once for 5 s.
func TestAnEtcdThatIsSlow(t *testing.T) {
	s := newScene(t, "rel-etcd", nil)
	pid, err := lab.Pid(t.Context(), "etcd")
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	stands := func(d time.Duration) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		lasts(t, d)
		require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
		lasts(t, 100*time.Millisecond)
	}
	stands(900 * time.Millisecond)
	s.begin()
	for range 10 {
		stands(900 * time.Millisecond)
	}
	stands(5 * time.Second)
	s.ends()
	s.losesNothing()
	require.NoError(t, admission.Alive())
}
