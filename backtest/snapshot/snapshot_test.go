package snapshot_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/backtest/snapshot"
	"github.com/celvpa/celvpa/simulate/manifests"
)

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

// TestASnapshotOfASnapshotLacksWhatThatLacks: an anonymised one has no notes, and seemed to be complete.
func TestASnapshotOfASnapshotLacksWhatThatLacks(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, os.WriteFile(path("usage.csv"), []byte(usage()), 0o600))
	written := func(name string, source history.Source, o snapshot.Options) *snapshot.File {
		var out bytes.Buffer
		_, complete, _ := snapshot.Write(t.Context(), &out, &manifests.Set{}, []history.Source{source}, o)
		require.True(t, complete)
		require.NoError(t, os.WriteFile(path(name), out.Bytes(), 0o600))
		return opened(t, path(name))
	}
	lacking := written("lacking", failing{history.Files{Paths: []string{path("usage.csv")}}}, snapshot.Options{})
	for name, row := range map[string]struct {
		continued bool
		want      []string
	}{
		"another":   {want: []string{"snapshot " + path("another") + " lacks what could not be read when it was made: faults: 1"}},
		"continued": {continued: true},
	} {
		from := *lacking
		from.Continued = row.continued
		store := history.NewStore(history.DefaultMemory, folder, nil)
		require.NoError(t, written(name, &from, snapshot.Options{Salt: []byte("a salt of sixteen")}).Read(t.Context(), store))
		require.Equal(t, row.want, store.Notes())
		require.NoError(t, store.Close())
	}
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
