package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/crds"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// aStoredVPAThatCannotBeReadHarmsNoOther: upstream's CRDs allow quantities that no program can
// decode. With one of them stored, lists failed, so celvpa neither started nor stopped. On others,
// such as 1e-999999999, the parser never returned, and the cache of the whole cluster stalled
// silently.
func aStoredVPAThatCannotBeReadHarmsNoOther(t *testing.T) {
	file := upstreamCRDs(t)
	withoutCelvpa(t)
	t.Cleanup(func() { require.NoError(t, cluster.InstallCRDs(context.Background(), false)) })
	deleteCRDs(t)
	require.NoError(t, cluster.ApplyFiles(t.Context(), file))
	for _, name := range []string{crds.VPA, crds.Checkpoint} {
		require.NoError(t, cluster.WaitEstablished(t.Context(), name))
	}
	ns := namespace(t, "it-unreadable")
	const quantity = "resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: 1e1.5}}]}"
	hang.Eventually(t, "VPAs of upstream's kind", func(ctx context.Context) (bool, error) {
		return cluster.Create(ctx, object(ns, "spec", quantity)) == nil, nil
	})
	inStatus := object(ns, "status", "")
	create(t, inStatus)
	create(t, object(ns, "endless", "resourcePolicy: {containerPolicies: [{containerName: app, maxAllowed: {cpu: '1e-999999999'}}]}"))
	later := object(ns, "later", "")
	create(t, later)
	served := vpa(ns, "served", vpav1.UpdateModeRecreate)
	served.Spec.TargetRef.Name = "steady"
	create(t, steady(ns, "steady", 1), served)

	setTarget := func(u *unstructured.Unstructured, cpu string) {
		// celvpa writes the status, too.
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
				return err
			}
			if err := unstructured.SetNestedSlice(u.Object, []any{map[string]any{"containerName": "app", "target": map[string]any{"cpu": cpu}}},
				"status", "recommendation", "containerRecommendations"); err != nil {
				return err
			}
			return cluster.Status().Update(t.Context(), u)
		}))
	}
	setTarget(inStatus, "1e1.5")

	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	require.NoError(t, err)
	var mu sync.Mutex
	leftOut, unread := map[string]string{}, map[string]string{}
	c, err := harness.Start(program, address, filepath.Join(t.TempDir(), "log"),
		append([]string{"run", "--kubeconfig=" + kubeconfig, "--register-webhook=false", "--recommender-interval=1s", "--updater-interval=1s",
			"--use-admission-controller-status=false", "--vpa-object-namespace=" + ns}, args...),
		func(line harness.LogLine) {
			mu.Lock()
			defer mu.Unlock()
			if line.Text("msg") == "stored object cannot be decoded completely; skipped until fixed" {
				unread[line.Text("name")] = line.Text("reason")
			}
			if line.Text("msg") == "VPA skipped: it cannot be decoded completely" {
				leftOut[line.Text("vpa")] = line.Text("reason")
			}
		})
	require.NoError(t, err)
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			_ = c.Stop()
		}
	})
	require.NoError(t, c.WaitReady(t.Context()))
	recommended(t, ns, "served")
	hang.Eventually(t, "the updater to log what it leaves out", func(context.Context) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return containsText(leftOut["spec"], `spec.resourcePolicy.containerPolicies[0].minAllowed.cpu cannot be read: it is "1e1.5": `), nil
	})
	unreadable := func(n int) {
		hang.Eventually(t, "the metric to count what cannot be read", func(ctx context.Context) (bool, error) {
			text, err := harness.Get(ctx, "http://"+address+"/metrics")
			return containsText(text, fmt.Sprintf("celvpa_unreadable_objects{kind=\"VerticalPodAutoscaler\"} %d\n", n)), err
		})
	}
	setTarget(later, "1e-999999999") // while it is watched
	hang.Eventually(t, "the log to name it", func(context.Context) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return containsText(unread["later"], `status.recommendation.containerRecommendations[0].target.cpu cannot be read: it is "1e-999999999"`) &&
			containsText(unread["endless"], "maxAllowed.cpu"), nil
	})

	unreadable(2) // the recommender replaces a status that cannot be read; a spec is its author's to mend

	// Caches still deliver: later objects are served, by the webhook too.
	after := vpa(ns, "after", vpav1.UpdateModeOff)
	after.Spec.TargetRef.Name = "steady"
	create(t, after)
	recommended(t, ns, "after")
	var port string
	for _, arg := range args {
		if text, ok := strings.CutPrefix(arg, "--port="); ok {
			port = text
		}
	}
	review := func(cpu string) string {
		return post(t, "https://127.0.0.1:"+port, fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},
			"requestKind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"operation":"CREATE","namespace":%q,"object":{"metadata":{"name":"p","labels":{"app":"steady"},
			"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"steady","uid":"u","controller":true}]},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":%q}}}]}}}}`, ns, cpu))
	}
	require.Contains(t, review("100m"), `"patch":`)
	require.NotContains(t, review("1e-999999999"), `"patch":`)
	text, err := harness.Get(t.Context(), "http://"+address+"/readyz")
	require.NoError(t, err)
	require.Equal(t, "OK", text)
	stopped = true
	require.NoError(t, c.Stop())
}

// post sends a review to a webhook without verifying its certificate, and returns the answer.
func post(t *testing.T, url, body string) string {
	t.Helper()
	client := http.Client{Timeout: hang.Limit, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}
