package document

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/source"
)

// MaxFileSize is the largest rule file that Load accepts, in bytes; a larger one is a mistake.
const MaxFileSize = 1 << 20

// Library holds rule sets and pipelines by name@version, overlays by name, and test tables.
type Library struct {
	RuleSets  map[string]*RuleSet
	Pipelines map[string]*Pipeline // with what they inherit
	Overlays  map[string]*Overlay
	Tests     []*RuleTest // by file name, then as written

	written map[string]*Pipeline // without what they inherit
	lost    bool                 // a document could not be read at all
}

// Layer is a folder of *.yaml and *.yml files, hidden folders excluded, or a single such file.
// Positions show file names below Dir, where users find them.
type Layer struct {
	FS  fs.FS
	Dir string
	// Files are already read; FS is then unused. Hosts that watch files read them once, so that
	// they compile what they compare.
	Files []File
}

// File is a rule file that was read.
type File struct {
	Name string // below the layer's Dir
	Data []byte
	// Fault says why the file could not be read; empty = no fault.
	Fault string
}

// Loader reads rule files.
type Loader struct {
	// SelectorKey is the overlay key of the label selector; empty = selector.
	SelectorKey string
	// Base is a loaded library below the layers, whose rule sets the result shares; nil = none.
	Base *Library
}

// Load reads the layers. Later layers replace what has the same name and version in earlier ones;
// within a layer names are unique. Any fault rejects the whole library; the error lists them all. The library that comes with an
// error is for finding more faults; it is nil where these would only follow from those that the error lists.
func (o Loader) Load(layers ...Layer) (*Library, error) {
	if o.SelectorKey == "" {
		o.SelectorKey = "selector"
	}
	lib := newLibrary()
	if o.Base != nil {
		lib = o.Base.With()
		lib.RuleSets, lib.written, lib.Tests = maps.Clone(lib.RuleSets), maps.Clone(lib.written), slices.Clone(lib.Tests)
	}
	ps := &source.Collector{}
	for _, layer := range layers {
		library := newLibrary()
		if err := library.read(layer, o.SelectorKey, ps); err != nil {
			return nil, err
		}
		maps.Copy(lib.RuleSets, library.RuleSets)
		maps.Copy(lib.written, library.written)
		maps.Copy(lib.Overlays, library.Overlays)
		lib.Tests = append(lib.Tests, library.Tests...)
		lib.lost = lib.lost || library.lost
	}
	if len(ps.List) == 0 && len(lib.written) == 0 {
		return nil, fmt.Errorf("no %s found among the rule files: add one that names the rule sets of each point", KindPipeline)
	}
	faulty := len(ps.List)
	if !lib.lost { // else an extended one may only seem to be missing
		lib.completePipelines(ps)
	}
	err := ps.Err()
	if lib.lost || len(ps.List) > faulty {
		return nil, err
	}
	return lib, err
}

func newLibrary() *Library {
	return &Library{RuleSets: map[string]*RuleSet{}, written: map[string]*Pipeline{}, Overlays: map[string]*Overlay{}}
}

// Overlay decodes a single overlay; file is its name in positions.
func (o Loader) Overlay(file string, data []byte) (*Overlay, error) {
	if o.SelectorKey == "" {
		o.SelectorKey = "selector"
	}
	ps := &source.Collector{}
	docs, _ := decodeFile(file, data, o.SelectorKey, ps)
	if err := ps.Err(); err != nil {
		return nil, err
	}
	if len(docs) != 1 || docs[0].overlay == nil {
		return nil, fmt.Errorf("%s is not one %s", file, KindOverlay)
	}
	return docs[0].overlay, nil
}

// With returns the library with further overlays, which replace those of the same name.
func (l *Library) With(overlays ...*Overlay) *Library {
	c := *l
	c.Overlays = maps.Clone(l.Overlays)
	for _, o := range overlays {
		c.Overlays[o.Name.Value] = o
	}
	return &c
}

