package snapshot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/json" // keeps integers
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// pieceBytes is how much text of usage is held before it is written.
const pieceBytes = 4 << 20

// Options say how a snapshot is made.
type Options struct {
	// Salt is what other names are made with; nil = names stay. Two snapshots with the same one have
	// the same names. It is not written.
	Salt []byte
	// Watch, if set, receives how much of a source has been read, in units of its own.
	Watch func(done, of int64)
}

// Result says what is in a snapshot.
type Result struct {
	Objects int
	Points  int64
	Notes   []string
}

// Write writes what a backtest needs of objects, and all usage that sources give. Memory is bounded:
// usage is written as it comes. The error lists what could not be read, such as what came after the
// end of the context; the snapshot has the rest.
// If complete is false, the snapshot itself could not be written.
func Write(ctx context.Context, to io.Writer, set *manifests.Set, sources []history.Source, o Options) (r Result, complete bool, err error) {
	packed := gzip.NewWriter(to)
	w := &writer{tar: tar.NewWriter(packed), watch: o.Watch}
	documents := chosen(set)
	r.Objects = len(documents)
	var unread error
	if o.Salt != nil {
		w.names, unread = newNames(o.Salt, set)
	}
	text, unreadable := w.manifests(documents)
	w.json(headName, Head{Version: Version, Anonymised: o.Salt != nil})
	w.file(manifestsName, text)
	errs := []error{unread, unreadable}
	inherited := 0
	for _, source := range sources {
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
		err := source.Read(ctx, w)
		if w.err == nil {
			errs = append(errs, err)
		}
		if file, is := source.(*File); is && !file.Continued {
			inherited += file.faults
		}
	}
	w.flush()
	r.Notes = w.notes
	end := End{Points: w.points, Notes: append([]string{}, w.notes...), Faults: inherited + len(faults.List(faults.Join(errs...)))}
	if w.names != nil {
		end.Notes = []string{}
	}
	w.json(endName, end)
	r.Points = w.points
	for _, finish := range []func() error{w.tar.Close, packed.Close} {
		if w.err == nil {
			w.err = finish()
		}
	}
	if w.err != nil {
		return r, false, fmt.Errorf("writing the snapshot: %w", w.err)
	}
	return r, true, faults.Join(errs...)
}

// chosen are the documents that a backtest has a use for: those of known kinds, and targets of VPAs
// and owners of pods of any other.
func chosen(set *manifests.Set) []*manifests.Document {
	wanted := map[string]bool{}
	for i := range set.Documents {
		d := &set.Documents[i]
		if of, ok := targetOf(d); ok {
			wanted[d.Namespace+"/"+of.kind+"/"+of.name] = true
		}
		var o struct {
			Metadata struct {
				OwnerReferences []struct {
					Kind string `json:"kind"`
					Name string `json:"name"`
				} `json:"ownerReferences"`
			} `json:"metadata"`
		}
		if json.Unmarshal(d.JSON, &o) == nil {
			for _, of := range o.Metadata.OwnerReferences {
				wanted[d.Namespace+"/"+of.Kind+"/"+of.Name] = true
			}
		}
	}
	var out []*manifests.Document
	for i := range set.Documents {
		d := &set.Documents[i]
		if _, known := needed[d.Kind]; known || wanted[d.Namespace+"/"+d.Kind+"/"+d.Name] {
			out = append(out, d)
		}
	}
	return out
}

// writer is a sink that writes what it takes. It keeps the first error of writing.
type writer struct {
	tar    *tar.Writer
	names  *names // nil = names stay
	watch  func(done, of int64)
	rows   bytes.Buffer
	pieces int
	points int64
	notes  []string
	noted  map[string]bool
	err    error
}

// manifests are the documents as YAML, reduced. The error lists what cannot be read.
func (w *writer) manifests(documents []*manifests.Document) ([]byte, error) {
	selected := map[string]bool{}
	objects := make([]object, len(documents))
	var errs []error
	for i, d := range documents {
		var o object
		if err := json.Unmarshal(d.JSON, &o); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s cannot be read: %w", d.Source, d, err))
			continue
		}
		objects[i] = reduced(d.Kind, o)
		if m, ok := objects[i]["metadata"].(object); ok && d.Namespace != "" && !d.ClusterScoped() {
			m["namespace"] = d.Namespace
		}
		selectedBy(objects[i], selected, d.Kind)
	}
	var out bytes.Buffer
	for i, o := range objects {
		if o == nil {
			continue
		}
		if w.names != nil {
			w.names.anonymised(documents[i].Kind, o, selected)
		}
		text, err := yaml.Marshal(o)
		errs = append(errs, err)
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), faults.Join(errs...)
}

// Add implements history.Sink.
func (w *writer) Add(of usagefile.Series, points ...history.Point) error {
	if w.names != nil {
		of = w.names.series(of)
	}
	end := usagefile.RowEnd(of)
	for _, p := range points {
		if w.rows.Len() == 0 {
			w.rows.WriteString(usagefile.Header)
		}
		row := usagefile.AppendTime(w.rows.AvailableBuffer(), p.At)
		row = append(row, end...)
		row = usagefile.AppendAmount(row, of.Kind, p.Amount)
		w.rows.Write(append(row, '\n'))
		if w.points++; w.rows.Len() >= pieceBytes {
			w.flush()
		}
	}
	return w.err
}

// flush writes the rows that are held.
func (w *writer) flush() {
	if w.rows.Len() == 0 {
		return
	}
	w.pieces++
	w.file(fmt.Sprintf(usageName, w.pieces), w.rows.Bytes())
	w.rows.Reset()
}

// Note implements history.Sink.
func (w *writer) Note(text string) {
	if w.noted == nil {
		w.noted = map[string]bool{}
	}
	if !w.noted[text] {
		w.noted[text] = true
		w.notes = append(w.notes, text)
	}
}

// Progress implements history.Sink.
func (w *writer) Progress(done, of int64) {
	if w.watch != nil {
		w.watch(done, of)
	}
}

func (w *writer) json(name string, value any) {
	text, err := json.Marshal(value)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.file(name, append(text, '\n'))
}

// file adds a file. It has no time, so that the same input makes the same bytes.
func (w *writer) file(name string, text []byte) {
	if w.err == nil {
		w.err = w.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Format: tar.FormatUSTAR})
	}
	if w.err == nil {
		_, w.err = w.tar.Write(text)
	}
}
