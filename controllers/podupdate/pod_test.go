package podupdate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
)

func TestPodsGoInTheOrderOfTheRules(t *testing.T) {
	pod := func(name string, first int64, then float64) *Candidate {
		p := &corev1.Pod{}
		p.Name = name
		return &Candidate{Pod: &Pod{PodState: facts.PodState{Pod: p}, Priority: facts.Priority{First: first, Then: then}}}
	}
	list := []*Candidate{pod("d", 0, 9), pod("c", 1, 1), pod("b", 1, 1), pod("a", 1, 2), pod("e", 0, 0.5), pod("f", 0, math.NaN())}
	Sort(list)
	var names []string
	for _, p := range list {
		names = append(names, p.Pod.PodState.Pod.Name)
	}
	require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, names)
}
