package facts_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
)

func TestAlterationsAreWhatThePodDoesNotHave(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{container(t, "app", "cpu=100m memory=1Gi", "cpu=1"), container(t, "proxy", "", "")},
		Resources:  &corev1.ResourceRequirements{Requests: list(t, "cpu=2"), Limits: list(t, "memory=4Gi")},
	}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", Resources: &corev1.ResourceRequirements{Requests: list(t, "cpu=20m")}}}
	writes := func(text string) facts.Quantities { return facts.QuantitiesOf(list(t, text)) }
	change := facts.PodChange{
		Containers: []facts.ContainerChange{
			{Index: 0, Name: "app", ResourceChange: facts.ResourceChange{Requests: writes("cpu=0.1 memory=2Gi"), Limits: writes("cpu=1000m memory=2Gi")}},
			{Index: 1, Name: "proxy", ResourceChange: facts.ResourceChange{Requests: writes("cpu=50m")}},
		},
		Pod: &facts.ResourceChange{Requests: writes("cpu=1"), Limits: writes("memory=4096Mi")},
	}
	var got []string
	for _, a := range facts.Alterations(pod, change) {
		got = append(got, fmt.Sprintf("%q %s %q %q", a.Container, a.Field, a.From, a.To))
	}
	require.Equal(t, []string{
		`"app" requests.memory "1Gi" "2Gi"`,
		`"app" limits.memory "" "2Gi"`,
		`"proxy" requests.cpu "20m" "50m"`,
		`"" requests.cpu "2" "1"`,
	}, got)
	require.Empty(t, facts.Alterations(pod, facts.PodChange{}))
}
