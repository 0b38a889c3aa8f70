package harness

import (
	"flag"
	"strconv"
)

// AtLeastParallel raises the number of tests that run in parallel: those on a lab mostly wait. A celvpa that detects races takes
// several times the CPU, so of them half must do. Call it after flag.Parse.
func AtLeastParallel(n int) {
	if DetectsRaces() {
		n /= 2
	}
	f := flag.Lookup("test.parallel")
	if now, err := strconv.Atoi(f.Value.String()); err == nil && now < n {
		_ = f.Value.Set(strconv.Itoa(n))
	}
}
