package harness

import (
	"flag"
	"strconv"
)

// AtLeastParallel raises the number of tests that run in parallel: those on a lab mostly wait. Call it after flag.Parse.
func AtLeastParallel(n int) {
	f := flag.Lookup("test.parallel")
	if now, err := strconv.Atoi(f.Value.String()); err == nil && now < n {
		_ = f.Value.Set(strconv.Itoa(n))
	}
}
