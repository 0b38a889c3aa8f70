// Package monitoring tests what deploy/monitoring and deploy/argocd hold with the real programs that read it: Prometheus,
// promtool and kube-state-metrics, on a lab with celvpa, and the Lua of Argo CD.
package monitoring

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/conformance/hang"
)

const ns = "monitoring"

// TestMonitoringOfALab: while celvpa works, each panel of each dashboard shows something, alerts can be evaluated and two of them
// see what is wrong, and kube-state-metrics shows what VPAs have.
func TestMonitoringOfALab(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a lab: make test-lab")
	}
	s := newStage(t)
	require.NoError(t, s.cluster.ApplyFiles(t.Context(), filepath.Join("testdata", "workload.yaml")))
	require.Error(t, s.cluster.ApplyFiles(t.Context(), filepath.Join("testdata", "refused.yaml")))
	t.Run("dashboards", s.dashboardsShowData)
	t.Run("alerts", s.alertsAreEvaluated)
	t.Run("kube-state-metrics", s.stateMetricsAreWhatVPAsHave)
}

func (s *stage) dashboardsShowData(t *testing.T) {
	missing := queries(t)
	require.Greater(t, len(missing), 50)
	var last map[string]string
	for i, deadline := 0, time.Now().Add(hang.Limit); len(missing) > 0; i++ {
		last = map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(missing)) {
			if problem := s.noData(t, missing[name]); problem != "" {
				last[name] = problem
			} else {
				delete(missing, name)
			}
		}
		if time.Now().After(deadline) {
			break
		}
		s.createPod(t, i) // reviews go on
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		t.Errorf("%s shows nothing: %s", name, last[name])
	}
}

// createPod creates one more pod for the webhook to review.
func (s *stage) createPod(t *testing.T, i int) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("alone-%d", i)}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10"}}
	require.NoError(t, s.cluster.Create(t.Context(), pod))
}

// labelValues is a query of a variable.
var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

// noData says why a query shows nothing; empty when it shows something.
func (s *stage) noData(t *testing.T, query string) string {
	if m := labelValues.FindStringSubmatch(query); m != nil {
		values, _, _, err := s.prometheus.LabelValues(t.Context(), m[2], []string{m[1]}, time.Now().Add(-time.Minute), time.Now())
		require.NoError(t, err, query)
		if len(values) == 0 {
			return query + ": no values"
		}
		return ""
	}
	value, _, _, err := s.prometheus.Query(t.Context(), query, time.Now())
	require.NoError(t, err, query)
	vector, ok := value.(model.Vector)
	require.True(t, ok, "%s is a %s", query, value.Type())
	if !slices.ContainsFunc(vector, func(sample *model.Sample) bool { return !math.IsNaN(float64(sample.Value)) }) {
		return fmt.Sprintf("%s: %d series, none with a number", query, len(vector))
	}
	return ""
}

// queries are those of all dashboards with variables replaced, by where they are.
func queries(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository(t), "deploy", "monitoring", "dashboards", "*.json"))
	require.NoError(t, err)
	replace := strings.NewReplacer("$__rate_interval", (20 * scrapeEvery).String(), "$namespace", ns, "$vpa", "web")
	out := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var d struct {
			Title  string
			Panels []struct {
				Title   string
				Targets []struct{ RefID, Expr string }
			}
			Templating struct {
				List []struct {
					Name, Type string
					Query      json.RawMessage
				}
			}
		}
		require.NoError(t, json.Unmarshal(text, &d))
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				out[d.Title+" / "+p.Title+" "+q.RefID] = replace.Replace(q.Expr)
			}
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				var q struct{ Query string }
				require.NoError(t, json.Unmarshal(v.Query, &q))
				out[d.Title+" / $"+v.Name] = replace.Replace(q.Query)
			}
		}
	}
	return out
}

// ofABusyMachine are alerts that notice what a machine is too busy for, with scrapes and cycles of a second or two. None fires in the time
// of the test.
var ofABusyMachine = []string{"CelvpaComponentAbsent", "CelvpaWebhookUnreachable", "CelvpaStatusLeaseExpired", "CelvpaWritesPostponed", "CelvpaSamplesStalled"}

func (s *stage) alertsAreEvaluated(t *testing.T) {
	var states map[string]string
	require.Eventually(t, func() bool {
		result, err := s.prometheus.Rules(t.Context(), nil)
		require.NoError(t, err)
		states = map[string]string{}
		for _, group := range result.Groups {
			for _, rule := range group.Rules {
				alert, ok := rule.(promv1.AlertingRule)
				require.True(t, ok)
				states[alert.Name] = alert.State
				if alert.Health != promv1.RuleHealthGood {
					states[alert.Name] = string(alert.Health) + " " + alert.LastError
				}
			}
		}
		return states["CelvpaOverlayRejected"] == "pending" && states["CelvpaTargetCapped"] == "pending"
	}, hang.Limit, time.Second, "overlay typo is rejected, and container app of web is capped: %v", &states)
	for name, state := range states {
		switch {
		case name == "CelvpaOverlayRejected" || name == "CelvpaTargetCapped":
		case state == "pending" && slices.Contains(ofABusyMachine, name):
			t.Logf("%s is pending, as on a busy machine", name)
		default:
			require.Equal(t, "inactive", state, name)
		}
	}
}
