package main

import (
	"cmp"
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
)

func TestTheVersionNamesTheShippedRules(t *testing.T) {
	out, err := celvpa(t, "version", "-o", "json")
	require.NoError(t, err)
	var got buildInfo
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	all, err := load(policy.Options{})
	require.NoError(t, err)
	want := newBuildInfo()
	want.RulesDigest = all.Default().Digest()
	require.Equal(t, want, got)

	out, err = celvpa(t, "version")
	require.NoError(t, err)
	require.Regexp(t, `^Version: +v\d\S+\n(Commit: .*\n)?(Built: .*\n)?Go: +go1\S+\nPlatform: +\w+/\w+\nRules: +`+want.RulesDigest+"\n$", out)
	_, err = celvpa(t, "version", "-o", "xml")
	require.EqualError(t, err, `--output is "xml"; use table, json or yaml`)
}

// TestEveryProgramOfAnImageSaysItsVersion, with the flag that image scanners and people try first.
func TestEveryProgramOfAnImageSaysItsVersion(t *testing.T) {
	for _, command := range []string{"", "run", "recommender", "updater", "admission-controller"} {
		out, err := celvpa(t, append(strings.Fields(command), "--version")...)
		require.NoError(t, err)
		require.Equal(t, cmp.Or(command, "celvpa")+" version "+newBuildInfo().Version+"\n", out)
	}
}

func TestWhatTheLinkerDoesNotSayTheBuildDoes(t *testing.T) {
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"}}
	for name, tt := range map[string]struct {
		linked buildInfo
		main   string
		want   buildInfo
	}{
		"go build":                  {main: "(devel)", want: buildInfo{Commit: "abc-dirty", BuildDate: "2026-01-02T03:04:05Z"}},
		"go install with a version": {main: "v0.3.0", want: buildInfo{Version: "v0.3.0", Commit: "abc-dirty", BuildDate: "2026-01-02T03:04:05Z"}},
		"a release": {linked: buildInfo{Version: "v1.0.0", Commit: "def", BuildDate: "2025-01-01T00:00:00Z"}, main: "v0.3.0",
			want: buildInfo{Version: "v1.0.0", Commit: "def", BuildDate: "2025-01-01T00:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.linked
			got.complete(&debug.BuildInfo{Main: debug.Module{Version: tt.main}, Settings: settings})
			require.Equal(t, tt.want, got)
		})
	}
}

func TestPrometheusSeesTheVersion(t *testing.T) {
	info := newBuildInfo()
	require.InDelta(t, 1, testutil.ToFloat64(buildInfoMetric.WithLabelValues(info.Version, info.Commit, info.GoVersion, info.Platform)), 0)
	require.Equal(t, 1, testutil.CollectAndCount(buildInfoMetric), "one series a process")
}
