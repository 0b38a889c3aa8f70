package engine_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// TestConcurrentCompilationsShareACache needs the race detector.
func TestConcurrentCompilationsShareACache(t *testing.T) {
	lib, err := libraryOf(measured, overlay("mine", "  change: [{params: {most.weight: 10}}]\n"))
	require.NoError(t, err)
	registry, cache := shop(), &compile.Cache{}
	want := map[bool]string{}
	for _, vouchers := range []bool{false, true} {
		alone, err := compile.Compile(lib, registry, compile.Options{Pipeline: "p", Gates: map[string]bool{"Vouchers": vouchers}})
		require.NoError(t, err)
		f, _ := adjusted(t, alone)
		want[vouchers] = fmt.Sprint(amounts(f))
	}
	var all sync.WaitGroup
	answers := make([]string, 16)
	for i := range answers {
		all.Go(func() {
			plan, err := compile.Compile(lib, registry, compile.Options{Pipeline: "p", Gates: map[string]bool{"Vouchers": i%2 == 1}, Cache: cache})
			if err != nil {
				answers[i] = err.Error()
				return
			}
			for _, p := range []*engine.Plan{plan, plan.Interpreted()} {
				f, _ := adjusted(t, p)
				answers[i] = fmt.Sprint(amounts(f))
			}
		})
	}
	all.Wait()
	for i, got := range answers {
		require.Equal(t, want[i%2 == 1], got)
	}
}
