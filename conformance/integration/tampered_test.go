package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
)

// resizesThatAPolicyChanges: a tenant's webhook, or as here a MutatingAdmissionPolicy, may give back what a pod had. It was called
// resized in each cycle, and never was.
func resizesThatAPolicyChanges(t *testing.T) {
	ns := namespace(t, "up-tampered")
	waits, evicts := deployed(t, ns, "waits", 1, small), deployed(t, ns, "evicts", 1, small)
	tampering(t, ns, waits)
	watchedOver(t, ns, "waits", one("InPlace"), target("200m", "200Mi"))
	watchedOver(t, ns, "evicts", one("InPlaceOrRecreate"), target("200m", "200Mi"))
	u := startUpdater(t, ns)
	leave(t, ns, "evicts", evicts)
	requireEvent(t, ns, "ResizeRefused", "requests.memory of a is 100Mi in the answer, not 200Mi")
	requireEvent(t, ns, "EvictedByVPA", "update/resize-refused")
	hang.Eventually(t, "a resize in mode InPlace", func(context.Context) (bool, error) { return u.requests.of("resize", "waits") > 0, nil })
	asked := u.requests.of("resize", "waits")
	u.cycles(5)
	require.LessOrEqual(t, u.requests.of("resize", "waits"), asked+1, "it is not sent again in each cycle")
	same(t, ns, "waits", waits)
	u.hasCounted(0, "vpa_updater_in_place_updated_pods_total", `vpa_name="waits"`)
}

// tampering has resized pods of a namespace keep their memory, from when it returns to the end of the test.
func tampering(t *testing.T, ns string, pods map[types.UID]corev1.Pod) {
	t.Helper()
	name := metav1.ObjectMeta{Name: ns}
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: name, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(admissionregistrationv1.Fail), ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/resize"}},
			}}},
		},
		Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{
			Expression: `[JSONPatch{op: "replace", path: "/spec/containers/0/resources/requests/memory", value: "100Mi"}]`,
		}}},
	}}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: name, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: ns}}
	for _, o := range []client.Object{policy, binding} {
		create(t, o)
		t.Cleanup(func() { require.NoError(t, cluster.Delete(context.Background(), o)) })
	}
	for _, p := range pods {
		hang.Eventually(t, "the policy to be in force", func(ctx context.Context) (bool, error) {
			tried, text := p.DeepCopy(), `[{"op": "add", "path": "/spec/containers/0/resources/requests/memory", "value": "200Mi"}]`
			err := cluster.SubResource("resize").Patch(ctx, tried, client.RawPatch(types.JSONPatchType, []byte(text)), client.DryRunAll)
			if err != nil {
				return false, fmt.Errorf("trying a resize: %w", err)
			}
			return tried.Spec.Containers[0].Resources.Requests.Memory().String() == "100Mi", nil
		})
	}
}
