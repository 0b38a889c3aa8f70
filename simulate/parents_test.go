package simulate

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// scalable is an API server that knows whether custom kinds have a scale subresource, or does not.
type scalable struct {
	page
	has, known bool
}

func (s scalable) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

func (s scalable) HasScale(context.Context, schema.GroupKind) (has, known bool) {
	return s.has, s.known
}

func TestACustomOwnerOfATargetIsAParentIfItIsScalable(t *testing.T) {
	owned := strings.Replace(shop, "kind: Deployment\nmetadata: {namespace: web, name: shop}",
		"kind: Deployment\nmetadata: {namespace: web, name: shop, ownerReferences: [{apiVersion: example.com/v1, kind: Operator, name: all, controller: true}]}", 1)
	require.NotEqual(t, shop, owned)
	items := map[string][]map[string]any{}
	for _, document := range strings.Split(owned, "---\n") {
		var object map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		if kind, ok := object["kind"].(string); ok {
			items[kind] = append(items[kind], object)
		}
	}
	live := func(has, known bool) func() (*manifests.Set, error) {
		return func() (*manifests.Set, error) {
			r := manifests.Reader{Client: scalable{page: page{items: items}, has: has, known: known}}
			set, _, err := r.Read(t.Context(), append([]schema.GroupVersionKind{manifests.VPAKind}, manifests.PodKinds...)...)
			return set, err
		}
	}
	const parent = "VerticalPodAutoscaler web/shop cannot be used: The target apps/v1.Deployment/shop has a parent controller but it should point to a topmost well-known or scalable controller"
	for name, tt := range map[string]struct {
		read    func() (*manifests.Set, error)
		refused bool
	}{
		"in a cluster, scalable":       {read: live(true, true), refused: true},
		"in a cluster, not scalable":   {read: live(false, true)},
		"in a cluster that hides this": {read: live(false, false)},
		"in files": {read: func() (*manifests.Set, error) {
			return manifests.Read([]string{manifests.Stdin}, strings.NewReader(owned))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			of := func() *Cluster {
				set, err := tt.read()
				require.NoError(t, err)
				c, err := Load(set, shipped(t), At(noon))
				require.NoError(t, err)
				return c
			}
			planned := of()
			plan, err := planned.Plan(false)
			require.NoError(t, err)
			require.Len(t, plan.Items, 2)
			for _, item := range plan.Items {
				if tt.refused {
					require.Equal(t, "No VerticalPodAutoscaler controls it: "+parent, item.Reason)
				} else {
					require.Equal(t, "web/shop", item.VPA)
				}
			}
			if tt.refused {
				require.Equal(t, []string{parent}, planned.Notes())
			} else {
				require.Empty(t, planned.Notes())
			}

			admitted := of()
			admissions, err := admitted.Admit()
			require.NoError(t, err)
			require.Len(t, admissions.Items, 3, "two pods, and one of the template")
			for _, item := range admissions.Items {
				require.Equal(t, tt.refused, item.Why == "no VerticalPodAutoscaler controls it: "+parent, item.Why)
			}
			require.Empty(t, admitted.Notes())

			recommending := of()
			recommended, err := recommending.Recommend(&usagefile.Usage{}, false)
			require.NoError(t, err)
			refused := false
			for _, c := range recommended.Items[0].Status.Conditions {
				refused = refused || c.Type == vpav1.ConfigUnsupported && c.Status == corev1.ConditionTrue
			}
			require.Equal(t, tt.refused, refused)
			require.Empty(t, recommending.Notes())
		})
	}
}
