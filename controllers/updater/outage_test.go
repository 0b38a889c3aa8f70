package updater

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/celvpa/celvpa/controllers/statuslease"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestALeaseThatCannotBeReadIsNotSaidToHaveExpired: during an outage of the API server, nothing is wrong with the admission
// controller.
func TestALeaseThatCannotBeReadIsNotSaidToHaveExpired(t *testing.T) {
	key := client.ObjectKey{Namespace: "kube-system", Name: "vpa-admission-controller"}
	var w *world
	alive := func(leases client.Reader) func(context.Context) error {
		return func(ctx context.Context) error {
			return (&statuslease.Checker{Client: leases, Key: key, Timeout: time.Minute, Clock: w.clock}).Alive(ctx)
		}
	}
	said := func(leases client.Reader) string {
		w = newWorld(t, func(o *Options) { o.Admission = alive(leases) })
		w.cycle()
		return strings.Join(w.logs, "\n")
	}
	none := fake.NewClientBuilder().Build()
	require.Contains(t, said(none), "status lease cannot be read; evictions paused")
	old := metav1.NewMicroTime(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC))
	expired := fake.NewClientBuilder().WithObjects(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: coordinationv1.LeaseSpec{RenewTime: &old}}).Build()
	require.Contains(t, said(expired), "status lease expired; evictions paused")
}

// TestACacheThatIsBehindLetsNoPodBeEvicted: what it shows of a workload's pods may be gone.
func TestACacheThatIsBehindLetsNoPodBeEvicted(t *testing.T) {
	behind := "pods have not been watched for 30s"
	w := newWorld(t, func(o *Options) { o.Outdated = func() string { return behind } })
	w.workload("flat", 2, vpav1.UpdateModeRecreate)
	w.workload("tall", 2, vpav1.UpdateModeInPlaceOrRecreate)
	require.Empty(t, w.cycle())
	require.Contains(t, strings.Join(w.logs, "\n"), `"skipping this cycle: changes in the cluster may have gone unseen" "reason"="pods have not been watched for 30s"`)
	behind = ""
	require.Len(t, w.cycle(), 2)
}

// TestAnEvictionWithoutAnAnswerIsNotSaidToBeRefused: it may have taken place.
func TestAnEvictionWithoutAnAnswerIsNotSaidToBeRefused(t *testing.T) {
	var w *world
	said := func(answer error) string {
		w = newWorld(t, nil)
		w.workload("web", 2, vpav1.UpdateModeRecreate)
		w.refusing("evict", answer)
		w.cycle()
		return strings.Join(w.logs, "\n")
	}
	const refused, unanswered = "eviction refused; retrying in a later cycle", "eviction not answered; the pod counts as evicted"
	require.Contains(t, said(budgetRefusal(2)), refused)
	lost := said(errors.New("http2: client connection lost"))
	require.Contains(t, lost, unanswered)
	require.NotContains(t, lost, refused)
	require.Equal(t, []string{"EvictionNotAnswered of web: Pod web-01 may have been evicted: the API server did not answer in time (update/evict)"}, w.heard("EvictionNotAnswered"))
	require.Empty(t, w.heard("EvictedByVPA"))
	require.Contains(t, said(apierrors.NewInternalError(errors.New("etcdserver: leader changed"))), unanswered)
	require.Equal(t, []string{"EvictionNotAnswered of web: Pod web-01 may have been evicted: the API server answered: Internal error occurred: etcdserver: leader changed (update/evict)"}, w.heard("EvictionNotAnswered"))
}

// Regression: API servers ask webhooks before they evict. A pod whose webhook failed was still said to be
// perhaps evicted, in every cycle anew, counted as evicted for a minute, and nothing named the webhook.
func TestAWebhookThatFailsIsNamedAndEvictsNothing(t *testing.T) {
	failed := apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com": failed to call webhook: Post "https://policy.example:443/": context deadline exceeded`))
	w := newWorld(t, nil)
	w.workload("web", 2, vpav1.UpdateModeRecreate)
	w.refusing("evict", failed)
	require.Equal(t, []string{"evict web-01"}, w.cycle(), "it would not answer for the others either")
	require.Empty(t, w.heard("EvictionNotAnswered"))
	require.Len(t, w.heard("EvictionRefused"), 1)
	require.Contains(t, w.heard("EvictionRefused")[0], `Pod web-01 cannot be evicted: Internal error occurred: failed calling webhook "policy.example.com"`)
	w.clock.Step(30 * time.Second)
	require.Empty(t, w.cycle(), "a back-off")
	w.clock.Step(30 * time.Second)
	w.refusing("evict", nil)
	require.Equal(t, []string{"evict web-01"}, w.cycle())

	tall := newWorld(t, nil)
	tall.workload("tall", 2, vpav1.UpdateModeInPlaceOrRecreate)
	tall.refusing("resize", failed)
	require.Equal(t, []string{"resize tall-01"}, tall.cycle())
	var pods corev1.PodList
	require.NoError(t, tall.List(t.Context(), &pods))
	require.False(t, tall.busy(&pods.Items[0]), "no resize is under way")
	tall.clock.Step(time.Minute)
	require.Equal(t, []string{"resize tall-01"}, tall.cycle(), "after a minute one asks again")
}
