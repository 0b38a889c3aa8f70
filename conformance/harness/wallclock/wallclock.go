// Package wallclock steps the wall clock of one running process, and of nothing else. Its monotonic
// clock and its timers go on, as they do when an administrator sets the date or NTP steps it.
//
// Programs in Go read the clock from the vDSO, without a system call, so no preloaded library can
// step in. Here the code of clock_gettime in the process's own copy of the vDSO is replaced by some
// that makes the system call and adds an offset.
package wallclock

import "errors"

// ErrUnsupported is that of machines other than Linux on amd64.
var ErrUnsupported = errors.New("stepping the clock of a process needs Linux on amd64")
