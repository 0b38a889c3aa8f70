package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeapsOfAFewMinutesCount(t *testing.T) {
	for minutes, want := range map[int][]int{4: {2, 3, 4}, 8: {2, 3, 4, 6, 7, 8}, 60: {15, 16, 17, 58, 59, 60}} {
		h, read := newHeaps(minutes), []int(nil)
		for minute := 1; minute <= minutes+1; minute++ {
			h.look(minute, func() (float64, error) { read = append(read, minute); return float64(100 - minute), nil })
		}
		require.Equal(t, want, read)
		early, late, err := h.least()
		require.NoError(t, err)
		require.Greater(t, early, late)
		require.Equal(t, float64(100-minutes), late)
	}
	h := newHeaps(4)
	h.look(4, func() (float64, error) { return 1, nil })
	h.look(2, func() (float64, error) { return 0, errors.New("refused") })
	_, _, err := h.least()
	require.ErrorContains(t, err, "minute 2: refused")
}
