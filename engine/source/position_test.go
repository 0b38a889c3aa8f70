package source

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// A generated file may be one line of a MiB, and each fault showed all of it.
func TestExcerptOfALongLineShowsWhatIsAroundTheCaret(t *testing.T) {
	line := strings.Repeat("ä ", 5000) + "fault" + strings.Repeat(" ö", 5000)
	for _, tt := range []struct {
		name       string
		col        int
		begin, end string
	}{
		{"in the middle", 10_001, "  | … ", " …"},
		{"at the beginning", 1, "  | ä ä", " …"},
		{"at the end", 20_005, "  | … ", " ö"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shown, caret, _ := strings.Cut(Excerpt([]string{line}, Position{Line: 1, Col: tt.col}), "\n")
			require.Less(t, utf8.RuneCountInString(shown), 250)
			require.True(t, strings.HasPrefix(shown, tt.begin), shown)
			require.True(t, strings.HasSuffix(shown, tt.end), shown)
			at := utf8.RuneCountInString(strings.TrimSuffix(caret, "^"))
			require.Equal(t, []rune(line)[tt.col-1], []rune(shown)[at])
		})
	}
	require.Equal(t, "  | a: b\n  |    ^", Excerpt([]string{"a: b"}, Position{Line: 1, Col: 4}), "a short line is whole")
}

// Each character of an expression read its whole line again: a fault at the end of 16 KB took 0.2 s.
func TestFaultInALongLineIsFoundInOneWalk(t *testing.T) {
	value := strings.Repeat("ab ", 5000) + "fault"
	s := NewScalar(value, Position{File: "f", Line: 1, Col: 5}, yaml.DoubleQuotedStyle, []string{`{a: "` + value + `"}`})
	require.Equal(t, Position{File: "f", Line: 1, Col: 15_006}, s.At(1, 15_000))
	require.Less(t, testing.AllocsPerRun(1, func() { s.At(1, 15_000) }), 5.0)
}
