package reliability

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

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
	answer, err := http.Get("http://" + admission.Address + "/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, answer.Body.Close())
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
