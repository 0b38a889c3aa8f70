// Package inline spells out calls of definitions: the expression of a definition stands in place of
// each call, with the arguments in place of their names. It works on text, so that compiled rules, CRDs
// and admission policies hold the same expression. Types, units and costs are checked on the result.
package inline

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// Names are those that have a meaning in rules.
type Names struct {
	Functions map[string]bool   // that some expression may call, also methods and macros
	Partly    bool              // Functions lacks those of points that are not compiled
	Constants map[string]bool   // that all expressions may read
	Axes      map[string]bool   // also plurals
	Taken     map[string]string // what other names mean, e.g. a fact
}

// Definitions are those of a pipeline. They are immutable.
type Definitions struct {
	subject string // names the pipeline
	byName  map[string]*definition
}

// definition is ready to stand in place of its calls.
type definition struct {
	*document.Definition
	subject string // names it and the pipeline that declares it
	body    text   // calls of other definitions are spelt out
	binding int
	places  []place         // of its arguments in the body, in order
	loops   map[string]bool // variables of comprehensions in the body
	faulty  bool            // reported already
}

// place is where the argument of an index stands.
type place struct{ start, arg int }

// New checks the definitions of a pipeline and spells them out. Faults go to ps.
func New(p *document.Pipeline, names Names, ps *source.Collector) *Definitions {
	d := &Definitions{subject: p.Subject(), byName: map[string]*definition{}}
	for i := range p.Definitions {
		f := &definition{Definition: &p.Definitions[i]}
		f.subject = p.DefinitionFrom(f.Name.Value).Subject() + ", definition " + f.Name.Value
		before := len(ps.List)
		d.name(f, names, ps)
		d.prepare(f, p, names, ps)
		f.faulty = f.faulty || len(ps.List) > before
		d.byName[f.Name.Value] = f
	}
	return d
}

// name reports names that mean something else.
func (d *Definitions) name(f *definition, names Names, ps *source.Collector) {
	taken := func(what string, at source.Scalar, by string) {
		ps.At(at, f.subject, fmt.Sprintf("the name %q of %s is taken by %s; choose another", at.Value, what, by))
	}
	switch name := f.Name.Value; {
	case names.Functions[name]:
		taken("the definition", f.Name, "a function")
	case names.Axes[name]:
		taken("the definition", f.Name, "an axis")
	case names.Taken[name] != "":
		taken("the definition", f.Name, names.Taken[name])
	}
	for _, arg := range f.Args {
		if names.Axes[arg.Value] {
			taken("an argument", arg, "an axis")
		}
	}
}

// prepare spells out the body, and reports what it must not read or call.
func (d *Definitions) prepare(f *definition, p *document.Pipeline, names Names, ps *source.Collector) {
	subject, before := f.subject, len(ps.List)
	if n := len(f.Expression.Value); n > lang.MaxExpressionSize {
		ps.At(f.Expression, subject, fmt.Sprintf("the expression has %d bytes; at most %d are read: split it", n, lang.MaxExpressionSize))
		return
	}
	written := d.Spell(f.Expression, subject, ps)
	ast, issues := parse(written.Value)
	if issues.Err() != nil {
		e := issues.Errors()[0]
		message, _, _ := strings.Cut(e.Message, " expecting {")
		ps.Inside(written, e.Location.Line(), e.Location.Column(), subject, strings.Replace(message, "Syntax", "syntax", 1))
	}
	if len(ps.List) > before {
		return
	}
	f.body = bodyOf(f, written)
	f.binding = bindingOf(ast.Expr(), f.body.runes)
	if ast.Expr().Kind() == celast.IdentKind {
		f.binding = bindsConditional // as loosely as any argument
	}
	problem := func(e celast.Expr, format string, args ...any) {
		loc := ast.SourceInfo().GetStartLocation(e.ID())
		ps.Inside(written, loc.Line(), loc.Column(), subject, fmt.Sprintf(format, args...))
	}
	d.calls(f, ast, p, names, problem)
	f.reads(ast, names, problem)
	for i, arg := range f.Args {
		if len(ps.List) == before && !slices.ContainsFunc(f.places, func(p place) bool { return p.arg == i }) {
			ps.At(arg, subject, fmt.Sprintf("argument %s is never read; take it out", arg.Value))
		}
	}
}

