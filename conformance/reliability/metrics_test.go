package reliability

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// usage is what metrics.k8s.io serves about a pod. Amounts and times are texts, so that they may be absurd.
type usage struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Timestamp  string           `json:"timestamp"`
	Window     string           `json:"window"`
	Containers []containerUsage `json:"containers"`

	app string
}

type containerUsage struct {
	Name  string            `json:"name"`
	Usage map[string]string `json:"usage"`
}

// ofMetrics selects requests for usage.
func ofMetrics(r faults.Request) bool { return r.APIGroup == "metrics.k8s.io" }

// used is the usage of all pods of the scene at a time, by name.
func (s *scene) used(at time.Time) (out []usage) {
	s.witness.mu.Lock()
	defer s.witness.mu.Unlock()
	for name, pod := range s.seen {
		u := usage{Timestamp: at.UTC().Format(time.RFC3339), Window: "15s", app: pod.app,
			Containers: []containerUsage{{"app", map[string]string{"cpu": fmt.Sprintf("%dm", usedMilli), "memory": fmt.Sprint(usedBytes)}}}}
		u.Metadata.Namespace, u.Metadata.Name = s.ns, name
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b usage) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return out
}

// serveUsage makes metrics.k8s.io serve other usage.
func (s *scene) serveUsage(what func() []usage) (end func()) {
	return s.proxy.Rewrite(ofMetrics, func(_ *http.Request, body []byte) []byte {
		var list map[string]any
		if json.Unmarshal(body, &list) != nil || list["kind"] != "PodMetricsList" {
			return body
		}
		list["items"] = what()
		text, err := json.Marshal(list)
		if err != nil {
			return body
		}
		return text
	})
}

// samples is how many samples the recommender has taken with an outcome.
func (s *scene) samples(resource, outcome string) float64 {
	return harness.Metric(s.recommender.Address, fmt.Sprintf(`celvpa_recommender_samples_total{outcome=%q,resource=%q}`, outcome, resource))
}

// TestMetricsThatAreGone for a while, in the midst of a rollout: recommendations stay, and the rollout goes on.
func TestMetricsThatAreGone(t *testing.T) {
	t.Parallel()
	s := newScene(t, "rel-metrics-gone", newProxy(t))
	s.serveUsage(func() []usage { return s.used(time.Now()) })
	s.begin()
	s.haveRecommendations("late") // it has no history to go by
	for i, effect := range []faults.Effect{faults.Answer(503), faults.Answer(404), faults.Hang()} {
		end := s.proxy.Inject(faults.Fault{On: ofMetrics, Share: 1, Effects: []faults.Effect{effect}})
		hang.Eventually(t, "a reading that fails by "+effect.Name, func(context.Context) (bool, error) { return s.proxy.Counts()[effect.Name] > 0, nil })
		if effect.Name == "hang" { // the cycle waits for its answer
			goesOn(t, 3*time.Second)
		} else {
			s.moreCycles(s.recommender, "recommender", 2)
			require.True(t, s.recommender.Says("usage incomplete", "kubectl get apiservice v1beta1.metrics.k8s.io"))
			require.Equal(t, i+1, s.recommender.Count("usage incomplete"), "it is logged once")
			require.Positive(t, harness.Metric(s.recommender.Address, `vpa_recommender_metric_server_responses{client_name="default-metrics-client",is_error="true"}`))
		}
		end()
		before := s.samples("cpu", "accepted")
		hang.Eventually(t, "samples", func(context.Context) (bool, error) { return s.samples("cpu", "accepted") > before, nil })
	}
	s.ends()
	s.losesNothing()
}

// TestMetricsThatStandStill: what is served again is no new sample, and an alert notices. The same values at new times are those of
// pods that use the same all the time.
func TestMetricsThatStandStill(t *testing.T) {
	t.Parallel()
	s := newScene(t, "rel-metrics-frozen", newProxy(t))
	frozen := s.used(time.Now())
	end := s.serveUsage(func() []usage { return frozen })
	s.begin()
	s.haveRecommendations("late")
	s.moreCycles(s.recommender, "recommender", 1)
	cpu, memory := s.samples("cpu", "accepted"), s.samples("memory", "accepted")
	s.moreCycles(s.recommender, "recommender", 2)
	require.Equal(t, []float64{cpu, memory}, []float64{s.samples("cpu", "accepted"), s.samples("memory", "accepted")})
	require.Positive(t, s.samples("cpu", "old"))
	require.Positive(t, s.samples("memory", "old"))
	end()
	s.serveUsage(func() []usage { return s.used(time.Now()) })
	hang.Eventually(t, "samples", func(context.Context) (bool, error) { return s.samples("memory", "accepted") > memory, nil })
	s.ends()
	s.losesNothing()
}

// TestAbsurdMetricsOfOneVPA change neither its recommendation nor that of any other.
func TestAbsurdMetricsOfOneVPA(t *testing.T) {
	t.Parallel()
	s := newScene(t, "rel-metrics-absurd", newProxy(t))
	amounts := func(cpu, memory string) func(*usage) {
		return func(u *usage) { u.Containers[0].Usage = map[string]string{"cpu": cpu, "memory": memory} }
	}
	at := func(when time.Time) func(*usage) {
		return func(u *usage) { u.Timestamp = when.UTC().Format(time.RFC3339) }
	}
	now := time.Now()
	for _, tt := range []struct {
		name     string
		change   func(*usage)
		reported string // by the log, or by the metric of an outcome
	}{
		{"negative", amounts("-1", "-300Mi"), "negative"},
		{"no number", amounts("NaN", "Infinity"), "cannot be read and is left out; the first is pod " + s.ns + "/web-"},
		{"more than any machine has", amounts("9E", "9E"), "implausible"},
		{"of the future", at(now.Add(48 * time.Hour)), "future"},
		{"of 1970", at(time.Unix(0, 0)), "old"},
		{"without a time", func(u *usage) { u.Timestamp = "0001-01-01T00:00:00Z" }, ""},
		{"of a container that there is not", func(u *usage) { u.Containers[0].Name = "ghost" }, "unknown_container"},
		{"twice", func(u *usage) { u.Containers = append(u.Containers, u.Containers...) }, "old"},
		{"without containers", func(u *usage) { u.Containers = nil }, ""},
		{"of a huge window", func(u *usage) { u.Window = "2562047h47m16s" }, ""},
		{"nothing", amounts("0", "0"), ""},
	} {
		before := map[string]float64{}
		outcomes := []string{"negative", "implausible", "future", "old", "unknown_container"}
		for _, o := range outcomes {
			before[o] = s.samples("cpu", o)
		}
		others := s.samples("cpu", "accepted")
		end := s.serveUsage(func() []usage {
			out := s.used(time.Now())
			for i := range out {
				if out[i].app == "web" {
					tt.change(&out[i])
				}
			}
			return out
		})
		s.moreCycles(s.recommender, "recommender", 2)
		require.Greater(t, s.samples("cpu", "accepted"), others, "%s: the usage of others is read", tt.name)
		if slices.Contains(outcomes, tt.reported) {
			require.Greater(t, s.samples("cpu", tt.reported), before[tt.reported], tt.name)
		} else {
			require.True(t, s.recommender.Says(tt.reported), tt.name)
		}
		end()
	}
	s.begin()
	s.ends()
	s.losesNothing()
}
