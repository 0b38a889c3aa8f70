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
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
)

// block is a fenced block of a page whose language is one of languages, with the words behind that.
type block struct{ language, words, text string }

var languages = []string{"sh cluster", "yaml values", "yaml kustomization"}

func blocks(t *testing.T, page string) (out []block) {
	t.Helper()
	parts := strings.Split("\n"+read(t, "docs", page), "\n```")
	for i := 1; i+1 < len(parts); i += 2 {
		first, text, _ := strings.Cut(parts[i], "\n")
		for _, language := range languages {
			if words, ok := strings.CutPrefix(first, language); ok {
				out = append(out, block{language, strings.TrimSpace(words), text})
			}
		}
	}
	return out
}

// TestTheCommandsOfInstallMdWork from top to bottom: install, a recommendation, resized and patched pods, events, upgrade, rollback and
// uninstall, with nothing forbidden. What is left of it refuses no pod.
func TestTheCommandsOfInstallMdWork(t *testing.T) {
	needsLab(t)
	s, k := newShell(t), newKubelet(t)
	s.cleanUp(t)
	ran := 0
	var uninstalling period
	for _, b := range blocks(t, "install.md") {
		switch {
		case b.language == "yaml values":
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, "values.yaml"), []byte(b.text), 0o600))
			continue
		case b.language == "yaml kustomization", b.words == "plain":
			continue // TestTheCommandsWithoutHelmWork runs them
		}
		if strings.HasPrefix(b.text, "helm uninstall") {
			s.run(t, "kubectl apply -f examples/quickstart/namespace.yaml -f examples/quickstart/vpa.yaml")
		}
		began := time.Now()
		out := s.run(t, b.text)
		k.sync()
		if strings.HasPrefix(b.text, "helm uninstall") {
			uninstalling = period{began, time.Now()}
		}
		ran++
		if strings.Contains(b.text, "get events") {
			require.Contains(t, out, "InPlaceResizedByVPA")
			require.Contains(t, out, "update/", "events name the rule")
		}
		if strings.Contains(b.text, "vpaUpdates") {
			require.Contains(t, out, "Pod resources updated by web: container 0: cpu request, memory request")
		}
	}
	require.Greater(t, ran, 6, "the page has lost its examples")
	s.run(t, "kubectl -n celvpa-quickstart get vpa web")
	nothingRefusesPods(t)
	refused, requests := forbidden(t, uninstalling)
	require.Empty(t, refused)
	require.Greater(t, requests, 100)
}

// TestTheCommandsWithoutHelmWork: the plain manifests, the kustomization over them, and uninstalling, which keeps the CRDs.
func TestTheCommandsWithoutHelmWork(t *testing.T) {
	needsLab(t)
	s, k := newShell(t), newKubelet(t)
	s.cleanUp(t)
	const definitions = "crd verticalpodautoscalers.autoscaling.k8s.io verticalpodautoscalercheckpoints.autoscaling.k8s.io ruleoverlays.rules.celvpa.dev"
	t.Cleanup(func() { // the next test installs with helm, which would find CRDs that are not its own
		out, err := s.command(context.WithoutCancel(t.Context()), "kubectl delete --ignore-not-found "+definitions).CombinedOutput()
		require.NoError(t, err, string(out))
	})
	start, ran := time.Now(), 0
	var uninstalling period
	for _, b := range blocks(t, "install.md") {
		if b.language == "yaml kustomization" {
			const remote, version = "github.com/celvpa/celvpa/", "?ref=v0.1.0"
			require.Contains(t, b.text, remote)
			require.Contains(t, b.text, version)
			local := strings.NewReplacer(remote, "", version, "").Replace(b.text)
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kustomization.yaml"), []byte(local), 0o600))
		}
		if b.words != "plain" {
			continue
		}
		ran++
		began := time.Now()
		out := s.run(t, b.text)
		k.sync()
		switch {
		case strings.HasPrefix(b.text, "kubectl delete"):
			uninstalling = period{began, time.Now()}
		case strings.Contains(b.text, "-k"):
			require.Equal(t, 3, strings.Count(out, "registry.example/team/celvpa:v0.1.0"), out)
		}
		if uninstalling == (period{}) {
			config := &admissionregistrationv1.MutatingWebhookConfiguration{}
			require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Name: "vpa-webhook-config"}, config))
			require.NotEmpty(t, config.Webhooks, "the process has registered itself")
			require.NoError(t, createPod(t, "default"))
		}
	}
	require.Equal(t, 3, ran, "the page has lost its examples")
	s.run(t, "kubectl get "+definitions)
	nothingRefusesPods(t)
	refused, requests := forbidden(t, period{to: start}, uninstalling)
	require.Empty(t, refused)
	require.Positive(t, requests)
}

