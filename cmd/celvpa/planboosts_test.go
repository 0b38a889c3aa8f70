package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/simulate"
)

// Regression: the plan asked the VPA that controls running pods, or the first of those that leave them alone, when a startup
// boost ends. The updater asks one that admission uses, whatever its update mode, and without the pipeline that it pins, too.
func TestPlannedBoostsEndByTheVPAThatEndsThemInAClusterToo(t *testing.T) {
	const (
		boost60 = "startupBoost: {cpu: {type: Factor, factor: '2', durationSeconds: 60}}, "
	)
	vpa := func(name, hour, mode, boost string) string {
		text := strings.Replace(inMode(mode, "StatefulSet", "shop"), "name: shop, namespace: web}", "name: "+name+", namespace: web, creationTimestamp: '2026-01-31T"+hour+":00:00Z'}", 1)
		return strings.Replace(text, "spec: {", "spec: {"+strings.Replace(boost, "'2'", "2", 1), 1)
	}
	pod := func(name, ready string) string {
		return running(name, "shop", "StatefulSet", "shop", ", annotations: {vpaCpuStartupBoost/app: '{\"requests\":{\"cpu\":\"50m\"}}'}", "", ", conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-01-31T"+ready+"Z'}]")
	}
	justReady := sized("StatefulSet", "", "shop", 1) + pod("a", "11:59:30")
	for name, tt := range map[string]struct {
		text string
		rows []string
	}{
		"an older one in mode Off is ignored":               {vpa("old", "01", "Off", "") + vpa("young", "02", "Initial", boost60) + justReady, []string{"a young Wait unboost/not-over"}},
		"unless it boosts":                                  {vpa("old", "01", "Off", boost60) + vpa("young", "02", "Initial", "") + justReady, []string{"a old Wait unboost/not-over"}},
		"an older one in mode Initial is not":               {vpa("old", "01", "Initial", "") + vpa("young", "02", "Recreate", boost60) + justReady, []string{"a old InPlace unboost/boost-over-cpu-first"}},
		"without one that changes new pods, any ends it":    {vpa("old", "01", "Off", "") + justReady, []string{"a old InPlace unboost/boost-over"}},
		"without the pinned pipeline, the default rules do": {strings.Replace(vpa("old", "01", "Recreate", boost60), "namespace: web,", "namespace: web, annotations: {rules.celvpa.dev/pipeline: gone},", 1) + sized("StatefulSet", "", "shop", 3) + pod("a", "11:30:00") + pod("b", "11:59:30") + running("c", "shop", "StatefulSet", "shop"), []string{"a old InPlace unboost/boost-over-cpu-first", "b old Wait unboost/not-over", "c old Skip"}},
	} {
		t.Run(name, func(t *testing.T) {
			report, notes, err := plannedFrom(t, true, tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.rows, rows(report), notes)
		})
	}
}

// Regression: why a boost cannot end was in the rules, and nobody saw it. An update that is due ends it, too.
func TestBoostsThatCannotEndAreReported(t *testing.T) {
	const cannot = "---\n{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: o}, spec: {mode: Enforce, change: [{params: {resizesPodLevel: false}}]}}\n"
	pod := func(name string) string {
		return strings.Replace(running(name, "shop", "StatefulSet", "shop", ", annotations: {vpaCpuStartupBoost/app: '{\"requests\":{\"cpu\":\"50m\"}}'}", "", ", conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-01-31T11:00:00Z'}]"),
			"nodeName: node, ", "nodeName: node, resources: {requests: {cpu: 1}}, ", 1)
	}
	two := sized("StatefulSet", "", "shop", 2) + pod("a") + pod("b")
	for name, tt := range map[string]struct {
		text string
		rows []string
	}{
		"the mode leaves the pods alone":    {inMode("Off", "StatefulSet", "shop"), []string{"a shop Skip unboost/not-resizable", "b shop Skip unboost/not-resizable"}},
		"they would be updated":             {inMode("Recreate", "StatefulSet", "shop"), []string{"a shop Evict update/evict", "b shop Wait update/budget-spent"}},
		"somebody has to do something else": {strings.Replace(inMode("Recreate", "StatefulSet", "shop"), "updateMode", "minReplicas: 3, updateMode", 1), []string{"a shop Skip eligibility/too-few-replicas", "b shop Skip eligibility/too-few-replicas"}},
	} {
		t.Run(name, func(t *testing.T) {
			report, notes, err := plannedFrom(t, true, tt.text+two+cannot)
			require.NoError(t, err)
			require.Equal(t, tt.rows, rows(report), notes)
		})
	}
}

// Regression: with --max-allowed-cpu-boost, a forged annotation gave pods that have what the flag allows any CPU.
func TestAPlannedBoostEndsWithNoMoreThanThePodTemplateHas(t *testing.T) {
	pod := strings.Replace(running("a", "shop", "ReplicaSet", "shop-75675f5897", ", annotations: {vpaCpuStartupBoost/app: '{\"requests\":{\"cpu\":\"50\"},\"limits\":{}}'}", "",
		", conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-01-31T11:00:00Z'}]"), "cpu: 100m", "cpu: 2", 1)
	vpa := strings.Replace(vpaOf("Deployment", "shop"), "spec: {", "spec: {updatePolicy: {updateMode: InPlace}, ", 1)
	for name, tt := range map[string]struct{ resources, want string }{
		"without a request": {"{}", ""},
		"with a lower one":  {"{requests: {cpu: 1}}", ""},
		"with a higher one": {"{requests: {cpu: 4}}", "container app: requests.cpu 2 → 4"},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := strings.Replace(sized("Deployment", "", "shop", 1), "[{name: app}]", "[{name: app, resources: "+tt.resources+"}]", 1)
			require.Contains(t, deployment, tt.resources)
			out, stderr, err := run(vpa+deployment+pod, "plan", "-f", "-", "-o", "json", "--now", planNow, "--feature-gates=CPUStartupBoost=true,InPlace=true", "--max-allowed-cpu-boost=2")
			require.NoError(t, err, stderr)
			var report simulate.Plan
			require.NoError(t, json.Unmarshal([]byte(out), &report))
			require.Len(t, report.Items, 1)
			require.Equal(t, "unboost/boost-over", report.Items[0].Rule)
			var changes []string
			for _, c := range report.Items[0].Change {
				changes = append(changes, c.String())
			}
			require.Equal(t, tt.want, strings.Join(changes, "; "))
		})
	}
}
