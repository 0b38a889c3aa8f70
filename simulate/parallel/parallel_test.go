package parallel

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachIsCalledOnce(t *testing.T) {
	for _, n := range []int{0, 1, chunk, chunk + 1, 10*chunk - 1, 1000} {
		calls := make([]atomic.Int32, n)
		Each(n, func(i int) { calls[i].Add(1) })
		for i := range calls {
			require.EqualValues(t, 1, calls[i].Load(), "%d of %d", i, n)
		}
	}
}
