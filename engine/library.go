package engine

import (
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
)

// MaxFileSize is the largest rule file Load accepts, in bytes. Rule files are prose-sized; more is a mistake.
const MaxFileSize = 1 << 20

// Library holds every rule set and pipeline of a set of files, by name@version, and the test tables among them.
type Library struct {
	RuleSets  map[string]*RuleSet
	Pipelines map[string]*Pipeline
	Tests     []*RuleTest // by file name, then as written
}

// Load reads all *.yaml and *.yml files under the root of fsys. Positions show file names below dir, which is how a
// user would find them. Any fault rejects the whole library; the error lists every fault with its position (see
// Problems).
func Load(fsys fs.FS, dir string) (*Library, error) {
	lib := &Library{RuleSets: map[string]*RuleSet{}, Pipelines: map[string]*Pipeline{}}
	ps := &problems{}
	if err := lib.read(fsys, ".", dir, ps); err != nil {
		return nil, err
	}
	if len(ps.list) == 0 && len(lib.Pipelines) == 0 {
		return nil, fmt.Errorf("no %s found among the rule files: add one that names the rule sets of each point", KindPipeline)
	}
	if err := ps.err(); err != nil {
		return nil, err
	}
	return lib, nil
}

// read adds the documents of all rule files below root, which is a folder or one file.
func (l *Library) read(fsys fs.FS, root, dir string, ps *problems) error {
	return fs.WalkDir(fsys, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("reading rule files: %w", err)
		}
		if entry.IsDir() {
			if name != root && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if ext := path.Ext(name); ext == ".yaml" || ext == ".yml" {
			l.add(fsys, name, path.Join(dir, name), ps)
		}
		return nil
	})
}

func (l *Library) add(fsys fs.FS, name, shown string, ps *problems) {
	start := Position{File: shown, Line: 1, Col: 1}
	if info, err := fs.Stat(fsys, name); err == nil && info.Size() > MaxFileSize {
		ps.add(&Problem{Pos: start, Message: fmt.Sprintf("the file has %d bytes; at most %d are read: split it", info.Size(), MaxFileSize)})
		return
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		ps.add(&Problem{Pos: start, Message: err.Error()})
		return
	}
	for _, doc := range decodeFile(shown, data, ps) {
		switch {
		case doc.ruleSet != nil:
			if old, twice := l.RuleSets[doc.ruleSet.ID()]; twice {
				ps.at(doc.ruleSet.Name, "RuleSet "+doc.ruleSet.ID(), fmt.Sprintf("defined already at %s", old.Name.Pos))
				continue
			}
			l.RuleSets[doc.ruleSet.ID()] = doc.ruleSet
		case doc.pipeline != nil:
			if old, twice := l.Pipelines[doc.pipeline.ID()]; twice {
				ps.at(doc.pipeline.Name, "Pipeline "+doc.pipeline.ID(), fmt.Sprintf("defined already at %s", old.Name.Pos))
				continue
			}
			l.Pipelines[doc.pipeline.ID()] = doc.pipeline
		case doc.test != nil:
			l.addTest(doc.test, ps)
		}
	}
}

// pipeline finds a pipeline by name@version, or by name alone when only one version is loaded.
func (l *Library) pipeline(ref string) (*Pipeline, error) {
	if p, ok := l.Pipelines[ref]; ok {
		return p, nil
	}
	var found []string
	for id, p := range l.Pipelines {
		if p.Name.Value == ref {
			found = append(found, id)
		}
	}
	sort.Strings(found)
	switch len(found) {
	case 1:
		return l.Pipelines[found[0]], nil
	case 0:
		return nil, fmt.Errorf("no pipeline %q; loaded: %s", ref, strings.Join(sortedKeys(l.Pipelines), ", "))
	default:
		return nil, fmt.Errorf("pipeline %q has several versions; name one of %s", ref, strings.Join(found, ", "))
	}
}

// RuleSetIDs lists name@version of all rule sets, sorted.
func (l *Library) RuleSetIDs() []string { return sortedKeys(l.RuleSets) }

// Params lists the parameters of all rule sets, ordered by rule set and then as written.
func (l *Library) Params() []ParamRef {
	var out []ParamRef
	for _, id := range sortedKeys(l.RuleSets) {
		set := l.RuleSets[id]
		for _, p := range set.Params {
			out = append(out, ParamRef{RuleSet: set.Name.Value, Point: set.Point.Value, Param: p})
		}
	}
	return out
}

// ParamRef is a parameter together with the rule set and the point it belongs to.
type ParamRef struct {
	RuleSet string
	Point   string
	Param   Param
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
