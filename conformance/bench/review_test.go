package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

func TestReviewIsOfAPodOfItsReplicaSet(t *testing.T) {
	r, err := reviewOf(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-5d", UID: "u1",
		Labels:          map[string]string{"pod-template-hash": "5d"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", Controller: ptr.To(true)}}}})
	require.NoError(t, err)
	var asked admissionv1.AdmissionReview
	require.NoError(t, yaml.UnmarshalStrict(r, &asked))
	var pod corev1.Pod
	require.NoError(t, yaml.UnmarshalStrict(asked.Request.Object.Raw, &pod))
	require.Equal(t, "shop", asked.Request.Namespace)
	require.Equal(t, map[string]string{"app": "web", "pod-template-hash": "5d"}, pod.Labels)
	require.Equal(t, "web-5d", pod.OwnerReferences[0].Name)
	require.Len(t, pod.Spec.Containers, 2)
}
