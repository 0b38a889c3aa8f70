package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/celvpa/celvpa/simulate"
	"github.com/stretchr/testify/require"
)

// TestExplainShowsHowMemoryIsRemembered: which window counts and whose it is, and what each OOM came to count as (AEP-8026).
func TestExplainShowsHowMemoryIsRemembered(t *testing.T) {
	t.Chdir(t.TempDir())
	policy := "resourcePolicy: {containerPolicies: [{containerName: app, oomBumpUpRatio: 1.5, oomMinBumpUp: 0, memoryAggregationInterval: 12h}]}, "
	require.NoError(t, os.WriteFile("shop.yaml", []byte(strings.Replace(vpaOf("Deployment", "shop"), "spec: {", "spec: {"+policy, 1)+deploymentOf("shop", "app", "quiet")), 0o600))
	usage := minutes(2, "shop-7c5687bd57-659fr", "app", is("0.1"), is("209715200")) +
		"1767225700,web,shop-7c5687bd57-659fr,app,oom,1073741824\n1767225760,web,shop-7c5687bd57-659fr,app,oom,2147483648\n"
	require.NoError(t, os.WriteFile("usage.csv", []byte(usage), 0o600))
	const (
		interval = "memory-window/flags/window rules/memory-window.yaml window.interval unset 24h0m0s set by flags"
		count    = "memory-window/flags/window rules/memory-window.yaml window.count unset 8 set by flags"
		zero     = "memory-window/flags/window rules/memory-window.yaml window.zeroIsPeak unset true set by flags"
		own      = "memory-window/per-vpa/interval rules/memory-window.yaml window.interval 24h0m0s 12h0m0s set by the VPA"
		why      = " usage times the ratio, or usage plus the minimum, whichever is larger"
	)
	for name, tt := range map[string]struct {
		flags string
		want  map[string][]string
	}{
		"as the flags say": {"", map[string][]string{
			"app": {interval, count, zero, "2026-01-01T00:01:40Z oom-bump/bump/raise rules/oom-bump.yaml sample.memory unset 1288490188" + why,
				"2026-01-01T00:02:40Z oom-bump/bump/raise rules/oom-bump.yaml sample.memory unset 2576980377" + why},
			"quiet": {interval, count, zero}}},
		"as the VPA says": {"--feature-gates=PerVPAConfig=true", map[string][]string{
			"app": {interval, count, zero, own, "2026-01-01T00:01:40Z oom-bump/bump/raise rules/oom-bump.yaml sample.memory unset 1536Mi" + why,
				"2026-01-01T00:02:40Z oom-bump/bump/raise rules/oom-bump.yaml sample.memory unset 3Gi" + why},
			"quiet": {interval, count, zero}}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := celvpa(t, append([]string{"recommend", "-f", "shop.yaml", "--usage", "usage.csv", "--explain", "-o", "json"}, strings.Fields(tt.flags)...)...)
			require.NoError(t, err)
			var report simulate.Recommendations
			_, text, found := strings.Cut("\n"+out, "\n{") // after the notes
			require.True(t, found, out)
			require.NoError(t, json.Unmarshal([]byte("{"+text), &report))
			got := map[string][]string{}
			for _, trace := range report.Traces {
				for _, s := range trace.Steps {
					if s.RuleSet != "memory-window" && s.RuleSet != "oom-bump" {
						continue
					}
					at, _, _ := strings.Cut(s.At, ":")
					got[trace.Container] = append(got[trace.Container], strings.TrimSpace(strings.Join([]string{s.Item, s.Path(), at, s.Field, s.From, s.To, s.Reason}, " ")))
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}
