package upstream

import (
	"fmt"
	"iter"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// firstSeed is where the ordinary tests begin, so that a failure is that of a change. The
// environment variable draws others.
const firstSeed = 430_000

const seedVariable = "CELVPA_FIRST_SEED"

// seeds are those of so many generated cases.
func seeds(t *testing.T, number int) iter.Seq[uint64] {
	t.Helper()
	first := uint64(firstSeed)
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		first, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, seedVariable)
	}
	return func(yield func(uint64) bool) {
		for i := range uint64(number) {
			if !yield(first + i) {
				return
			}
		}
	}
}

// cases is how many of so many generated cases run: with -short, as in `make test`, a fifth.
func cases(number int) int {
	if testing.Short() {
		return number / 5
	}
	return number
}

// explainsSome requires that a deliberate difference was met. Rare ones are not in each draw, so only all cases of the first seed are
// asked, as in `make test-all`.
func explainsSome(t *testing.T, met map[string]int, difference string) {
	t.Helper()
	if met[difference] == 0 && !testing.Short() && os.Getenv(seedVariable) == "" {
		t.Errorf("the deliberate difference %q explains no generated case: it is stale, or the generator misses it", difference)
	}
}

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
