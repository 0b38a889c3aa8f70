package document

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/source"
)

// ParamFrom is the pipeline that declares a param of p: p itself, or one that it extends.
func (p *Pipeline) ParamFrom(name string) *Pipeline { return p.declarer("param", name) }

// DefinitionFrom is the pipeline that declares a definition of p, as ParamFrom.
func (p *Pipeline) DefinitionFrom(name string) *Pipeline { return p.declarer("definition", name) }

// PointFrom is the pipeline that names a point and its rule sets, as ParamFrom.
func (p *Pipeline) PointFrom(name string) *Pipeline { return p.declarer("point", name) }

func (p *Pipeline) declarer(kind, name string) *Pipeline {
	return cmp.Or(p.inherited[kind+" "+name], p)
}

// completePipelines adds to pipelines what they inherit from those that they extend.
func (l *Library) completePipelines(ps *source.Collector) {
	l.Pipelines = maps.Clone(l.written)
	c := &completion{library: l, under: map[string]bool{}, ps: ps}
	for _, id := range slices.Sorted(maps.Keys(l.written)) {
		c.pipeline(id)
	}
	ps.Dedupe() // a fault of one that several extend
}

// completion completes each pipeline once, those that it extends first.
type completion struct {
	library *Library
	under   map[string]bool // pipelines whose extended one is being completed
	ps      *source.Collector
}

func (c *completion) pipeline(id string) {
	p := c.library.written[id]
	if isComplete := c.library.Pipelines[id] != p; p.Extends.IsZero() || isComplete {
		return
	}
	base, err := findPipeline(c.library.written, p.Extends.Value)
	switch {
	case err != nil:
		c.ps.At(p.Extends, p.Subject(), err.Error())
		return
	case base.ID() == id:
		c.ps.At(p.Extends, p.Subject(), "the pipeline extends itself; give it a name or version of its own")
		return
	case c.under[base.ID()]:
		c.ps.At(p.Extends, p.Subject(), fmt.Sprintf("pipelines extend each other: %s; remove one of them", c.circle(id)))
		return
	}
	c.under[id] = true
	c.pipeline(base.ID())
	delete(c.under, id)
	c.library.Pipelines[id] = p.over(c.library.Pipelines[base.ID()])
}

// circle lists the pipelines that extend each other, from the one with this ID on.
func (c *completion) circle(id string) string {
	ids := []string{id}
	for len(ids) == 1 || ids[len(ids)-1] != id {
		next, err := findPipeline(c.library.written, c.library.written[ids[len(ids)-1]].Extends.Value)
		if err != nil {
			break // cannot be: each was found before
		}
		ids = append(ids, next.ID())
	}
	return strings.Join(ids, " → ")
}

// over lays a pipeline over the one that it extends: points, params and definitions of the same name
// replace those of the base.
func (p *Pipeline) over(base *Pipeline) *Pipeline {
	out := *p
	out.inherited = map[string]*Pipeline{}
	inherit := func(kind string) func(string) {
		return func(name string) { out.inherited[kind+" "+name] = base.declarer(kind, name) }
	}
	out.Params = layOver(base.Params, p.Params, func(x Param) string { return x.Name.Value }, inherit("param"))
	out.Definitions = layOver(base.Definitions, p.Definitions, func(x Definition) string { return x.Name.Value }, inherit("definition"))
	out.Points = layOver(base.Points, p.Points, func(x PipelinePoint) string { return x.Point.Value }, inherit("point"))
	out.Set = layOver(base.Set, p.Set, func(x Assignment) string { return x.Path.Value }, inherit("set"))
	out.Insert = layOver(base.Insert, p.Insert, func(x Insertion) string { return x.Before.Value }, func(string) {})
	return &out
}

// layOver replaces items of the base in place by those of the same name, and appends the others. It
// calls kept with the names that stay.
func layOver[T any](base, over []T, name func(T) string, kept func(string)) (out []T) {
	index := func(list []T, wanted string) int {
		return slices.IndexFunc(list, func(x T) bool { return name(x) == wanted })
	}
	for _, x := range base {
		if i := index(over, name(x)); i >= 0 {
			x = over[i]
		} else {
			kept(name(x))
		}
		out = append(out, x)
	}
	for _, x := range over {
		if index(base, name(x)) < 0 {
			out = append(out, x)
		}
	}
	return out
}

// findPipeline finds a pipeline by name@version, or the highest version of a name.
func findPipeline(pipelines map[string]*Pipeline, ref string) (*Pipeline, error) {
	if p, ok := pipelines[ref]; ok {
		return p, nil
	}
	var found *Pipeline
	for _, p := range pipelines {
		if p.Name.Value == ref && (found == nil || older(found, p)) {
			found = p
		}
	}
	if found == nil {
		known := slices.Sorted(maps.Keys(pipelines))
		names := slices.Clone(known)
		for _, id := range known {
			names = append(names, pipelines[id].Name.Value)
		}
		return nil, fmt.Errorf("no pipeline %q; %sloaded: %s", ref, faults.Near(ref, slices.Compact(names)), strings.Join(known, ", "))
	}
	return found, nil
}

// older reports whether a pipeline has a lower version than another. A version without a place in the order is the lowest.
func older(a, b *Pipeline) bool {
	is, err := version.ParseSemantic(a.Version.Value)
	if err != nil {
		return true
	}
	than, err := version.ParseSemantic(b.Version.Value)
	return err == nil && is.LessThan(than)
}
