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
	d.printf("## Units and axes\n\n| unit | counted in | literal |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.units)) {
		u, literal := r.units[name], ""
		if u.Func != "" {
			literal = "`" + u.Func + "('…')`"
		}
		d.printf("| `%s` | %s | %s |\n", u.Name, u.Doc, literal)
	}
	for _, name := range slices.Sorted(maps.Keys(r.axes)) {
		a := r.axes[name]
		d.printf("\nAxis `%s`, %s: %s. `%s.exists(x, …)`, `all` and `map` go over all of them.\n", a.Name, a.Doc, strings.Join(a.Values, " and "), a.Plural)
	}
	d.printf("\n## Feature gates\n\nRules read them as `gates.Name`.\n\n| gate | |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.gates)) {
		d.printf("| `%s` | %s |\n", name, r.gates[name])
	}
	d.printf("\n## Functions\n\n| function | |\n|---|---|\n")
	for _, f := range r.Functions() {
		d.printf("| `%s` | %s |\n", strings.Join(f.Signatures(), "`<br>`"), f.Doc)
	}
}

type describer struct {
	w      io.Writer
	points []*Point
	facts  []Var                // facts of several points, which are described once
	uses   map[*lang.Schema]int // how often what is described mentions a record type
	shared []*lang.Schema       // record types mentioned more than once
	rows   []factRow            // of the table at hand
	err    error
}

// factRow is a fact, or several that only their names tell apart.
type factRow struct{ names, kind, doc string }

// sameFact reports whether two facts are one, at two points.
func sameFact(a, b Var) bool {
	return a.Name == b.Name && a.Doc == b.Doc && a.Writable == b.Writable && a.scope == b.scope && a.Type.String() == b.Type.String() && a.Type.Schema() == b.Type.Schema()
}

// hasFact reports whether a fact is in a list.
func hasFact(list []Var, v Var) bool {
	return slices.ContainsFunc(list, func(other Var) bool { return sameFact(v, other) })
}

// findShared lists the facts that several points have: of those of one name, the one that most points have.
func (d *describer) findShared() {
	most := map[string]int{}
	for _, p := range d.points {
		for _, v := range p.Vars {
			points := 0
			for _, q := range d.points {
				if hasFact(q.Vars, v) {
					points++
				}
			}
			if v.scope != nil || points < 2 || points <= most[v.Name] {
				continue
			}
			most[v.Name] = points
			d.facts = append(slices.DeleteFunc(d.facts, func(other Var) bool { return other.Name == v.Name }), v)
		}
	}
	slices.SortFunc(d.facts, func(a, b Var) int { return strings.Compare(a.Name, b.Name) })
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

// countAll counts the record types that will be mentioned.
func (d *describer) countAll() {
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
	vars(d.facts, nil)
	for _, p := range d.points {
		vars(own(p.Vars, d.facts), p.Bounds)
		for _, s := range p.Scopes {
			vars(s.Vars, s.Bounds)
		}
	}
	for i := 0; i < len(d.shared); i++ { // a record without descriptions takes a row, so what it holds needs rows of its own
		for _, f := range d.shared[i].Fields() {
			if plain(d.shared[i]) && d.inline(f.Type) {
				d.count(f.Type)
			}
		}
	}
}

// own are the facts of a list that others do not describe.
func own(list, others []Var) []Var {
	return slices.DeleteFunc(slices.Clone(list), func(v Var) bool { return hasFact(others, v) })
}

func (d *describer) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format, args...)
	}
}

// add adds a row to the table at hand.
func (d *describer) add(name, kind, doc string) {
	name = "`" + name + "`"
	if n := len(d.rows); n > 0 && kind != "" && d.rows[n-1].kind == kind && d.rows[n-1].doc == doc {
		d.rows[n-1].names += ", " + name
		return
	}
	d.rows = append(d.rows, factRow{name, kind, doc})
}

// table prints the rows at hand, unless there are none.
func (d *describer) table(head string) {
	for i, row := range d.rows {
		if i == 0 {
			d.printf("\n| %s | type | |\n|---|---|---|\n", head)
		}
		d.printf("| %s | %s | %s |\n", row.names, row.kind, row.doc)
	}
	d.rows = nil
}

