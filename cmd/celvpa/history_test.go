package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

// fakeCluster serves documents at their paths, and is named by the kubeconfig that it returns.
func fakeCluster(t *testing.T, documents map[string]string) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, there := documents[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !there {
			w.WriteHeader(http.StatusNotFound)
			text = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}`, server.URL)), 0o600))
	return kubeconfig
}

// TestHistoryOfASharedTarget is that of the first VPA by the rules: celvpa history, which has no flags of rules, went by age and name.
func TestHistoryOfASharedTarget(t *testing.T) {
	defer klog.CaptureState().Restore() // the command turns klog off
	const vpa = `{"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"namespace": "shop", "name": %q, "creationTimestamp": %q},
		"spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}`
	old, young := fmt.Sprintf(vpa, "old", "2026-01-01T00:00:00Z"), fmt.Sprintf(vpa, "young", "2026-01-02T00:00:00Z")
	const group = `{"name": %[1]q, "versions": [{"groupVersion": "%[1]s/%[2]s", "version": %[2]q}], "preferredVersion": {"groupVersion": "%[1]s/%[2]s", "version": %[2]q}}`
	const resources = `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": %q, "resources": [{"name": %q, "kind": %q, "namespaced": %t, "verbs": ["get", "list"]}]}`
	documents := map[string]string{
		"/api":                            `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":                           `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [` + fmt.Sprintf(group, "autoscaling.k8s.io", "v1") + ", " + fmt.Sprintf(group, "rules.celvpa.dev", "v1alpha1") + "]}",
		"/apis/autoscaling.k8s.io/v1":     fmt.Sprintf(resources, "autoscaling.k8s.io/v1", "verticalpodautoscalers", "VerticalPodAutoscaler", true),
		"/apis/rules.celvpa.dev/v1alpha1": fmt.Sprintf(resources, "rules.celvpa.dev/v1alpha1", "ruleoverlays", "RuleOverlay", false),
		"/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers":       `{"kind": "VerticalPodAutoscalerList", "apiVersion": "autoscaling.k8s.io/v1", "items": [` + young + ", " + old + "]}",
		"/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/old":   old,
		"/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/young": young,
		"/apis/rules.celvpa.dev/v1alpha1/ruleoverlays":                             `{"kind": "RuleOverlayList", "apiVersion": "rules.celvpa.dev/v1alpha1", "items": []}`,
	}
	explained := func() string {
		out, err := celvpa(t, "history", "deploy/web", "-n", "shop", "--kubeconfig", fakeCluster(t, documents))
		require.NoError(t, err)
		return out
	}
	require.Contains(t, explained(), "VerticalPodAutoscaler shop/old\n")
	documents["/apis/rules.celvpa.dev/v1alpha1/ruleoverlays"] = `{"kind": "RuleOverlayList", "apiVersion": "rules.celvpa.dev/v1alpha1", "items": [
		{"apiVersion": "rules.celvpa.dev/v1alpha1", "kind": "RuleOverlay", "metadata": {"name": "own"}, "spec": {"change": [
			{"replace": "vpa-order/age/oldest-first", "rule": {"name": "youngest-first", "set": {"order.first": "created"}}}]}}]}`
	require.Contains(t, explained(), "VerticalPodAutoscaler shop/young\n")
}