// TestTheUpdateStrategyCanChange to Recreate, with a number of replicas or as a value, and back: helm 4 applies on the server, where
// what nobody owns stays.
func TestTheUpdateStrategyCanChange(t *testing.T) {
	needsLab(t)
	s := newShell(t)
	s.cleanUp(t)
	const flags = " celvpa deploy/chart/celvpa -n celvpa-system --take-ownership --force-conflicts --set admissionController.enabled=false,"
	s.run(t, "helm install --create-namespace"+flags+"updater.replicas=2")
	for _, c := range []struct {
		values string
		want   appsv1.DeploymentStrategyType
	}{
		{"updater.replicas=1", appsv1.RecreateDeploymentStrategyType},
		{"updater.replicas=2", appsv1.RollingUpdateDeploymentStrategyType},
		{"updater.updateStrategy.type=Recreate", appsv1.RecreateDeploymentStrategyType},
		{"updater.updateStrategy.type=RollingUpdate", appsv1.RollingUpdateDeploymentStrategyType},
		{"updater.updateStrategy.rollingUpdate.maxSurge=0", appsv1.RollingUpdateDeploymentStrategyType},
		{"updater.replicas=1", appsv1.RecreateDeploymentStrategyType},
	} {
		s.run(t, "helm upgrade"+flags+c.values)
		d := &appsv1.Deployment{}
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: release.Namespace, Name: "celvpa-updater"}, d))
		require.Equal(t, c.want, d.Spec.Strategy.Type, c.values)
	}
}

// nothingRefusesPods requires that no webhook of VPA is left and that pods can be created.
func nothingRefusesPods(t *testing.T) {
	t.Helper()
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	require.True(t, apierrors.IsNotFound(cluster.Get(t.Context(), client.ObjectKey{Name: "vpa-webhook-config"}, config)))
	require.NoError(t, createPod(t, "default"))
}

// createPod creates a pod and deletes it again.
func createPod(t *testing.T, namespace string) error {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "p-"}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10"}}
	if err := cluster.Create(t.Context(), pod); err != nil {
		return err
	}
	return cluster.Delete(t.Context(), pod)
}

// TestFailurePolicyFailKeepsNoPodOfTheReleaseFromStarting: with all replicas down, other namespaces wait, and the release's does not;
// uninstalling ends that at once.
func TestFailurePolicyFailKeepsNoPodOfTheReleaseFromStarting(t *testing.T) {
	needsLab(t)
	s, k := newShell(t), newKubelet(t)
	s.cleanUp(t)
	s.run(t, "helm install celvpa deploy/chart/celvpa -n celvpa-system --create-namespace --take-ownership --force-conflicts "+
		"--set recommender.enabled=false,updater.enabled=false,admissionController.mutatingWebhookConfiguration.failurePolicy=Fail")
	require.NoError(t, createPod(t, "default"), "nothing is registered before a process answers")
	k.sync()
	require.NoError(t, createPod(t, "default"))
	hang.Eventually(t, "the registration to refuse pods", func(context.Context) (bool, error) {
		return s.run(t, "kubectl get mutatingwebhookconfiguration vpa-webhook-config -o jsonpath={.webhooks[0].failurePolicy}") == "Fail", nil
	})
	k.running["celvpa-admission-controller"].Kill()
	delete(k.running, "celvpa-admission-controller")
	hang.Eventually(t, "pods to be refused", func(context.Context) (bool, error) {
		return createPod(t, "default") != nil, nil
	})
	require.NoError(t, createPod(t, "celvpa-system"))
	s.run(t, "helm uninstall celvpa -n celvpa-system")
	hang.Eventually(t, "pods to be accepted", func(context.Context) (bool, error) {
		return createPod(t, "default") == nil, nil
	})
	nothingRefusesPods(t)
}
