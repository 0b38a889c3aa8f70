package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswersAreComparedLineByLine(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want []string }{
		"nothing changes":                       {[]string{"a = 1", "b = 2"}, []string{"a = 1", "b = 2"}, nil},
		"two lines of one field stay":           {[]string{"a = 1", "a = 2"}, []string{"a = 1", "a = 2"}, nil},
		"one of two lines of one field changes": {[]string{"a = 1", "a = 2"}, []string{"a = 1", "a = 3"}, []string{"  a = 2 → 3"}},
		"one of two lines of one field goes":    {[]string{"a = 1", "a = 2"}, []string{"a = 2"}, []string{"  a = 1 → unset"}},
		"a field is new":                        {[]string{"a = 1"}, []string{"a = 1", "b = 2"}, []string{"  b = 2 is new"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, changedLines(c.before, c.after))
		})
	}
}
