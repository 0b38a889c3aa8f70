package updater

import (
	"encoding/json"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Half of a VPA might allow what the undecodable half forbids.
func TestUnreadableVPAUpdatesNoPods(t *testing.T) {
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "web"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	vpa := func(name, policy, minReplicas string) (v vpav1.VerticalPodAutoscaler) {
		require.NoError(t, json.Unmarshal([]byte(`{"metadata":{"namespace":"ns","name":"`+name+`","uid":"`+name+`"},
			"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"`+policy+`","minReplicas":`+minReplicas+`}}}`), &v))
		return v
	}
	var lines []string
	u := &run{rules: book, Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}), Updater: &Updater{Options: Options{
		Resolver: &target.Resolver{Client: fake.NewClientBuilder().WithObjects(deployment).Build()},
	}}}
	require.Empty(t, u.assign(t.Context(), []vpav1.VerticalPodAutoscaler{vpa("broken", "Recreate", `"two"`)}, []*corev1.Pod{&pod}))
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "VPA skipped: it cannot be decoded completely")
	require.Contains(t, lines[0], "spec.updatePolicy.minReplicas cannot be read")
	work := u.assign(t.Context(), []vpav1.VerticalPodAutoscaler{vpa("broken", "Recreate", `"two"`), vpa("whole", "Recreate", "2")}, []*corev1.Pod{&pod})
	require.Len(t, work, 1)
	require.Equal(t, "whole", work[0].vpa.Name)
	require.Len(t, work[0].pods, 1)
}
