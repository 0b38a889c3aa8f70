// Package manifests reads Kubernetes manifests for offline commands: files, folders and standard
// input, in YAML or JSON, like kubectl. It reports what it cannot read and returns the rest.
package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/engine/faults"
)

// DefaultNamespace is the namespace of objects that name none.
const DefaultNamespace = "default"

// Stdin is the path that stands for standard input.
const Stdin = "-"

// StdinName is the file of what was read there.
const StdinName = "standard input"

// Place is where a document starts.
type Place struct {
	File string // as given, or StdinName, or ClusterName
	Line int    // from 1; 0 in a cluster
}

// String returns file:line.
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Document is one object as read.
type Document struct {
	Source     Place
	APIVersion string
	Kind       string
	// Namespace defaults to DefaultNamespace. Ignore it for cluster-scoped kinds.
	Namespace string
	Name      string // metadata.name, else metadata.generateName
	JSON      []byte // as written, with unknown fields

	generated bool         // Name is a generateName prefix
	placed    bool         // the namespace is written
	node      *yamlv3.Node // for the places of fields; nil = unknown
	before    int          // lines before the node's first
}

// Group returns the API group without the version.
func (d *Document) Group() string {
	group, _, found := strings.Cut(d.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// Key returns namespace/name.
func (d *Document) Key() string { return d.Namespace + "/" + d.Name }

// String returns e.g. VerticalPodAutoscaler web/shop.
func (d *Document) String() string {
	if clusterScoped[d.groupKind()] {
		return d.Kind + " " + d.Name
	}
	return d.Kind + " " + d.Key()
}

func (d *Document) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: d.Group(), Kind: d.Kind}
}

// Set holds documents in the order read.
type Set struct {
	Documents []Document

	leftOut []leftOut
	room    int64                     // bytes of memory that may still be taken, by estimate
	live    client.Client             // of the cluster; nil = files
	scaled  map[schema.GroupKind]bool // by CustomResourceDefinitions, see HasScale

	byIdentity map[identity][]int // positions of the first indexed documents
	namespaces map[named][]string // of the same that name their namespace
	indexed    int
	found      found
}

// named is an object in any namespace.
type named struct {
	kind schema.GroupKind
	name string
}

// of are the documents of an object, usually one.
func (s *Set) of(id identity) (out []*Document) {
	s.index()
	for _, i := range s.byIdentity[id] {
		out = append(out, &s.Documents[i])
	}
	return out
}

// Namespaces are those that have an object of a kind and a name, and name their namespace, except one.
func (s *Set) Namespaces(kind schema.GroupKind, name, except string) (out []string) {
	s.index()
	for _, namespace := range s.namespaces[named{kind, name}] {
		if namespace != except && !slices.Contains(out, namespace) {
			out = append(out, namespace)
		}
	}
	slices.Sort(out)
	return out
}

func (s *Set) index() {
	if s.byIdentity == nil {
		s.byIdentity, s.namespaces = map[identity][]int{}, map[named][]string{}
	}
	for ; s.indexed < len(s.Documents); s.indexed++ {
		d := &s.Documents[s.indexed]
		id := identity{d.groupKind(), d.Namespace, d.Name}
		s.byIdentity[id] = append(s.byIdentity[id], s.indexed)
		if d.placed {
			s.namespaces[named{id.kind, id.name}] = append(s.namespaces[named{id.kind, id.name}], d.Namespace)
		}
	}
}

// identity identifies an object in an API server.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

// Files are what to read: files, folders with all *.yaml, *.yml and *.json below, URLs, and Stdin, in
// order.
type Files struct {
	Paths  []string
	Ignore []string                        // patterns of files and folders below named folders, see CheckPattern
	Watch  func(what string, done, of int) // receives the progress; nil = nobody

	memory int64 // that all may take, by estimate; 0 = shippedMemory
}

// Read reads files. The error lists what could not be read, with its place; the set has the rest.
func (f Files) Read(stdin io.Reader) (*Set, error) {
	set := &Set{room: cmp.Or(f.memory, shippedMemory)}
	var errs []error
	fromStdin := false
	for _, path := range f.Paths {
		if path == Stdin {
			if fromStdin {
				errs = append(errs, errors.New("standard input is named twice; it can be read once"))
				continue
			}
			fromStdin = true
			errs = append(errs, set.readFrom(stdin, StdinName)...)
			continue
		}
		if IsURL(path) {
			errs = append(errs, set.readURL(path)...)
			continue
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			errs = append(errs, cannotRead(path, err))
		case info.IsDir():
			errs = append(errs, set.readFolder(path, f)...)
		default:
			errs = append(errs, set.readFile(path)...)
		}
	}
	return set, faults.Join(errs...)
}

// Read is Files.Read of paths.
func Read(paths []string, stdin io.Reader) (*Set, error) { return Files{Paths: paths}.Read(stdin) }

func (s *Set) readFrom(r io.Reader, name string) []error {
	text, err := io.ReadAll(&bounded{in: r, set: s})
	if err != nil {
		return []error{fmt.Errorf("cannot read %s: %w", name, err)}
	}
	return s.parse(name, text)
}

func (s *Set) parse(file string, text []byte) (errs []error) {
	for _, document := range split(text) {
		documents, err := document.documents(file)
		errs = append(errs, err...)
		s.Documents = append(s.Documents, documents...)
	}
	return errs
}

// Twice returns an error for each duplicate object of a kind ("" = any). Callers decide whether it
// matters: manifests may hold the same object for several clusters.
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
