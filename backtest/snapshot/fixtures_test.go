package snapshot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/backtest/snapshot"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// cluster has a workload of each kind of names, and all that must not be in a snapshot.
const cluster = `
apiVersion: v1
kind: Secret
metadata: {name: prod-password, namespace: bank}
data: {password: c2VjcmV0}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ledger, namespace: bank, labels: {owner: alice}, annotations: {note: hush, kubectl.kubernetes.io/last-applied-configuration: hush}}
spec:
  replicas: 3
  selector: {matchLabels: {app: ledger}}
  template:
    metadata: {labels: {app: ledger, team: treasury}, annotations: {secret-note: hush}}
    spec:
      serviceAccountName: treasurer
      containers:
      - name: books
        image: registry.bank.example/ledger:7
        command: [ledger, --secret]
        env: [{name: PASSWORD, value: hush}]
        resources: {requests: {cpu: "2", memory: 1Gi}, limits: {memory: 1Gi}}
      - {name: envoy-proxy, resources: {requests: {cpu: 100m, memory: 128Mi}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ledger-db, namespace: bank}
spec:
  serviceName: ledger-db
  selector: {matchLabels: {app: ledger-db}}
  template:
    metadata: {labels: {app: ledger-db}}
    spec: {containers: [{name: postgres, resources: {requests: {cpu: 500m, memory: 512Mi}}}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly-interest, namespace: bank}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {template: {spec: {containers: [{name: interest, resources: {requests: {cpu: 1, memory: 256Mi}}}]}}}}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: ledger-vpa, namespace: bank, labels: {tier: gold}, annotations: {vpa-post-processor.kubernetes.io/books_integerCPU: "true", hush: hush}}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: ledger}
  updatePolicy: {updateMode: Recreate, minReplicas: 1}
  resourcePolicy: {containerPolicies: [{containerName: envoy-proxy, mode: "Off"}, {containerName: "*", minAllowed: {cpu: 50m}}]}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: ledger-db, namespace: bank}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: ledger-db}
  updatePolicy: {updateMode: Recreate, minReplicas: 1}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: nightly, namespace: bank}
spec: {targetRef: {apiVersion: batch/v1, kind: CronJob, name: nightly-interest}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: ledger-pdb, namespace: bank}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: ledger}}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: bank-limits, namespace: bank}
spec: {limits: [{type: Container, max: {cpu: "4", memory: 4Gi}}]}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: gold-margin}
spec:
  description: what alice asked for
  match: {namespaces: [bank], vpaSelector: {matchLabels: {tier: gold}}}
  change: [{params: {estimate.marginFraction: 0.4}}]
`

// private are the words that an anonymised snapshot must not hold.
var private = regexp.MustCompile(`(?i)ledger|bank|books|envoy|treasur|nightly|interest|postgres|alice|hush|secret|password|registry|gold|owner|tier`)

// usage is that of a day, with a spike that makes a container exceed its limit.
func usage() string {
	var out strings.Builder
	out.WriteString("timestamp,namespace,pod,container,resource,value\n")
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 26 * 12 {
		at := begin.Add(time.Duration(i) * 5 * time.Minute).Format(time.RFC3339)
		row := func(pod, container string, milli, mega int) {
			fmt.Fprintf(&out, "%s,bank,%s,%s,cpu,0.%03d\n%s,bank,%s,%s,memory,%d\n", at, pod, container, milli, at, pod, container, mega<<20)
		}
		for n, end := range []string{"659fr", "x2x7p", "bcdfg"} {
			spike := 0
			if i > 200 && i%50 < 3 {
				spike = 900
			}
			row("ledger-7c5687bd57-"+end, "books", 150+(i*7+n*31)%97, 300+i%60+spike)
			row("ledger-7c5687bd57-"+end, "envoy-proxy", 10, 40)
		}
		row("ledger-db-0", "postgres", 300+i%40, 700)
		if i%288 < 6 {
			row(fmt.Sprintf("nightly-interest-2945%04d-%s", i/288, []string{"q4k8z", "w5t7r"}[i/288]), "interest", 700, 100)
		}
	}
	return out.String()
}

func write(t *testing.T, o snapshot.Options) string {
	t.Helper()
	folder := t.TempDir()
	csv := filepath.Join(folder, "usage.csv")
	require.NoError(t, os.WriteFile(csv, []byte(usage()), 0o600))
	set, err := manifests.ReadFrom(strings.NewReader(cluster), "cluster.yaml")
	require.NoError(t, err)
	path := filepath.Join(folder, "bank.tar.gz")
	out, err := os.Create(path)
	require.NoError(t, err)
	r, complete, err := snapshot.Write(t.Context(), out, set, []history.Source{history.Files{Paths: []string{csv}}}, o)
	require.NoError(t, err)
	require.True(t, complete)
	require.NoError(t, out.Close())
	require.Equal(t, 9, r.Objects, "all but the Secret")
	require.EqualValues(t, strings.Count(usage(), "\n")-1, r.Points)
	return path
}

// result is what the shipped rules would have done.
func result(t *testing.T, set *manifests.Set, source history.Source) (*backtest.Report, []string) {
	t.Helper()
	store := history.NewStore(history.DefaultMemory, t.TempDir(), nil)
	defer func() { require.NoError(t, store.Close()) }()
	require.NoError(t, source.Read(t.Context(), store))
	require.Empty(t, store.Notes())
	require.NoError(t, store.Seal())
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	c, err := simulate.Load(set, book, simulate.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	require.NoError(t, err)
	overlays, err := set.RuleOverlays()
	require.NoError(t, err)
	book, err = policy.WithOverlays(book, overlays)
	require.NoError(t, err)
	r, notes, err := backtest.Run(context.Background(), c, store, []backtest.Candidate{{Name: backtest.Shipped, Book: book, HalfLives: model.DefaultSettings()}}, backtest.Options{Interval: backtest.UpstreamInterval, Points: 50})
	require.NoError(t, err)
	return r, notes
}

func opened(t *testing.T, path string) *snapshot.File {
	t.Helper()
	f, ok, err := snapshot.Open(path)
	require.NoError(t, err)
	require.True(t, ok)
	return f
}

func direct(t *testing.T) (*backtest.Report, []string) {
	csv := filepath.Join(t.TempDir(), "usage.csv")
	require.NoError(t, os.WriteFile(csv, []byte(usage()), 0o600))
	set, err := manifests.ReadFrom(strings.NewReader(cluster), "cluster.yaml")
	require.NoError(t, err)
	return result(t, set, history.Files{Paths: []string{csv}})
}

func text(t *testing.T, value any) string {
	out, err := json.MarshalIndent(value, "", " ")
	require.NoError(t, err)
	return string(out)
}