// records prints the record types that several facts have: small ones in a row each, and the others in a table each.
func (d *describer) records() {
	if len(d.shared) == 0 {
		return
	}
	slices.SortFunc(d.shared, func(a, b *lang.Schema) int { return strings.Compare(a.Name(), b.Name()) })
	d.printf("\n## Records\n\nTypes that several facts have. A dot reads a field of a field, as in `policy.maxAllowed.cpu`.\n")
	header := "\n| record | fields |\n|---|---|\n"
	for _, schema := range d.shared {
		if d.small(schema) {
			d.printf("%s| %s | %s |\n", header, schema.Name(), d.fields(schema))
			header = ""
		}
	}
	for _, schema := range d.shared {
		if !d.small(schema) {
			d.printf("\n### %s\n", schema.Name())
			for _, f := range schema.Fields() {
				d.row(f.Name, f.Type, false, f.Doc)
			}
			d.table("field")
		}
	}
}

// fields lists the fields of a record for a cell, but for those that have rows of their own.
func (d *describer) fields(schema *lang.Schema) string {
	separator := "<br>"
	if plain(schema) {
		separator = ", "
	}
	var out []string
	for _, f := range schema.Fields() {
		if d.inline(f.Type) {
			continue
		}
		field := "`" + f.Name + "` " + d.kind(f.Type)
		if f.Doc != "" {
			field += ": " + f.Doc
		}
		out = append(out, field)
	}
	return strings.Join(out, separator)
}

// plain reports whether no field of a record is described.
func plain(schema *lang.Schema) bool {
	return !slices.ContainsFunc(schema.Fields(), func(f lang.Field) bool { return f.Doc != "" })
}

// small reports whether the fields of a record fit into a cell.
func (d *describer) small(schema *lang.Schema) bool {
	return (len(schema.Fields()) <= 5 || plain(schema)) && !slices.ContainsFunc(schema.Fields(), func(f lang.Field) bool { return d.inline(f.Type) })
}

// inline reports whether the fields of a type are rows of the fact that has it, as no other fact does.
func (d *describer) inline(t lang.Type) bool { return t.Schema() != nil && d.uses[t.Schema()] < 2 }

// kind is a type, with a link to its record.
func (d *describer) kind(t lang.Type) string {
	schema := t.Schema()
	if schema == nil {
		return t.String()
	}
	link := "#records"
	if !d.small(schema) {
		link = "#" + strings.ToLower(schema.Name())
	}
	link = fmt.Sprintf("[%s](%s)", schema.Name(), link)
	if !t.IsRecord() {
		link = "list of " + link
	}
	return link
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
		d.add(v.Name, kind, fmt.Sprintf("%s; `%s` has what `each: %s` below has, as rules have left it so far", v.Doc, entry, v.scope.Name))
	}
}

// row adds a fact, followed by the fields of a record type that no other fact has.
func (d *describer) row(name string, t lang.Type, writable bool, doc string) {
	set := func(doc string) string {
		if writable {
			doc = strings.TrimSpace(doc + " (may be set)")
		}
		return doc
	}
	if !d.inline(t) {
		d.add(name, d.kind(t), set(doc))
		return
	}
	kind := ""
	if !t.IsRecord() {
		kind = "list"
	}
	bare := plain(t.Schema())
	if fields := d.fields(t.Schema()); bare && fields != "" {
		doc = set(strings.TrimPrefix(doc+"; has "+fields, "; has "))
	}
	if doc != "" || kind != "" {
		d.add(name, kind, doc)
	}
	if kind != "" {
		name += "[]" // its entries' fields
	}
	for _, f := range t.Schema().Fields() {
		if !bare || d.inline(f.Type) {
			d.row(name+"."+f.Name, f.Type, writable, f.Doc)
		}
	}
}

// bounds adds what rules may bound.
func (d *describer) bounds(list []BoundVar) {
	for _, b := range list {
		d.add(b.Name, d.kind(b.Type), b.Doc+"; bounds `"+b.Of+"`, write-only")
	}
}

