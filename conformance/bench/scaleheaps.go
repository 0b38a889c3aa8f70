package main

import (
	"errors"
	"fmt"
	"slices"
)

// heaps are live heaps after a quarter of the time and at the end, in bytes. They are read while the
// recommender waits for usage: what a cycle needs while it runs comes and goes, and in the largest
// cluster a cycle runs all the time. Of a few minutes the least counts, since watches go on.
type heaps struct {
	quarter, end int // minutes
	early, late  []float64
	errs         []error
}

const heapMoments = 3

func newHeaps(minutes int) *heaps { return &heaps{quarter: max(minutes/4, 2), end: minutes} }

// look reads the heap of a minute, if it counts.
func (h *heaps) look(minute int, read func() (float64, error)) {
	moments := min(heapMoments, h.end-h.quarter)
	to := &h.early
	switch {
	case minute > h.end-moments && minute <= h.end:
		to = &h.late
	case minute < h.quarter || minute >= h.quarter+moments:
		return
	}
	heap, err := read()
	if err != nil {
		h.errs = append(h.errs, fmt.Errorf("minute %d: %w", minute, err))
		return
	}
	*to = append(*to, heap)
}

// least are the smallest of both. To be called when there are no more looks.
func (h *heaps) least() (early, late float64, err error) {
	if len(h.early) == 0 || len(h.late) == 0 {
		return 0, 0, errors.Join(append(h.errs, errors.New("the live heap was not read both after a quarter of the time and at the end"))...)
	}
	return slices.Min(h.early), slices.Min(h.late), nil
}
