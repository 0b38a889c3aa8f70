package facts

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Fractions of a byte, and amounts beyond what rules can represent, in pod-level resources.
func TestRulesSeeAmountsThatCannotBeAddedUp(t *testing.T) {
	whole := amounts("cpu", "1", "memory", "1Gi")
	for name, tt := range map[string]struct {
		requests, limits, container, asked, init corev1.ResourceList
		want                                     []corev1.ResourceName
	}{
		"whole amounts":                   {requests: whole, limits: whole, container: whole, init: whole},
		"none":                            {},
		"a fraction in the pod's request": {requests: amounts("cpu", "1", "memory", "1500m"), container: whole, want: []corev1.ResourceName{"memory"}},
		"in its limit":                    {limits: amounts("memory", "1500m"), want: []corev1.ResourceName{"memory"}},
		"in a container":                  {requests: whole, container: amounts("memory", "100m"), want: []corev1.ResourceName{"memory"}},
		"in an init container":            {requests: whole, init: amounts("memory", "100m"), want: []corev1.ResourceName{"memory"}},
		"too much":                        {requests: amounts("cpu", "9223372036854775807", "memory", "9223372036854775807"), want: []corev1.ResourceName{"cpu"}},
		"in a container, and the pod has no such": {requests: amounts("cpu", "1"), container: amounts("memory", "100m")},
		"too much in a sidecar, and API servers give the pod a request": {
			requests: amounts("memory", "1Gi"), init: amounts("cpu", "9223372036854775807"), want: []corev1.ResourceName{"cpu"}},
		"too much together": {requests: amounts("cpu", "1"), asked: amounts("memory", "1"), init: amounts("memory", "9223372036854775807"),
			want: []corev1.ResourceName{"memory"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{
				Containers:     []corev1.Container{{}, {Resources: corev1.ResourceRequirements{Limits: tt.container, Requests: tt.asked}}},
				InitContainers: []corev1.Container{{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: corev1.ResourceRequirements{Requests: tt.init}}},
			}}
			require.Equal(t, tt.want, inexact(pod, tt.requests, tt.limits, defaultRequests(pod, tt.requests, tt.limits, initRequests(pod))))
		})
	}
}
