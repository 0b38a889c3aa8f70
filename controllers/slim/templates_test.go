package slim

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Anyone who ends startup boosts needs what the pod template has.
func TestControllersKeepTheirPodTemplatesIfAsked(t *testing.T) {
	full := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		ServiceAccountName: "s", InitContainers: []corev1.Container{{Name: "init", Image: "i"}},
		Containers: []corev1.Container{{Name: "app", Image: "i", Command: []string{"run"}, Resources: corev1.ResourceRequirements{Requests: list("4", "1Gi")}}},
	}}
	kept := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: list("4", "1Gi")}}}}}
	for _, tt := range []struct{ full, kept any }{
		{&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: full}}, &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: kept}}},
		{&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: full}}, &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: kept}}},
		{&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: full}}, &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: kept}}},
		{&corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &full}}, &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &kept}}},
		{&corev1.ReplicationController{}, &corev1.ReplicationController{}},
		{&batchv1.Job{Spec: batchv1.JobSpec{Template: full}}, &batchv1.Job{Spec: batchv1.JobSpec{Template: kept}}},
		{&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: full}}, &appsv1.Deployment{}},
	} {
		got, err := ControllerWithTemplate(tt.full)
		require.NoError(t, err)
		require.Equal(t, tt.kept, got)
		again, err := ControllerWithTemplate(got)
		require.NoError(t, err)
		require.Equal(t, tt.kept, again)
	}
	caches := ByObject(false)
	KeepTemplates(caches)
	for object, by := range caches {
		if set, ok := object.(*appsv1.ReplicaSet); ok {
			set.Spec.Template = full
			got, err := by.Transform(set)
			require.NoError(t, err)
			require.Equal(t, kept, got.(*appsv1.ReplicaSet).Spec.Template)
		}
	}
}
