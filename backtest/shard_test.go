package backtest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/simulate"
)

// TestASelectorIsComparedWithFewWorkloads: comparing each VPA and each budget with all pods took most
// of a backtest of thousands.
func TestASelectorIsComparedWithFewWorkloads(t *testing.T) {
	var workloads []*simulate.StagedWorkload
	for i := range 4 {
		pod := &corev1.Pod{}
		pod.Labels = map[string]string{"app": fmt.Sprint("w", i), "tier": "all"}
		workloads = append(workloads, &simulate.StagedWorkload{Namespace: "shop", Kind: "Deployment", Name: fmt.Sprint("w", i), Pods: []simulate.StagedPod{{First: pod, Next: &corev1.Pod{}}}})
	}
	index := newLabelIndex(workloads)
	for selector, want := range map[string][]int{
		"app=w2": {2}, "app in (w3),tier=all": {3}, "tier=all": {0, 1, 2, 3}, "app in (w1,w2)": {0, 1, 2, 3}, "app!=w1": {0, 1, 2, 3}, "": {0, 1, 2, 3}, "app=w9": nil,
	} {
		parsed, err := labels.Parse(selector)
		require.NoError(t, err)
		require.Equal(t, want, index.candidates("shop", parsed), selector)
		require.Empty(t, index.candidates("other", parsed), selector)
	}
}