// problemAt reports a fault of a definition at a node.
type problemAt = func(e celast.Expr, format string, args ...any)

// calls notes the variables of comprehensions, and reports unknown functions.
func (d *Definitions) calls(f *definition, ast *celast.AST, p *document.Pipeline, names Names, problem problemAt) {
	f.loops = map[string]bool{}
	args := source.Values(f.Args)
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.ComprehensionKind:
			for _, name := range loopVariables(e.AsComprehension()) {
				f.loops[name] = true
				if slices.Contains(args, name) {
					problem(e, "%s is an argument of %s; call the variable something else", name, f.Signature())
				}
			}
		case celast.CallKind:
			switch name := e.AsCall().FunctionName(); {
			case !identifier.MatchString(name) || names.Functions[name] || calledInNamespace(e, names):
			case d.Faulty(name):
				f.faulty = true
			case !names.Partly:
				problem(e, "%s", d.unknown(f, p, name, names))
			}
		}
	}))
}

// reads notes where arguments stand, and reports other names.
func (f *definition) reads(ast *celast.AST, names Names, problem problemAt) {
	args := source.Values(f.Args)
	for _, ident := range freeNames(ast.Expr(), names) {
		name := ident.AsIdent()
		at, found := ast.SourceInfo().GetOffsetRange(ident.ID())
		i := slices.Index(args, name)
		switch {
		case i >= 0 && found:
			f.places = append(f.places, place{int(at.Start), i})
		case !names.Constants[name] && !names.Partly: // it may be the namespace of a function
			problem(ident, "%s reads only its arguments, params and gates, so not %s; add an argument for it", f.Signature(), name)
		}
	}
	slices.SortFunc(f.places, func(a, b place) int { return a.start - b.start })
	f.places = slices.Compact(f.places) // macros copy
}

// unknown explains a function that a definition calls.
func (d *Definitions) unknown(f *definition, p *document.Pipeline, name string, names Names) string {
	switch {
	case name == f.Name.Value:
		return f.Name.Value + " calls itself; a definition is spelt out, so it cannot"
	case slices.ContainsFunc(p.Definitions, func(other document.Definition) bool { return other.Name.Value == name }):
		return fmt.Sprintf("%s is declared below; put it above %s", name, f.Name.Value)
	}
	return fmt.Sprintf("no function or definition %s%s", name, d.hint(name, names.Functions))
}

// Hint suggests what an unknown function could mean.
func (d *Definitions) Hint(name string, functions map[string]bool) string {
	hint := d.hint(name, functions)
	if hint == "" {
		hint = "; a pipeline of your own defines in spec.definitions what its rule sets call"
	}
	return fmt.Sprintf("neither a function nor a definition of %s%s", d.subject, hint)
}

func (d *Definitions) hint(name string, functions map[string]bool) string {
	known := slices.Sorted(maps.Keys(functions))
	for other := range d.byName {
		known = append(known, other)
	}
	if alike := faults.DidYouMean(name, known); alike != "" {
		return "; " + alike
	}
	return ""
}

// Signature is how a definition is called; empty without one of that name.
func (d *Definitions) Signature(name string) string {
	if d.byName[name] == nil {
		return ""
	}
	return d.byName[name].Signature()
}

// Faulty reports whether a definition has faults, so that its calls are not spelt out.
func (d *Definitions) Faulty(name string) bool { return d.byName[name] != nil && d.byName[name].faulty }

var identifier = regexp.MustCompile(`^[a-zA-Z_]\w*$`)

// bodyOf is the spelt-out expression of a definition: all of it comes from definitions.
func bodyOf(f *definition, spelt source.Scalar) text {
	t := textOf(spelt)
	for i := range t.pieces {
		if p := &t.pieces[i]; p.Of == nil {
			p.Of, p.OfAt, p.Name = &f.Expression, p.From, "definition "+f.Name.Value
		}
	}
	return t
}

func textOf(s source.Scalar) text {
	t := text{runes: []rune(s.Value), pieces: slices.Clone(s.Pieces())}
	t.commented = hasComment(t.runes)
	if len(t.pieces) == 0 {
		t.pieces = []source.Piece{{}}
	}
	return t
}
