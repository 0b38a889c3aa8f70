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
	a := &afterWork{allocated: func() uint64 { return now }, release: func() { released++ }, live: func() uint64 { return 0 }}
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

// TestLargeHeapsGrowDifferently: half of three gigabytes is more than the memory that was aimed at, and an updater that collects
// a gigabyte of garbage by fifths works twice as long.
func TestLargeHeapsGrowDifferently(t *testing.T) {
	for growth, want := range map[growth][]int{usualGrowth: {25, 50}, updaterGrowth: {45, 20}} {
		var live uint64
		var grown []int
		a := &afterWork{allocated: func() uint64 { return 0 }, release: func() {}, live: func() uint64 { return live }, growth: growth, percent: growth.small, grow: func(p int) { grown = append(grown, p) }}
		for _, live = range []uint64{1 << 20, growth.from, growth.from + 1, 3 << 30, 1 << 20, 1} {
			a.look()
		}
		require.Equal(t, want, grown)
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
	require.Equal(t, usualGrowth.small, debug.SetGCPercent(100))
}
