package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryIsGivenBackWhenWorkIsDone(t *testing.T) {
	const mib = 1 << 20
	var now uint64
	released := 0
	a := &afterWork{allocated: func() uint64 { return now }, release: func() { released++ }}
	for _, step := range []struct {
		allocated uint64
		want      int
		why       string
	}{
		{50 * mib, 0, "starting is work"},
		{51 * mib, 1, "it is quiet, and starting needed much"},
		{52 * mib, 1, "there is nothing to give back"},
		{90 * mib, 1, "a cycle is at work"},
		{130 * mib, 1, "still"},
		{131 * mib, 2, "the cycle is done"},
		{134 * mib, 2, "little comes together …"},
		{137 * mib, 2, "…"},
		{140 * mib, 2, "…"},
		{143 * mib, 2, "…"},
		{146 * mib, 2, "…"},
		{149 * mib, 3, "… until it is worth it"},
	} {
		now = step.allocated
		a.look()
		require.Equal(t, step.want, released, step.why)
	}
}

func TestUsersManageMemoryTheirOwnWay(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for _, own := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(own, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv(own, "80")
			require.Nil(t, saveMemory(usualGrowth))
			require.Equal(t, 100, debug.SetGCPercent(100))
		})
	}
	t.Setenv("GOGC", "")
	require.NotNil(t, saveMemory(usualGrowth))
	require.Equal(t, usualGrowth, debug.SetGCPercent(100))
}
