package notice

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
)

func TestAFailureIsLoggedOnceAndWhenItIsOver(t *testing.T) {
	var logged []string
	log := funcr.New(func(_, text string) { logged = append(logged, text) }, funcr.Options{})
	var b Board
	report := func(what, fault string) {
		var err error
		if fault != "" {
			err = errors.New(fault)
		}
		b.Report(log, what, err, "it is tried again")
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
		logged = nil
		report(step.what, step.fault)
		if step.want == "" {
			require.Empty(t, logged, "%v", step)
			continue
		}
		require.Len(t, logged, 1, "%v", step)
		require.Contains(t, logged[0], step.want)
	}
	b.Forget("ns/a ")
	require.Len(t, b.last, 1)
	for i := range 2 * maxFailures {
		require.True(t, b.News(fmt.Sprint("evicting pods of job ", i), "no"))
	}
	require.LessOrEqual(t, len(b.last), maxFailures)
}
