package facts

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestNodesThatPodsRunOn: a DaemonSet's pods name their only node before they are scheduled.
func TestNodesThatPodsRunOn(t *testing.T) {
	named := func(operator corev1.NodeSelectorOperator, names ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: operator, Values: names}}}
	}
	labelled := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}
	for name, tt := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  string
	}{
		"a DaemonSet's":           {[]corev1.NodeSelectorTerm{named(corev1.NodeSelectorOpIn, "a")}, "a"},
		"with several terms":      {[]corev1.NodeSelectorTerm{named(corev1.NodeSelectorOpIn, "a"), named(corev1.NodeSelectorOpIn, "a")}, "a"},
		"one of two nodes":        {[]corev1.NodeSelectorTerm{named(corev1.NodeSelectorOpIn, "a", "b")}, ""},
		"one of two terms":        {[]corev1.NodeSelectorTerm{named(corev1.NodeSelectorOpIn, "a"), named(corev1.NodeSelectorOpIn, "b")}, ""},
		"any other":               {[]corev1.NodeSelectorTerm{named(corev1.NodeSelectorOpNotIn, "a")}, ""},
		"or what a label selects": {[]corev1.NodeSelectorTerm{named(corev1.NodeSelectorOpIn, "a"), labelled}, ""},
		"a label of that name":    {[]corev1.NodeSelectorTerm{labelled}, ""},
		"no term":                 {nil, ""},
	} {
		pod := &corev1.Pod{}
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: tt.terms}}}
		require.Equal(t, tt.want, nodeName(pod), name)
		pod.Spec.NodeName = "here"
		require.Equal(t, "here", nodeName(pod), name)
	}
	for _, affinity := range []*corev1.Affinity{nil, {}, {NodeAffinity: &corev1.NodeAffinity{}}} {
		require.Empty(t, nodeName(&corev1.Pod{Spec: corev1.PodSpec{Affinity: affinity}}))
	}
}
