package snapshot_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

func TestASnapshotGivesTheResultOfItsSources(t *testing.T) {
	f := opened(t, write(t, snapshot.Options{}))
	require.False(t, f.Head.Anonymised)
	set, err := f.Manifests()
	require.NoError(t, err)
	want, _ := direct(t)
	got, _ := result(t, set, f)
	require.Equal(t, text(t, want), text(t, got))
	shipped := want.Policies[len(want.Policies)-1].Fleet
	require.Positive(t, shipped.Evictions, "the rules did something")
	require.Positive(t, shipped.OOMs, "containers exceeded their limits")
	require.Equal(t, 3, shipped.Workloads)
}

// nameless is a report without names and what their order changes.
func nameless(t *testing.T, r *backtest.Report) string {
	var out []string
	for _, p := range r.Policies {
		for _, c := range p.Containers {
			c.Namespace, c.Workload, c.Container = "", "", ""
			if c.Series != nil {
				series := *c.Series
				series.Events = slices.Clone(series.Events)
				for i := range series.Events {
					series.Events[i].Pod, series.Events[i].Reason = "", ""
				}
				c.Series = &series
			}
			out = append(out, p.Name+" "+text(t, c))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func TestAnAnonymisedSnapshotGivesTheSameNumbers(t *testing.T) {
	f := opened(t, write(t, snapshot.Options{Salt: []byte("a")}))
	require.True(t, f.Head.Anonymised)
	set, err := f.Manifests()
	require.NoError(t, err)
	want, _ := direct(t)
	got, notes := result(t, set, f)
	require.Equal(t, nameless(t, want), nameless(t, got))
	require.Empty(t, private.FindString(strings.Join(notes, "\n")))
}

// unpacked are the files of a snapshot.
func unpacked(t *testing.T, path string) (all []string, files map[string]string) {
	t.Helper()
	in, err := os.Open(path)
	require.NoError(t, err)
	defer in.Close()
	plain, err := gzip.NewReader(in)
	require.NoError(t, err)
	files = map[string]string{}
	for archive := tar.NewReader(plain); ; {
		one, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all, files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		all, files[one.Name] = append(all, one.Name), string(text)
	}
}

func TestWhatIsPrivateIsNotInASnapshot(t *testing.T) {
	all, files := unpacked(t, write(t, snapshot.Options{}))
	require.Equal(t, []string{"snapshot.json", "manifests.yaml", "usage-00001.csv", "end.json"}, all)
	require.NotRegexp(t, `(?i)hush|secret|registry|treasurer|alice.*asked`, strings.ReplaceAll(files["manifests.yaml"], "description: what alice asked for", ""), "environments, images, annotations and commands are dropped, whether names are or not")
	require.Contains(t, files["manifests.yaml"], "vpa-post-processor.kubernetes.io/books_integerCPU")
	require.Contains(t, files["usage-00001.csv"], "1767225600,bank,ledger-7c5687bd57-659fr,books,cpu,0.15\n")

	_, files = unpacked(t, write(t, snapshot.Options{Salt: []byte("a")}))
	for name, text := range files {
		require.Empty(t, private.FindString(text), "in %s: %s", name, text[:min(len(text), 8000)])
	}
	require.Contains(t, files["manifests.yaml"], "estimate.marginFraction: 0.4", "rules stay")
	require.NotContains(t, files["manifests.yaml"], "team", "labels that nothing selects by are dropped")
}

func TestNamesDependOnTheSalt(t *testing.T) {
	bytesOf := func(o snapshot.Options) []byte {
		text, err := os.ReadFile(write(t, o))
		require.NoError(t, err)
		return text
	}
	require.True(t, bytes.Equal(bytesOf(snapshot.Options{}), bytesOf(snapshot.Options{})), "the same input makes the same bytes")
	a := bytesOf(snapshot.Options{Salt: []byte("a")})
	require.True(t, bytes.Equal(a, bytesOf(snapshot.Options{Salt: []byte("a")})))
	require.False(t, bytes.Equal(a, bytesOf(snapshot.Options{Salt: []byte("b")})))
}

// failing is a source that ends early.
type failing struct{ history.Source }

func (f failing) Read(ctx context.Context, to history.Sink) error {
	_ = f.Source.Read(ctx, to)
	to.Note("bank had a bad day")
	return errors.New("the server went away")
}

func TestASnapshotOfWhatCouldBeReadSaysSo(t *testing.T) {
	csv := filepath.Join(t.TempDir(), "usage.csv")
	require.NoError(t, os.WriteFile(csv, []byte(usage()), 0o600))
	path := filepath.Join(t.TempDir(), "x")
	var out bytes.Buffer
	_, complete, err := snapshot.Write(t.Context(), &out, &manifests.Set{}, []history.Source{failing{history.Files{Paths: []string{csv}}}}, snapshot.Options{})
	require.EqualError(t, err, "the server went away")
	require.True(t, complete)
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	store := history.NewStore(history.DefaultMemory, t.TempDir(), nil)
	require.NoError(t, opened(t, path).Read(t.Context(), store))
	require.Equal(t, []string{"bank had a bad day", "snapshot " + path + " lacks what could not be read when it was made: faults: 1"}, store.Notes())
	require.NoError(t, store.Close())
}

func TestFilesThatAreNoWholeSnapshot(t *testing.T) {
	good, err := os.ReadFile(write(t, snapshot.Options{}))
	require.NoError(t, err)
	file := func(text []byte) string {
		path := filepath.Join(t.TempDir(), "x")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	packed := func(files ...string) []byte {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		archive := tar.NewWriter(zip)
		for i := 0; i < len(files); i += 2 {
			require.NoError(t, archive.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o600}))
			_, _ = archive.Write([]byte(files[i+1]))
		}
		require.NoError(t, archive.Close())
		require.NoError(t, zip.Close())
		return out.Bytes()
	}
	for name, text := range map[string][]byte{"CSV": []byte(usage()), "nothing": nil, "gzip of something else": packed()[:20], "another archive": packed("a.txt", "a")} {
		_, ok, err := snapshot.Open(file(text))
		require.NoError(t, err, name)
		require.False(t, ok, name)
	}
	_, ok, err := snapshot.Open("/nowhere")
	require.NoError(t, err)
	require.False(t, ok)
	for want, text := range map[string][]byte{
		"it has format 2, and this celvpa reads up to 1: use a later one": packed("snapshot.json", `{"celvpaSnapshot":2}`),
		"snapshot.json has no version":                                    packed("snapshot.json", `{}`),
		"invalid character":                                               packed("snapshot.json", `no`),
	} {
		_, ok, err := snapshot.Open(file(text))
		require.True(t, ok)
		require.ErrorContains(t, err, want)
	}
	for want, text := range map[string][]byte{
		"the file ends early: it was cut, or is still being written":      good[:len(good)/2],
		"it has no end.json: making it was interrupted; make it anew":     packed("snapshot.json", `{"celvpaSnapshot":1}`),
		"end.json says that there are 2 points of usage, and there are 0": packed("snapshot.json", `{"celvpaSnapshot":1}`, "end.json", `{"points":2}`),
	} {
		store := history.NewStore(history.DefaultMemory, t.TempDir(), nil)
		require.ErrorContains(t, opened(t, file(text)).Read(t.Context(), store), want)
		require.NoError(t, store.Close())
	}
	_, err = opened(t, file(packed("snapshot.json", `{"celvpaSnapshot":1}`))).Manifests()
	require.ErrorContains(t, err, "it has no manifests.yaml")
}

func TestObjectsOverASnapshotReplaceItsOwn(t *testing.T) {
	of := func(text string) *manifests.Set {
		set, err := manifests.ReadFrom(strings.NewReader(text), "x")
		require.NoError(t, err)
		return set
	}
	out := snapshot.Over(of("{apiVersion: v1, kind: A, metadata: {name: a}, spec: 1}\n---\n{apiVersion: v1, kind: A, metadata: {name: b}}"), of("{apiVersion: v1, kind: A, metadata: {name: a}, spec: 2}"))
	require.Len(t, out.Documents, 2)
	require.Contains(t, string(out.Documents[1].JSON), `"spec":2`)
}
