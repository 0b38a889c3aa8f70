package registry

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/lang"
)

// vocabulary prints what all points share: units, axes, gates and functions.
func (d *describer) vocabulary(r *Registry) {
	d.printf("## Units\n\n| unit | counted in | literal |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.units)) {
		u, literal := r.units[name], ""
		if u.Func != "" {
			literal = "`" + u.Func + "('…')`"
		}
		d.printf("| `%s` | %s | %s |\n", u.Name, u.Doc, literal)
	}
	d.printf("\n## Axes\n\n| axis | values | all of them | |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.axes)) {
		a := r.axes[name]
		d.printf("| `%s` | %s | `%s.exists(x, …)`, `all`, `map` | %s |\n", a.Name, strings.Join(a.Values, ", "), a.Plural, a.Doc)
	}
	d.printf("\n## Feature gates\n\nRules read them as `gates.Name`.\n\n| gate | |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.gates)) {
		d.printf("| `%s` | %s |\n", name, r.gates[name])
	}
	d.printf("\n## Functions\n\n| function | |\n|---|---|\n")
	for _, f := range r.Functions() {
		for i, signature := range f.Signatures() {
			doc := f.Doc
			if i > 0 {
				doc = "the same for other types"
			}
			d.printf("| `%s` | %s |\n", signature, doc)
		}
	}
}

type describer struct {
	w      io.Writer
	uses   map[*lang.Schema]int // how often the points mention a record type
	shared []*lang.Schema       // record types mentioned more than once
	err    error
}

// count counts the record types that a type mentions.
func (d *describer) count(t lang.Type) {
	schema := t.Schema()
	if schema == nil {
		return
	}
	d.uses[schema]++
	switch d.uses[schema] {
	case 1:
		for _, f := range schema.Fields() {
			d.count(f.Type)
		}
	case 2:
		d.shared = append(d.shared, schema)
	}
}

// countAll counts the record types that the points mention.
func (d *describer) countAll(points []*Point) {
	vars := func(list []Var, bounds []BoundVar) {
		for _, v := range list {
			if v.scope == nil {
				d.count(v.Type)
			}
		}
		for _, b := range bounds {
			d.count(b.Type)
		}
	}
	for _, p := range points {
		vars(p.Vars, p.Bounds)
		for _, s := range p.Scopes {
			vars(s.Vars, s.Bounds)
		}
	}
}

// records prints the record types that several facts have.
func (d *describer) records() {
	if len(d.shared) == 0 {
		return
	}
	slices.SortFunc(d.shared, func(a, b *lang.Schema) int { return strings.Compare(a.Name(), b.Name()) })
	d.printf("\n## Records\n\nTypes that several facts have. A dot reads a field of a field, as in `policy.maxAllowed.cpu`.\n")
	for _, schema := range d.shared {
		d.printf("\n### %s\n\n| field | type | |\n|---|---|---|\n", schema.Name())
		for _, f := range schema.Fields() {
			d.row(f.Name, f.Type, false, f.Doc)
		}
	}
}

func (d *describer) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format, args...)
	}
}

func (d *describer) vars(vars []Var) {
	for _, v := range vars {
		if v.scope == nil {
			d.row(v.Name, v.Type, v.Writable, v.Doc)
			continue
		}
		kind, entry := "list", v.Name+"[]"
		if v.Type.IsRecord() {
			kind, entry = "", v.Name
			if len(v.scope.Kinds) > 0 {
				entry += "." + v.scope.Kinds[0]
			}
		}
		d.printf("| `%s` | %s | %s; `%s` has what `each: %s` below has, as rules have left it so far |\n", v.Name, kind, v.Doc, entry, v.scope.Name)
	}
}

// bounds prints what rules may bound.
func (d *describer) bounds(what string, list []BoundVar) {
	if len(list) == 0 {
		return
	}
	d.printf("\nBounds%s, which rules set and nothing reads:\n\n| bound | type | |\n|---|---|---|\n", what)
	for _, b := range list {
		d.row(b.Name, b.Type, false, b.Doc+"; it bounds `"+b.Of+"`")
	}
}

