package reliability

import (
	"context"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
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
// watches ended, minutes before their time, which libraries log with -v=5.
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

// TestACRDThatIsDeletedAndRestored takes all VPAs with it. Those that are created afterwards are served by the same processes.
func TestACRDThatIsDeletedAndRestored(t *testing.T) {
	s := newScene(t, "rel-crd", nil)
	s.begin()
	s.rollsOut()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "verticalpodautoscalers.autoscaling.k8s.io"}}
	require.NoError(t, cluster.Delete(t.Context(), crd))
	hang.Eventually(t, "the CRD to be gone", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKeyFromObject(crd), crd)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	hang.Eventually(t, "the updater to know of no VPA", func(context.Context) (bool, error) { return s.updater.controls() == 0, nil })
	before, _ := s.audited()
	s.goOn()
	s.moreCycles(s.updater, "updater", 5)
	after, _ := s.audited()
	require.Equal(t, before, after, "without VPAs nobody is evicted")
	_, err := harness.Get(t.Context(), "http://"+admission.Address+"/readyz")
	require.NoError(t, err)
	pods, err := s.pods(t.Context(), "off")
	require.NoError(t, err)
	created := pods[0].DeepCopy()
	created.ObjectMeta = metav1.ObjectMeta{Namespace: s.ns, Name: "meanwhile"}
	created.Spec.NodeName = ""
	require.NoError(t, cluster.Create(t.Context(), created, client.DryRunAll), "pods are created as usual")

	require.NoError(t, cluster.InstallCRDs(t.Context(), true))
	for app, mode := range modes {
		hang.Eventually(t, "VPA "+app, func(ctx context.Context) (bool, error) {
			err := cluster.Create(ctx, vpa(s.ns, app, mode))
			return err == nil, err
		})
	}
	create(t, vpa(s.ns, "late", vpav1.UpdateModeOff))
	s.ends()
	s.losesNothing()
}

// logOf is where the log of a process is kept.
func logOf(t *testing.T, name string) string {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	return filepath.Join(root, "bin", "reliability", name+".log")
}

// goesOn waits until a fault has gone on for some time, which is what it is about.
func goesOn(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