// scope adds what a stage has for each item. What an earlier point or scope has, too, is only named.
func (d *describer) scope(p *Point, s *Scope) {
	vars, bounds, doc := s.Vars, s.Bounds, s.Doc
	if q := d.earlier(p, s); q != nil {
		vars = own(vars, q.Scopes[q.scopeIndex[s.Name]].Vars)
		doc += fmt.Sprintf("; has what it has at [%s](#%s)", q.Name, anchor(q.Name))
	} else if other := p.Scopes[0]; other.Name != s.Name {
		var names []string
		for _, v := range vars {
			if hasFact(other.Vars, v) {
				names = append(names, "`"+v.Name+"`")
			}
		}
		vars = own(vars, other.Vars)
		alike := func(a, b BoundVar) bool { return a.Name == b.Name && a.Doc == b.Doc && a.Of == b.Of }
		if len(bounds) > 0 && slices.EqualFunc(bounds, other.Bounds, alike) {
			names, bounds = append(names, "the bounds"), nil
		}
		if names != nil {
			doc += "; has " + strings.Join(names, ", ") + " as `each: " + other.Name + "` has"
		}
	}
	if len(vars) < len(s.Vars) && len(vars) > 0 {
		doc += ", and:"
	}
	d.rows = append(d.rows, factRow{names: "**`each: " + s.Name + "`**", doc: doc})
	d.vars(vars)
	d.bounds(bounds)
}

// earlier is an earlier point whose scope of that name has nothing that this one lacks; nil = none.
func (d *describer) earlier(p *Point, s *Scope) *Point {
	for _, q := range d.points {
		if q == p {
			break
		}
		if i, ok := q.scopeIndex[s.Name]; ok && len(own(q.Scopes[i].Vars, s.Vars)) == 0 {
			return q
		}
	}
	return nil
}

// anchor is the heading of a point in links.
func anchor(point string) string { return strings.ReplaceAll(strings.ToLower(point), ".", "") }

// outcomes prints what a decision may do.
func (d *describer) outcomes(p *Point) {
	d.printf("\n| do | |\n|---|---|\n")
	for _, o := range p.Outcomes {
		doc := o.Doc
		if o.Name == p.FailSafe {
			doc += "; also when no row holds, or one fails"
		}
		if o.Classed {
			doc += " ([class](#classes))"
		}
		d.printf("| `%s` | %s |\n", o.Name, doc)
	}
}

// classes prints the classes of decisions.
func (d *describer) classes() {
	var printed []Class
	for _, p := range d.points {
		for _, c := range p.Classes {
			if slices.Contains(printed, c) {
				continue
			}
			if printed == nil {
				d.printf("\n## Classes\n\n| class | why a decision leaves things as they are |\n|---|---|\n")
			}
			printed = append(printed, c)
			d.printf("| `%s` | %s |\n", c.Name, c.Doc)
		}
	}
}

// Describe prints a reference of all points in Markdown, and of what they share.
func (r *Registry) Describe(w io.Writer) error {
	d := &describer{w: w, points: r.Points(), uses: map[*lang.Schema]int{}}
	d.describe()
	d.printf("\n")
	d.vocabulary(r)
	return d.err
}

// Describe prints a reference of the point in Markdown: its facts, writable fields and outcomes.
func (p *Point) Describe(w io.Writer) error {
	d := &describer{w: w, points: []*Point{p}, uses: map[*lang.Schema]int{}}
	d.describe()
	return d.err
}

func (d *describer) describe() {
	d.findShared()
	d.countAll()
	for i, p := range d.points {
		if i > 0 {
			d.printf("\n")
		}
		d.point(p)
	}
	if len(d.facts) > 0 {
		d.printf("\n## Facts of several points\n")
		d.vars(d.facts)
		d.table("fact")
	}
	d.records()
	d.classes()
}

func (d *describer) point(p *Point) {
	d.printf("## %s\n\n%s Takes %s.\n", p.Name, p.Doc, p.Kind)
	var others []string
	for _, v := range p.Vars {
		if hasFact(d.facts, v) {
			others = append(others, "`"+v.Name+"`")
		}
	}
	if others != nil {
		d.rows = append(d.rows, factRow{names: strings.Join(others, ", "), doc: "as [at other points](#facts-of-several-points)"})
	}
	d.vars(own(p.Vars, d.facts))
	d.bounds(p.Bounds)
	for i := range p.Scopes {
		d.scope(p, &p.Scopes[i])
	}
	d.table("fact")
	if len(p.Solvers) > 0 {
		d.printf("\n| solve | chooses within the bounds set so far |\n|---|---|\n")
		for _, s := range p.Solvers {
			d.printf("| `%s` | %s |\n", s.Name, s.Doc)
		}
	}
	if len(p.Outcomes) > 0 {
		d.outcomes(p)
	}
	if p.Objects != nil {
		d.printf("\nRules see `self` (what is at `at`) and `oldSelf` (an optional: what was there before; not inside lists). " +
			"Those that are not enforced in the schema also see `object` and `oldObject` (an optional), `gates`, the params of their rule set, and the facts above.\n")
	}
}
