package backtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// epoch is when the worlds of these tests begin.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// world is a cluster with usage.
type world struct {
	t         testing.TB
	manifests []string
	store     *history.Store
	options   Options
}

func newWorld(t testing.TB, manifests ...string) *world {
	store := history.NewStore(history.DefaultMemory, t.TempDir(), nil)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &world{t: t, manifests: manifests, store: store, options: Options{Interval: UpstreamInterval}}
}

// deployment is one with a VPA, whose single container is app.
func deployment(name, mode, requests, limits string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: web}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: app, resources: {requests: %[3]s, limits: %[4]s}}]}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: %[1]s, namespace: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  updatePolicy: {updateMode: "%[2]s", minReplicas: 1}
`, name, mode, requests, limits)
}

// pod names the n-th pod of a deployment.
func pod(deployment string, n int) model.PodID {
	return model.PodID{Namespace: "web", Name: deployment + "-7d9f8b6c5d-" + strings.Repeat(string("bcdfghjklm"[n%10]), 5)}
}

// usage adds samples of container app, at every step for a time.
func (w *world) usage(of model.PodID, begin, length, step time.Duration, cores, bytes func(since time.Duration) float64) *world {
	for at := begin; at <= begin+length; at += step {
		when := epoch.Add(at).UnixNano()
		if cores != nil {
			w.add(usagefile.Series{Pod: of, Container: "app", Kind: usagefile.CPU}, when, int64(cores(at)*1000+0.5))
		}
		if bytes != nil {
			w.add(usagefile.Series{Pod: of, Container: "app", Kind: usagefile.Memory}, when, int64(bytes(at)))
		}
	}
	return w
}

func (w *world) add(of usagefile.Series, at, amount int64) {
	require.NoError(w.t, w.store.Add(of, history.Point{At: at, Amount: amount}))
}

func always(value float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return value }
}

// compiledSets are the rule sets that tests have compiled: most options leave most of them as they are.
var compiledSets compile.Cache

var shippedBook = sync.OnceValue(func() *compile.Rulebook {
	book, err := policy.Load(policy.Options{Cache: &compiledSets})
	if err != nil {
		panic(err)
	}
	return book
})

// with are the shipped rules with parameters, by ruleset.param.
func with(t testing.TB, name string, params ...string) Candidate {
	if len(params) == 0 {
		return Candidate{Name: name, Book: shippedBook()}
	}
	set := map[string]string{}
	for i := 0; i < len(params); i += 2 {
		set[params[i]] = params[i+1]
	}
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Params: set})
	require.NoError(t, err)
	return Candidate{Name: name, Book: book}
}

// run replays the world with candidates, and refuses faults and notes.
func (w *world) run(candidates ...Candidate) *Report {
	w.t.Helper()
	report, notes := w.runNoted(candidates...)
	require.Empty(w.t, notes)
	return report
}

func (w *world) runNoted(candidates ...Candidate) (*Report, []string) {
	w.t.Helper()
	set, err := manifests.Read([]string{manifests.Stdin}, strings.NewReader(strings.Join(w.manifests, "\n---\n")))
	require.NoError(w.t, err)
	cluster, err := simulate.Load(set, shippedBook(), simulate.At(epoch))
	require.NoError(w.t, err)
	require.NoError(w.t, w.store.Seal())
	report, notes, err := Run(context.Background(), cluster, w.store, candidates, w.options)
	require.NoError(w.t, err)
	return report, notes
}

// of is the result of a policy.
func of(t testing.TB, r *Report, name string) *Policy {
	for i := range r.Policies {
		if r.Policies[i].Name == name {
			return &r.Policies[i]
		}
	}
	require.Fail(t, "no policy "+name)
	return nil
}
