package notice

import (
	"errors"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
)

func TestWhatGoesWrongIsToldOnceAndWhenItIsOver(t *testing.T) {
	var told []string
	log := funcr.New(func(_, text string) { told = append(told, text) }, funcr.Options{})
	var b Board
	tell := func(what, fault string) {
		var err error
		if fault != "" {
			err = errors.New(fault)
		}
		b.Tell(log, what, err, "it is tried again")
	}
	for _, step := range []struct {
		what, fault string
		want        string // in the notice; empty = no notice
	}{
		{"ns/a status", "", ""},
		{"ns/a status", "dial tcp 10.0.0.1:4711: refused", "4711"},
		{"ns/a status", "dial tcp 10.0.0.1:4712: refused", ""},
		{"ns/b status", "dial tcp 10.0.0.1:4712: refused", "4712"},
		{"ns/a status", "forbidden", "forbidden"},
		{"ns/a status", "", `"recovered" "doing"="ns/a status"`},
		{"ns/a status", "", ""},
		{"ns/a status", "forbidden", "forbidden"},
	} {
		told = nil
		tell(step.what, step.fault)
		if step.want == "" {
			require.Empty(t, told, "%v", step)
			continue
		}
		require.Len(t, told, 1, "%v", step)
		require.Contains(t, told[0], step.want)
	}
	b.Forget("ns/a ")
	require.Len(t, b.last, 1)
}