// row prints a fact, followed by the fields of a record type that no other fact has.
func (d *describer) row(name string, t lang.Type, writable bool, doc string) {
	schema := t.Schema()
	if schema == nil || d.uses[schema] > 1 {
		kind := t.String()
		if schema != nil {
			kind = fmt.Sprintf("[%s](#%s)", schema.Name(), strings.ToLower(schema.Name()))
			if !t.IsRecord() {
				kind = "list of " + kind
			}
		}
		if writable {
			doc = strings.TrimSpace(doc + " (may be set)")
		}
		d.printf("| `%s` | %s | %s |\n", name, kind, doc)
		return
	}
	if !t.IsRecord() { // a list: its entries' fields
		d.printf("| `%s` | list | %s |\n", name, doc)
		name += "[]"
	} else if doc != "" {
		d.printf("| `%s` | | %s |\n", name, doc)
	}
	for _, f := range t.Schema().Fields() {
		d.row(name+"."+f.Name, f.Type, writable, f.Doc)
	}
}

// classes prints the classes of a point's decisions.
func (d *describer) classes(p *Point) {
	if len(p.Classes) == 0 {
		return
	}
	var of []string
	for _, o := range p.Outcomes {
		if o.Classed {
			of = append(of, "`"+o.Name+"`")
		}
	}
	var classes []string
	for _, c := range p.Classes {
		classes = append(classes, "`"+c.Name+"` ("+c.Doc+")")
	}
	d.printf("\nRows that do %s have a class: %s.\n", strings.Join(of, ", "), strings.Join(classes, ", "))
}

// Describe prints a reference of all points in Markdown, and of what they share.
func (r *Registry) Describe(w io.Writer) error {
	d := &describer{w: w, uses: map[*lang.Schema]int{}}
	d.points(r.Points())
	d.printf("\n")
	d.vocabulary(r)
	return d.err
}

// Describe prints a reference of the point in Markdown: its facts, writable fields and outcomes.
func (p *Point) Describe(w io.Writer) error {
	d := &describer{w: w, uses: map[*lang.Schema]int{}}
	d.points([]*Point{p})
	return d.err
}

func (d *describer) points(points []*Point) {
	d.countAll(points)
	for i, p := range points {
		if i > 0 {
			d.printf("\n")
		}
		d.printf("## %s\n\n%s\n\nTakes %s.\n", p.Name, p.Doc, p.Kind)
		if len(p.Vars) > 0 {
			d.printf("\n| fact | type | |\n|---|---|---|\n")
			d.vars(p.Vars)
		}
		d.bounds("", p.Bounds)
		for _, s := range p.Scopes {
			d.printf("\n`each: %s`: %s\n\n| fact | type | |\n|---|---|---|\n", s.Name, s.Doc)
			d.vars(s.Vars)
			d.bounds(" of each item", s.Bounds)
		}
		if len(p.Solvers) > 0 {
			d.printf("\n| solve | chooses within the bounds set so far |\n|---|---|\n")
			for _, s := range p.Solvers {
				d.printf("| `%s` | %s |\n", s.Name, s.Doc)
			}
		}
		if len(p.Outcomes) > 0 {
			d.printf("\n| do | |\n|---|---|\n")
			for _, o := range p.Outcomes {
				d.printf("| `%s` | %s |\n", o.Name, o.Doc)
			}
			d.printf("\nWhen no row holds, or one fails: `%s`.\n", p.FailSafe)
			d.classes(p)
		}
		if p.Objects != nil {
			d.printf("\nRules see `self` (what is at `at`) and `oldSelf` (an optional: what was there before; not inside lists). " +
				"Those that are not enforced in the schema also see `object` and `oldObject` (an optional), `gates`, the params of their rule set, and the facts above.\n")
		}
	}
	d.records()
}
