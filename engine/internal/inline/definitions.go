// Package inline puts the expression of a definition in place of each call, with the arguments in place
// of their names. It edits syntax trees before CEL checks them, so that types, units and costs are checked
// on the result. It compiles nothing.
package inline

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/ext"

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

// definition is one that calls may be replaced by.
type definition struct {
	*document.Definition
	subject string          // names it and the pipeline that declares it
	loops   map[string]bool // variables of comprehensions in its expression
	faulty  bool            // reported already
}

// New checks the definitions of a pipeline. Faults go to ps.
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

// prepare reports what the expression of a definition must not read or call.
func (d *Definitions) prepare(f *definition, p *document.Pipeline, names Names, ps *source.Collector) {
	before := len(ps.List)
	if n := len(f.Expression.Value); n > lang.MaxExpressionSize {
		ps.At(f.Expression, f.subject, fmt.Sprintf("the expression has %d bytes; at most %d are read: split it", n, lang.MaxExpressionSize))
		return
	}
	parsed, issues := macros().Parse(f.Expression.Value)
	if issues.Err() != nil {
		e := issues.Errors()[0]
		message, _, _ := strings.Cut(e.Message, " expecting {")
		ps.Inside(f.Expression, e.Location.Line(), e.Location.Column(), f.subject, strings.Replace(message, "Syntax", "syntax", 1))
		return
	}
	ast := parsed.NativeRep()
	expanded := d.Expand(f.Expression, NewTree(ast), macros().Parse, f.subject, ps)
	if len(ps.List) > before {
		return
	}
	problem := func(e celast.Expr, format string, args ...any) {
		loc := ast.SourceInfo().GetStartLocation(e.ID())
		ps.Inside(expanded, loc.Line(), loc.Column(), f.subject, fmt.Sprintf(format, args...))
	}
	d.calls(f, ast, p, names, problem)
	read := f.reads(ast, names, problem)
	for _, arg := range f.Args {
		if len(ps.List) == before && !read[arg.Value] {
			ps.At(arg, f.subject, fmt.Sprintf("argument %s is never used; remove it", arg.Value))
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

// reads returns the arguments that are read, and reports other names.
func (f *definition) reads(ast *celast.AST, names Names, problem problemAt) map[string]bool {
	args, read := source.Values(f.Args), map[string]bool{}
	for _, ident := range freeNames(ast.Expr(), names) {
		switch name := ident.AsIdent(); {
		case slices.Contains(args, name):
			read[name] = true
		case !names.Constants[name] && !names.Partly: // it may be the namespace of a function
			problem(ident, "%s reads only its arguments, params and gates, so not %s; add an argument for it", f.Signature(), name)
		}
	}
	return read
}

// unknown explains a function that a definition calls.
func (d *Definitions) unknown(f *definition, p *document.Pipeline, name string, names Names) string {
	switch {
	case name == f.Name.Value:
		return f.Name.Value + " calls itself; its expression stands in place of each call, so it cannot"
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

// Faulty reports whether a definition has faults, so that its calls stay.
func (d *Definitions) Faulty(name string) bool { return d.byName[name] != nil && d.byName[name].faulty }

var identifier = regexp.MustCompile(`^[a-zA-Z_]\w*$`)

// macros parses with the macros of all environments.
var macros = sync.OnceValue(func() *cel.Env {
	env, err := cel.NewEnv(cel.OptionalTypes(), ext.TwoVarComprehensions())
	if err != nil {
		panic(fmt.Sprintf("building the parser of definitions: %v", err)) // it has no inputs
	}
	return env
})

// loopVariables are those of a comprehension.
func loopVariables(loop celast.ComprehensionExpr) []string {
	names := []string{loop.IterVar(), loop.AccuVar()}
	if loop.HasIterVar2() {
		names = append(names, loop.IterVar2())
	}
	return names
}

// calledInNamespace reports calls such as sets.contains(…), whose target is no value.
func calledInNamespace(e celast.Expr, names Names) bool {
	if e.Kind() != celast.CallKind || !e.AsCall().IsMemberFunction() || e.AsCall().Target().Kind() != celast.IdentKind {
		return false
	}
	call := e.AsCall()
	return names.Functions[call.Target().AsIdent()+"."+call.FunctionName()]
}

// freeNames lists the names that an expression reads from outside.
func freeNames(e celast.Expr, names Names) (out []celast.Expr) {
	bound := map[string]int{}
	var visit func(celast.Expr)
	visit = func(e celast.Expr) {
		switch e.Kind() {
		case celast.IdentKind:
			if bound[e.AsIdent()] == 0 {
				out = append(out, e)
			}
		case celast.CallKind:
			if e.AsCall().IsMemberFunction() && !calledInNamespace(e, names) {
				visit(e.AsCall().Target())
			}
			for _, arg := range e.AsCall().Args() {
				visit(arg)
			}
		case celast.SelectKind:
			visit(e.AsSelect().Operand())
		case celast.ListKind:
			for _, element := range e.AsList().Elements() {
				visit(element)
			}
		case celast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				visit(entry.AsMapEntry().Key())
				visit(entry.AsMapEntry().Value())
			}
		case celast.StructKind:
			for _, field := range e.AsStruct().Fields() {
				visit(field.AsStructField().Value())
			}
		case celast.ComprehensionKind:
			loop := e.AsComprehension()
			visit(loop.IterRange())
			visit(loop.AccuInit())
			inside := loopVariables(loop)
			for _, name := range inside {
				bound[name]++
			}
			visit(loop.LoopCondition())
			visit(loop.LoopStep())
			visit(loop.Result())
			for _, name := range inside {
				bound[name]--
			}
		}
	}
	visit(e)
	return out
}
