package counters

import (
	"testing"

	"github.com/stretchr/testify/require"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestSizesAreLogarithms(t *testing.T) {
	v := &vpav1.VerticalPodAutoscaler{}
	for pods, want := range map[int]string{0: "0", 1: "0", 2: "1", 3: "1", 4: "2", 1023: "9", 1024: "10", 1<<20 - 1: "19", 1 << 20: "20", 1 << 25: "20"} {
		require.Equal(t, want, Of(v, pods).Size, pods)
	}
	require.Equal(t, "Recreate", Of(v, 0).Mode)
	empty := vpav1.UpdateMode("")
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &empty}
	require.Equal(t, "Recreate", Of(v, 0).Mode)
}
