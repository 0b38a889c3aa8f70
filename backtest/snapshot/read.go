package snapshot

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// File is a snapshot. It is a history.Source, too.
type File struct {
	Path string
	Head Head
	// Continued: what it lacks comes from another source, so nothing is noted about that.
	Continued bool

	faults int // of the last Read
}

// headBytes is how long the first file of an archive may be.
const headBytes = 1 << 16

// Open opens a file that is a snapshot; ok is false if it is something else, or cannot be read. An
// error is about a file that is a snapshot.
func Open(path string) (f *File, ok bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, false, nil // whoever reads it as something else says what is wrong
	}
	defer file.Close()
	in := bufio.NewReader(file)
	if magic, _ := in.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return nil, false, nil
	}
	unpacked, err := gzip.NewReader(in)
	if err != nil {
		return nil, false, nil
	}
	files := tar.NewReader(unpacked)
	first, err := files.Next()
	if err != nil || first.Name != headName {
		return nil, false, nil
	}
	f = &File{Path: path}
	text, err := io.ReadAll(io.LimitReader(files, headBytes))
	if err == nil {
		err = json.Unmarshal(text, &f.Head)
	}
	switch {
	case err != nil:
		return nil, true, f.fault(err)
	case f.Head.Version < 1:
		return nil, true, f.fault(fmt.Errorf("%s has no version: it was not written by celvpa snapshot", headName))
	case f.Head.Version > Version:
		return nil, true, f.fault(fmt.Errorf("it has format %d, and this celvpa reads up to %d: use a later one", f.Head.Version, Version))
	}
	return f, true, nil
}

func (f *File) fault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends early: it was cut, or is still being written")
	}
	return fmt.Errorf("snapshot %s: %w", f.Path, err)
}

// each calls do with each file of the archive. An error of do ends it.
func (f *File) each(do func(name string, in io.Reader) error) error {
	file, err := os.Open(f.Path)
	if err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(bufio.NewReaderSize(file, 1<<16))
	if err != nil {
		return f.fault(err)
	}
	for files := tar.NewReader(unpacked); ; {
		one, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return f.fault(err)
		}
		if err := do(one.Name, files); err != nil {
			return err
		}
	}
}

// errFound ends each.
var errFound = errors.New("found")

// Manifests are the objects of the snapshot. The error lists those that cannot be read.
func (f *File) Manifests() (*manifests.Set, error) {
	var set *manifests.Set
	var unread error
	err := f.each(func(name string, in io.Reader) error {
		if name != manifestsName {
			return nil
		}
		set, unread = manifests.ReadFrom(in, f.Path+"/"+manifestsName)
		return errFound
	})
	if errors.Is(err, errFound) {
		return set, unread
	}
	if err == nil {
		err = f.fault(fmt.Errorf("it has no %s", manifestsName))
	}
	return &manifests.Set{}, err
}

// Read implements history.Source. Progress counts points.
func (f *File) Read(ctx context.Context, to history.Sink) error {
	var end *End
	points := int64(0)
	var full error
	err := f.each(func(name string, in io.Reader) error {
		switch {
		case name == endName:
			end = &End{}
			if err := json.NewDecoder(in).Decode(end); err != nil {
				return f.fault(fmt.Errorf("%s: %w", endName, err))
			}
		case strings.HasPrefix(name, "usage-"):
			notes, err := usagefile.EachOf(f.Path+"/"+name, in, func(of usagefile.Series, at, amount int64) error {
				if points++; points%(1<<14) == 0 {
					to.Progress(points, 0)
					if full = ctx.Err(); full != nil {
						return full
					}
				}
				full = to.Add(of, history.Point{At: at, Amount: amount})
				return full
			})
			for _, note := range notes {
				to.Note(note)
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return f.fault(err)
			}
			return err
		}
		return nil
	})
	switch {
	case full != nil:
		return full
	case err != nil:
		return err
	case end == nil:
		return f.fault(fmt.Errorf("it has no %s: making it was interrupted; make it anew", endName))
	}
	f.faults = end.Faults
	for _, note := range end.Notes {
		to.Note(note)
	}
	if end.Faults > 0 && !f.Continued {
		to.Note(fmt.Sprintf("snapshot %s lacks what could not be read when it was made: faults: %d", f.Path, end.Faults))
	}
	if points != end.Points {
		return f.fault(fmt.Errorf("%s says that there are %d points of usage, and there are %d", endName, end.Points, points))
	}
	return nil
}

// Over puts objects in place of those of the same kind and name in a set, and adds the others.
func Over(set, with *manifests.Set) *manifests.Set {
	type id struct{ group, kind, key string }
	of := func(d *manifests.Document) id { return id{d.Group(), d.Kind, d.Key()} }
	replaced := map[id]bool{}
	for i := range with.Documents {
		replaced[of(&with.Documents[i])] = true
	}
	out := &manifests.Set{}
	for i := range set.Documents {
		if !replaced[of(&set.Documents[i])] {
			out.Documents = append(out.Documents, set.Documents[i])
		}
	}
	out.Documents = append(out.Documents, with.Documents...)
	return out
}
