//go:build !linux || !amd64

package wallclock

import "time"

// Clock is the wall clock of a process.
type Clock struct{}

// Of returns ErrUnsupported.
func Of(int) (*Clock, error) { return nil, ErrUnsupported }

// Set returns ErrUnsupported.
func (*Clock) Set(time.Duration) error { return ErrUnsupported }
