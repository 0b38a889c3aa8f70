package upstream

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestASeedIsOneCase: regression, a generator that drew in the order of a map made another case in each run, so a fault came and went.
func TestASeedIsOneCase(t *testing.T) {
	same := func(what string, draw func(seed uint64) any) {
		for seed := range uint64(100) {
			text := func() string { return fmt.Sprintf("%+v", draw(seed)) } // it prints maps in order
			require.Equal(t, text(), text(), "%s of seed %d", what, seed)
		}
	}
	same("a VPA", func(seed uint64) any { return generate(seed) })
	for name, kind := range podKinds {
		same(name, func(seed uint64) any { return generatePod(seed, kind) })
	}
	for name, kind := range updateKinds {
		same(name, func(seed uint64) any { return generateUpdate(seed, kind) })
	}
	for name, kind := range storyKinds {
		same(name, func(seed uint64) any { return imagine(seed, kind) })
	}
}
