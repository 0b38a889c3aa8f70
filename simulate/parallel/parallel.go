// Package parallel does many small things on all cores.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// chunk is how many things a goroutine takes at a time, and fewer are not worth one.
const chunk = 16

// Each calls f for 0 to n-1, several at once and in any order.
func Each(n int, f func(i int)) {
	if n <= chunk {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (n+chunk-1)/chunk) {
		all.Go(func() {
			for {
				begin := int(next.Add(chunk)) - chunk
				for i := begin; i < min(begin+chunk, n); i++ {
					f(i)
				}
				if begin+chunk >= n {
					return
				}
			}
		})
	}
	all.Wait()
}
