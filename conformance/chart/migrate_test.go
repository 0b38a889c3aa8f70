package chart

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestTheCommandsOfMigrateMdWork: with upstream's objects, checkpoints and webhook in place the chart takes over component by component,
// gives back, and takes over at once.
func TestTheCommandsOfMigrateMdWork(t *testing.T) {
	needsLab(t)
	s, k := newShell(t), newKubelet(t)
	s.cleanUp(t)
	upstream, err := harness.UpstreamManifests(t.Context())
	require.NoError(t, err)
	s.run(t, "kubectl delete crd verticalpodautoscalers.autoscaling.k8s.io verticalpodautoscalercheckpoints.autoscaling.k8s.io ruleoverlays.rules.celvpa.dev --ignore-not-found")
	s.run(t, "for f in vpa-v1-crd-gen vpa-rbac recommender-deployment updater-deployment admission-controller-deployment admission-controller-service; do kubectl apply -f "+upstream+"/$f.yaml; done")
	s.run(t, "kubectl apply -f examples/quickstart/namespace.yaml -f examples/quickstart/deployment.yaml -f examples/quickstart/vpa.yaml")
	stop := runUpstream(t)
	checkpoint := &vpav1.VerticalPodAutoscalerCheckpoint{}
	checkpoint.Namespace, checkpoint.Name = "celvpa-quickstart", "web-app"
	hang.Eventually(t, "a checkpoint of upstream's", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKeyFromObject(checkpoint), checkpoint)
		return err == nil && checkpoint.Status.TotalSamplesCount > 0, client.IgnoreNotFound(err)
	})
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	registered := func(url string) {
		t.Helper()
		hang.Eventually(t, "the webhook of "+url, func(ctx context.Context) (bool, error) {
			err := cluster.Get(ctx, client.ObjectKey{Name: "vpa-webhook-config"}, config)
			return err == nil && len(config.Webhooks) == 1 && strings.HasSuffix(*config.Webhooks[0].ClientConfig.URL, url), client.IgnoreNotFound(err)
		})
	}
	registered(":8100")
	uid := checkpoint.UID

	seen, start := "", time.Now()
	var uninstalling period
	for _, b := range blocks(t, "migrate.md") {
		if why, fails := strings.CutPrefix(b.words, "fails="); fails {
			out, err := s.try(t, b.text)
			require.Error(t, err)
			require.Contains(t, out, why)
			continue
		}
		if b.words == "recommender" || b.words == "at-once" {
			stop()
		}
		began := time.Now()
		s.run(t, b.text)
		k.sync()
		seen += b.words + " "
		switch b.words {
		case "recommender":
			created := checkpoint.Status.LastUpdateTime
			hang.Eventually(t, "celvpa to continue upstream's checkpoint", func(ctx context.Context) (bool, error) {
				err := cluster.Get(ctx, client.ObjectKeyFromObject(checkpoint), checkpoint)
				return err == nil && checkpoint.UID == uid && checkpoint.Status.LastUpdateTime.After(created.Time), err
			})
		case "admission-controller", "at-once":
			registered(":8000")
			require.NoError(t, createPod(t, "celvpa-quickstart"))
		case "back":
			uninstalling = period{began, time.Now()}
			require.True(t, apierrors.IsNotFound(cluster.Get(t.Context(), client.ObjectKey{Name: "vpa-webhook-config"}, config)))
			stop = runUpstream(t)
			registered(":8100")
			s.run(t, "kubectl -n celvpa-quickstart get vpa web")
		}
	}
	require.Equal(t, "recommender admission-controller updater back at-once ", seen)
	// Before the start: what earlier tests have uninstalled.
	refused, _ := forbidden(t, period{to: start}, uninstalling)
	require.Empty(t, refused)

	out, err := s.try(t, "helm install second deploy/chart/celvpa -n second --create-namespace --take-ownership --force-conflicts")
	require.Error(t, err)
	require.Contains(t, out, "Deployment celvpa-system/celvpa-admission-controller (celvpa) already runs a VPA admission-controller in this cluster")
	out, err = s.try(t, "helm install second deploy/chart/celvpa -n second --create-namespace --set allowOtherVPA=true")
	require.Error(t, err)
	require.Contains(t, out, "cannot be imported into the current release")
	s.run(t, "helm uninstall celvpa -n celvpa-system")
	k.sync()
	nothingRefusesPods(t)
}

// runUpstream runs upstream's recommender and admission controller, whose webhook is on port 8100, until stop is called.
func runUpstream(t *testing.T) (stop func()) {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	certificates := selfSigned(t)
	var running []*harness.Celvpa
	for name, args := range map[string][]string{
		"recommender": {"--recommender-interval=5s", "--address=127.0.0.1:8952"},
		"admission-controller": {"--address=127.0.0.1:8954", "--port=8100", "--register-by-url", "--webhook-address=https://127.0.0.1", "--webhook-port=8100",
			"--client-ca-file=" + certificates + "/ca.crt", "--tls-cert-file=" + certificates + "/tls.crt", "--tls-private-key=" + certificates + "/tls.key"},
	} {
		program, err := harness.BuildUpstream(t.Context(), name, os.Stdout)
		require.NoError(t, err)
		process, err := harness.Launch(program, "", filepath.Join(root, "bin", "chart", "upstream-"+name+".log"), append(args, "--kubeconfig="+lab.Kubeconfig), nil)
		require.NoError(t, err)
		running = append(running, process)
		t.Cleanup(process.Kill)
	}
	return func() {
		for _, p := range running {
			p.Kill()
		}
	}
}
