package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJoinPrintsOneErrorPerLine(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	require.NoError(t, Join())
	require.NoError(t, Join(nil, Join(nil)))
	all := Join(a, nil, Join(b, Join(c)))
	require.EqualError(t, all, "a\nb\nc")
	require.Equal(t, []error{a, b, c}, List(all))
	require.ErrorIs(t, all, c)
}

func TestListKeepsWrappedErrorsWhole(t *testing.T) {
	wrapped := fmt.Errorf("reading: %w", Join(errors.New("a"), errors.New("b")))
	require.Equal(t, []error{wrapped}, List(wrapped))
	require.EqualError(t, Join(wrapped, errors.New("c")), "reading: a\nb\nc")
	require.Nil(t, List(nil))
}

func TestHasNamesWhatIsAlike(t *testing.T) {
	many := []string{"estimate.marginFraction", "estimate.minSamples", "oom-bump.ratio", "oom-bump.minBump", "most.cpu", "most.memory"}
	for i := range fewNames {
		many = append(many, fmt.Sprintf("other.%d", i))
	}
	for unknown, want := range map[string]string{
		"estimate.marginFractoin": "did you mean estimate.marginFraction?",
		"marginFraction":          "did you mean estimate.marginFraction?",
		"oom-bump.ratios":         "did you mean oom-bump.ratio?",
		"oom-bump.hysteresis":     "of oom-bump it has oom-bump.ratio, oom-bump.minBump",
		"most.cpuu":               "did you mean most.cpu?",
		"safetyMargin":            "did you mean estimate.marginFraction?",
		"min-samples-needed":      "did you mean estimate.minSamples?",
		"cpu":                     "did you mean most.cpu?",
	} {
		require.Equal(t, want, Has(unknown, many))
	}
	for _, unknown := range []string{"", "zzz", ".", "no.thing", strings.Repeat("most-cpu", 1<<20)} {
		require.Contains(t, Has(unknown, many), "it has estimate.marginFraction, estimate.minSamples, ")
	}
	flags := make([]string, len(many))
	flags[2] = "oom-bump-up-factor"
	require.Equal(t, "did you mean oom-bump.ratio?", Has("oom-bump-up-factor", many, flags...))
	require.Equal(t, "did you mean oom-bump.ratio?", Has("factor", many, flags...))
	require.Equal(t, "it has ad, many", Has("add", []string{"ad", "many"}), "few are all listed")
}
