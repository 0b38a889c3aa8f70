package main

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// TestHazard24FlagsThatDoNothingAreReported: UPSTREAM.md Appendix B 24. That the default of --metric-for-pod-labels can work is
// tested with the history it reads.
func TestHazard24FlagsThatDoNothingAreReported(t *testing.T) {
	for _, tt := range []struct {
		args  string
		want  string // empty = nothing
		fails string
	}{
		{args: ""},
		{args: "--storage=checkpoint"},
		{args: "--storage=prometheus"},
		{args: "--storage=promteheus", want: `"--storage has an unknown value; checkpoints are used, as upstream does" "error"=null "given"="promteheus"`},
		{args: "--min-checkpoints=10"},
		{args: "--min-checkpoints=20", want: "--min-checkpoints is ignored"},
		{args: "--update-worker-count=0", fails: "--update-worker-count is 0; it must be at least 1"},
		{args: "--bounds-tolerance=0.01"},
		{args: "--bounds-tolerance=1", fails: `invalid argument "1" for "--bounds-tolerance" flag: it must be a number of at least 0 and less than 1, such as 0.01`},
		{args: "--bounds-tolerance=1%", fails: `invalid argument "1%" for "--bounds-tolerance" flag: it must be a number of at least 0 and less than 1, such as 0.01`},
		{args: "--bounds-tolerance=-0.1", fails: `invalid argument "-0.1" for "--bounds-tolerance" flag: it must be a number of at least 0 and less than 1, such as 0.01`},
		{args: "--target-grace-period=-1s", fails: "--target-grace-period is -1s; it must not be less than 0"},
		{args: "--use-external-metrics", fails: "--use-external-metrics needs --external-metrics-cpu-metric, --external-metrics-memory-metric or both"},
		{args: "--use-external-metrics --external-metrics-cpu-metric=cpu"},
	} {
		o := &options{}
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		o.addRecommender(flags)
		if err := flags.Parse(strings.Fields(tt.args)); err != nil {
			require.EqualError(t, err, tt.fails)
			continue
		}
		var logged []string
		err := o.recommender.check(funcr.New(func(_, text string) { logged = append(logged, text) }, funcr.Options{}))
		if tt.fails != "" {
			require.EqualError(t, err, tt.fails)
			continue
		}
		require.NoError(t, err, tt.args)
		if tt.want == "" {
			require.Empty(t, logged, tt.args)
			continue
		}
		require.Len(t, logged, 1, tt.args)
		require.Contains(t, logged[0], tt.want)
	}
}
