package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const (
	folder = ".."
	docs   = "../../../docs"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	files, err := generate([]byte(read(t, filepath.Join(folder, alertsFile))))
	require.NoError(t, err)
	for name, content := range files {
		require.Equal(t, string(content), read(t, filepath.Join(folder, name)), "deploy/monitoring/%s: run `make generate`", name)
	}
	there, err := filepath.Glob(filepath.Join(folder, "dashboards", "*"))
	require.NoError(t, err)
	for _, path := range there {
		require.Contains(t, files, "dashboards/"+filepath.Base(path), "nothing generates it")
	}
}

// A VPA's amounts of resources are in the metrics wherever the API has them.
func TestStateMetricsCoverWhatTheAPIHas(t *testing.T) {
	text, err := stateMetrics()
	require.NoError(t, err)
	for _, name := range []string{
		"spec_updatepolicy_updatemode", "status_condition",
		"spec_resourcepolicy_container_policies_minallowed", "spec_resourcepolicy_container_policies_maxallowed",
		"spec_resourcepolicy_pod_policies_minallowed", "spec_resourcepolicy_pod_policies_maxallowed",
		"status_recommendation_containerrecommendations_target", "status_recommendation_containerrecommendations_lowerbound",
		"status_recommendation_containerrecommendations_upperbound", "status_recommendation_containerrecommendations_uncappedtarget",
		"status_recommendation_podrecommendation_target", "status_recommendation_podrecommendation_lowerbound",
		"status_recommendation_podrecommendation_upperbound", "status_recommendation_podrecommendation_uncappedtarget",
	} {
		require.Regexp(t, `(?m)^\s+name: verticalpodautoscaler_`+name+`$`, string(text))
	}
}

// metricName finds metrics of celvpa and of kube-state-metrics in a query.
var metricName = regexp.MustCompile(`\b(?:vpa|celvpa|kube)_[a-z0-9_]+`)

// metricsOf are the metrics of a query, without labels that look like metrics.
func metricsOf(expr string) []string {
	return slices.DeleteFunc(metricName.FindAllString(expr, -1), func(name string) bool { return name == "vpa_name" || name == "vpa_namespace" })
}

func TestQueriesUseMetricsThatExist(t *testing.T) {
	known := map[string]bool{"kube_pod_created": true} // of kube-state-metrics itself
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(read(t, filepath.Join(docs, "metrics.md")), -1) {
		known[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^\s+name: (verticalpodautoscaler_\w+)$`).FindAllStringSubmatch(read(t, filepath.Join(folder, "kube-state-metrics.yaml")), -1) {
		known["kube_"+m[1]] = true
	}
	require.Greater(t, len(known), 60)
	check := func(where, expr string) {
		for _, name := range metricsOf(expr) {
			histogram := strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")
			require.True(t, known[name] || known[histogram], "%s: there is no metric %s", where, name)
		}
	}
	for _, d := range []dashboard{fleet, oneVPA, policy, health} {
		for _, v := range d.variables {
			check(d.title, v.query)
		}
		for _, r := range d.rows {
			for _, p := range r.panels {
				for _, q := range p.queries {
					check(d.title+" / "+p.title, q.expr)
				}
			}
		}
	}
	for _, a := range alertsIn(t) {
		check(a.Alert, a.Expr)
	}
}

type alert struct {
	Alert, Expr, For string
	Labels           map[string]string
	Annotations      map[string]string
}

func alertsIn(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, filepath.Join(folder, alertsFile))), &file))
	var out []alert
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	require.NotEmpty(t, out)
	return out
}

func TestEachAlertHasARunbookAndTests(t *testing.T) {
	page, tests := read(t, filepath.Join(docs, "monitoring.md")), read(t, filepath.Join(folder, "alerts_test.yaml"))
	for _, a := range alertsIn(t) {
		require.Contains(t, page, "\n### "+a.Alert+"\n", "docs/monitoring.md has no runbook for the alert")
		require.Equal(t, "https://github.com/celvpa/celvpa/blob/main/docs/monitoring.md#"+strings.ToLower(a.Alert), a.Annotations["runbook_url"], a.Alert)
		require.NotEmpty(t, a.Annotations["summary"], a.Alert)
		require.NotEmpty(t, a.Annotations["description"], a.Alert)
		require.Contains(t, []string{"info", "warning", "critical"}, a.Labels["severity"], a.Alert)
		require.NotEmpty(t, a.For, a.Alert)
		require.Regexp(t, `alertname: `+a.Alert+`, eval_time: \w+, exp_alerts: \[\]`, tests, "%s has no test in which it does not fire", a.Alert)
		require.Contains(t, tests, a.Annotations["runbook_url"], "%s has no test in which it fires", a.Alert)
	}
}

// Grafana shows dashboards with panels of the same id or with gaps, but not as they were meant.
func TestDashboardsAreWellFormed(t *testing.T) {
	for _, d := range []dashboard{fleet, oneVPA, policy, health} {
		text, err := d.json()
		require.NoError(t, err)
		var out struct {
			UID    string
			Panels []struct {
				ID      int
				Type    string
				Title   string
				GridPos struct{ X, Y, W, H int }
				Targets []struct{ Expr string }
			}
		}
		require.NoError(t, json.Unmarshal(text, &out))
		require.Equal(t, "celvpa-"+d.name, out.UID)
		ids, cells := map[int]bool{}, map[[2]int]string{}
		variables := map[string]bool{"__rate_interval": true}
		for _, v := range d.variables {
			variables[v.name] = true
		}
		for _, p := range out.Panels {
			require.False(t, ids[p.ID], "%s: panel %q repeats an id", d.title, p.Title)
			ids[p.ID] = true
			require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, gridWidth, p.Title)
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					require.Empty(t, cells[cell], "%s: panels %q and %q overlap", d.title, cells[cell], p.Title)
					cells[cell] = p.Title
				}
			}
			for _, q := range p.Targets {
				for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
					require.True(t, variables[v[1]], "%s: panel %q uses $%s; the dashboard has %v", d.title, p.Title, v[1], slices.Sorted(maps.Keys(variables)))
				}
			}
		}
	}
}
