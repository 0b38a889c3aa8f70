// Package manifests reads the ordinary manifests that offline commands work on: files, folders and standard input with
// documents in YAML or JSON, as kubectl takes them. What cannot be read is reported, and the rest is returned.
package manifests

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/celvpa/celvpa/engine/faults"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultNamespace is the namespace of objects that name none.
const DefaultNamespace = "default"

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Place is where a document starts.
type Place struct {
	File string // as it was named, or "standard input"
	Line int    // from 1
}

// String is the place as file:line.
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Document is one object as it was read.
type Document struct {
	Source     Place
	APIVersion string
	Kind       string
	// Namespace is DefaultNamespace where the object names none. It means nothing for kinds that have no namespace.
	Namespace string
	Name      string // metadata.name, else metadata.generateName
	JSON      []byte // all that was written, fields that nobody knows included

	generated bool // Name is the beginning of a name
}

// Group is the API group, without the version.
func (d *Document) Group() string {
	group, _, found := strings.Cut(d.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// Key is namespace/name.
func (d *Document) Key() string { return d.Namespace + "/" + d.Name }

// String names the object, e.g. VerticalPodAutoscaler web/shop.
func (d *Document) String() string {
	if clusterScoped[d.groupKind()] {
		return d.Kind + " " + d.Name
	}
	return d.Kind + " " + d.Key()
}

func (d *Document) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: d.Group(), Kind: d.Kind}
}

// Set is what was read, in order.
type Set struct {
	Documents []Document
}

// identity is what API servers identify objects by.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

// Read reads paths in order: files, folders with all *.yaml, *.yml and *.json below, and Stdin. The set has all that could be
// read; the error names what could not, with its place.
func Read(paths []string, stdin io.Reader) (*Set, error) {
	set := &Set{}
	var errs []error
	fromStdin := false
	for _, path := range paths {
		if path == Stdin {
			if fromStdin {
				errs = append(errs, errors.New("standard input is named twice; it can be read once"))
				continue
			}
			fromStdin = true
			errs = append(errs, set.readFrom(stdin, "standard input")...)
			continue
		}
		files, err := filesAt(path)
		if err != nil {
			errs = append(errs, err)
		}
		for _, name := range files {
			errs = append(errs, set.readFile(name)...)
		}
	}
	return set, faults.Join(errs...)
}

func (s *Set) readFrom(r io.Reader, name string) []error {
	text, err := io.ReadAll(r)
	if err != nil {
		return []error{fmt.Errorf("cannot read %s: %w", name, err)}
	}
	return s.parse(name, text)
}

// parse adds the documents of one file.
func (s *Set) parse(file string, text []byte) (errs []error) {
	for _, one := range split(text) {
		documents, err := one.documents(file)
		errs = append(errs, err...)
		s.Documents = append(s.Documents, documents...)
	}
	return errs
}

// Twice is an error for each object of a kind, or of any kind for "", that is defined again. Callers decide whether that is a
// mistake: a tree of manifests may hold the same object for several clusters.
func (s *Set) Twice(kind string) error {
	var errs []error
	at := map[identity]Place{}
	for i := range s.Documents {
		d := &s.Documents[i]
		if d.Name == "" || d.generated || (kind != "" && d.Kind != kind) {
			continue
		}
		id := identity{kind: d.groupKind(), namespace: d.Namespace, name: d.Name}
		if there, twice := at[id]; twice {
			errs = append(errs, fmt.Errorf("%s: %s is already defined at %s; keep one of them", d.Source, d.String(), there))
			continue
		}
		at[id] = d.Source
	}
	return faults.Join(errs...)
}