// IsRuleFile reports whether a file name has a YAML extension.
func IsRuleFile(name string) bool {
	ext := path.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// IsHidden reports whether to skip a folder: a mounted ConfigMap keeps its data twice.
func IsHidden(folder string) bool { return folder != "." && strings.HasPrefix(folder, ".") }

// read returns the files of the layer, sorted by name.
func (l Layer) read() ([]File, error) {
	if l.Files != nil || l.FS == nil {
		return l.Files, nil
	}
	var out []File
	err := fs.WalkDir(l.FS, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && IsHidden(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || !IsRuleFile(name):
			return nil
		}
		file := File{Name: name}
		if file.Data, err = fs.ReadFile(l.FS, name); err != nil {
			file.Fault = err.Error()
		}
		out = append(out, file)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading rule files: %w", err)
	}
	return out, nil
}

func (l *Library) read(layer Layer, selectorKey string, ps *source.Collector) error {
	files, err := layer.read()
	for _, file := range files {
		l.add(file, path.Join(layer.Dir, file.Name), selectorKey, ps)
	}
	return err
}

func (l *Library) add(file File, shown, selectorKey string, ps *source.Collector) {
	switch {
	case file.Fault == "" && len(bytes.TrimSpace(file.Data)) == 0: // as a full disk or a crash leaves it
		file.Fault = "the file is empty: write its rules again, or delete it"
	case len(file.Data) > MaxFileSize:
		file.Fault = fmt.Sprintf("the file has %d bytes; at most %d are read: split it", len(file.Data), MaxFileSize)
	}
	if file.Fault != "" {
		ps.Add(&source.Problem{Pos: source.Position{File: shown, Line: 1, Col: 1}, Message: file.Fault})
		l.lost = true
		return
	}
	docs, lost := decodeFile(shown, file.Data, selectorKey, ps)
	l.lost = l.lost || lost
	for _, doc := range docs {
		switch {
		case doc.ruleSet != nil:
			if old, twice := l.RuleSets[doc.ruleSet.ID()]; twice {
				ps.At(doc.ruleSet.Name, "RuleSet "+doc.ruleSet.ID(), fmt.Sprintf("defined already at %s", old.Name.Pos))
				continue
			}
			l.RuleSets[doc.ruleSet.ID()] = doc.ruleSet
		case doc.pipeline != nil:
			if old, twice := l.written[doc.pipeline.ID()]; twice {
				ps.At(doc.pipeline.Name, doc.pipeline.Subject(), fmt.Sprintf("defined already at %s", old.Name.Pos))
				continue
			}
			l.written[doc.pipeline.ID()] = doc.pipeline
		case doc.overlay != nil:
			if old, twice := l.Overlays[doc.overlay.Name.Value]; twice {
				ps.At(doc.overlay.Name, doc.overlay.Subject(), fmt.Sprintf("defined already at %s", old.Name.Pos))
				continue
			}
			l.Overlays[doc.overlay.Name.Value] = doc.overlay
		case doc.test != nil:
			l.addTest(doc.test, ps)
		}
	}
}

// Pipeline finds a pipeline by name@version, or the highest version of a name.
func (l *Library) Pipeline(ref string) (*Pipeline, error) { return findPipeline(l.Pipelines, ref) }

// Fits reports whether an overlay applies to a pipeline, named as for Pipeline.
func (l *Library) Fits(overlay, pipeline string) bool {
	o := l.Overlays[overlay]
	p, err := l.Pipeline(pipeline)
	return o != nil && err == nil && o.AppliesTo(p)
}

// OverlaysNamed looks up overlays, in the order they apply.
func (l *Library) OverlaysNamed(list []string) ([]*Overlay, error) {
	var out []*Overlay
	for _, name := range list {
		o := l.Overlays[name]
		if o == nil {
			return nil, fmt.Errorf("no overlay %q; loaded: %s", name, strings.Join(slices.Sorted(maps.Keys(l.Overlays)), ", "))
		}
		out = InsertInOrder(out, o)
	}
	return out, nil
}

// OwnerAt names the overlay or the rule set whose document contains a position; both are empty for other documents.
func (l *Library) OwnerAt(p source.Position) (overlay, ruleSet string) {
	line := 0
	look := func(name source.Scalar, o, set string) {
		if name.Pos.File == p.File && name.Pos.Line <= p.Line && name.Pos.Line > line {
			overlay, ruleSet, line = o, set, name.Pos.Line
		}
	}
	for id, s := range l.RuleSets {
		look(s.Name, "", id)
	}
	for _, x := range l.Pipelines {
		look(x.Name, "", "")
	}
	for _, t := range l.Tests {
		look(t.Name, "", "")
	}
	for _, o := range l.Overlays {
		look(o.Name, o.Name.Value, "")
	}
	return overlay, ruleSet
}

// RuleSetIDs lists name@version of all rule sets, sorted.
func (l *Library) RuleSetIDs() []string { return slices.Sorted(maps.Keys(l.RuleSets)) }

// Params lists the parameters of all pipelines, each once, then those of all rule sets.
func (l *Library) Params() []ParamRef {
	var out []ParamRef
	for _, id := range slices.Sorted(maps.Keys(l.Pipelines)) {
		readers := map[string][]*RuleSet{}
		for _, set := range l.setsIn(l.Pipelines[id]) {
			for name := range l.Pipelines[id].ReadsParams(set) {
				readers[name] = append(readers[name], set)
			}
		}
		for _, p := range l.Pipelines[id].Params {
			if slices.ContainsFunc(out, func(r ParamRef) bool { return r.Key == p.Name.Value }) {
				continue
			}
			name, _ := CutParam(p.Name.Value)
			out = append(out, ParamRef{Key: p.Name.Value, Param: p, RuleSets: readers[name]})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.RuleSets)) {
		set := l.RuleSets[id]
		for i, p := range set.Params {
			out = append(out, ParamRef{Key: ParamKeyOf(set, &set.Params[i]), Param: p, RuleSets: []*RuleSet{set}})
		}
	}
	return out
}

func (l *Library) setsIn(pipe *Pipeline) (out []*RuleSet) {
	for _, point := range pipe.Points {
		for _, name := range point.RuleSets {
			if set := l.RuleSets[name.Value]; set != nil {
				out = append(out, set)
			}
		}
	}
	return out
}

// ParamRef is a parameter together with the rule sets that read it.
type ParamRef struct {
	Key      string // set.param, or the bare name if a pipeline shares it
	Param    Param
	RuleSets []*RuleSet // in run order
}

// At reports whether a rule set that reads the parameter plugs in at a point.
func (r ParamRef) At(point string) bool {
	return slices.ContainsFunc(r.RuleSets, func(s *RuleSet) bool { return s.Point.Value == point })
}

// InsertInOrder returns a copy of the list with o added, in the order overlays apply.
func InsertInOrder(list []*Overlay, o *Overlay) []*Overlay {
	i := 0
	for i < len(list) && list[i].Before(o) {
		i++
	}
	return slices.Insert(slices.Clone(list), i, o)
}
