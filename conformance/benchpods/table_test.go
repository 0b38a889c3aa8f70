package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/harness"
)

func TestNothingIsJudgedWhereAServerDidNotHaveItsCore(t *testing.T) {
	of := func(ours bool, perSecond float64, p99 time.Duration, core float64) result {
		s := shot{perSecond: perSecond, p99: p99, server: core, rss: []uint64{1}}
		return result{Program: harness.Program{Name: "x", Ours: ours}, overHTTP1: s, overHTTP2: s, rss: s.rss, peak: 1}
	}
	b := &bench{cores: cores{own: 1}}
	for _, c := range []struct {
		ours, core float64
		want       string
		times      int
	}{{200, 1, " met", 4}, {100, 1, "MISSED", 2}, {200, 0.3, "not judged", 4}} {
		var out strings.Builder
		b.print(&out, []result{of(false, 100, 20, 1), of(true, c.ours, 10, c.core)}, "")
		require.Equal(t, c.times, strings.Count(out.String(), c.want), out.String())
	}
}
