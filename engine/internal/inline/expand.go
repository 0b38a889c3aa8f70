package inline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// Expand puts the expressions of definitions in place of their calls, in the tree of an expression that
// parse has parsed. Faults of calls go to ps; such calls stay. In the scalar that it returns, positions of
// nodes lead back to the call and to the definition.
func (d *Definitions) Expand(s source.Scalar, tree *Tree, parse Parser, subject string, ps *source.Collector) source.Scalar {
	if !d.mentioned(s.Value) {
		return s
	}
	x := &expansion{Definitions: d, tree: tree, parse: parse, s: s, subject: subject, ps: ps, bodies: map[*definition]*body{}}
	celast.PostOrderVisit(tree.Expr(), celast.NewExprVisitor(x.visit))
	if x.tooLarge {
		ps.At(s, subject, fmt.Sprintf("the expression has more than %d parts with its definitions: split it with variables", lang.MaxExpressionSize))
	}
	return s.WithOrigins(x.origins)
}

func (d *Definitions) mentioned(expression string) bool {
	for name := range d.byName {
		if strings.Contains(expression, name) {
			return true
		}
	}
	return false
}

// Parser parses expressions with the macros that the caller knows.
type Parser = func(expression string) (*cel.Ast, *cel.Issues)

// expansion expands the calls in one expression.
type expansion struct {
	*Definitions
	tree     *Tree
	parse    Parser
	s        source.Scalar
	subject  string
	ps       *source.Collector
	bodies   map[*definition]*body
	origins  []source.Origin
	tooLarge bool
}

// body is the expression of a definition, in which calls are expanded.
type body struct {
	tree *celast.AST
	s    source.Scalar
}

// visit expands a node if it calls a definition.
func (x *expansion) visit(e celast.Expr) {
	if e.Kind() != celast.CallKind || x.tooLarge {
		return
	}
	f, call := x.byName[e.AsCall().FunctionName()], e.AsCall()
	if f == nil || f.faulty || call.IsMemberFunction() || !x.fits(f, call.Args(), e) {
		return
	}
	if b := x.body(f); b != nil {
		x.replace(e, f, b, call.Args())
	}
	x.tooLarge = x.tree.last > lang.MaxExpressionSize
}

// fits reports faults of a call.
func (x *expansion) fits(f *definition, args []celast.Expr, e celast.Expr) bool {
	problem := func(format string, args ...any) bool {
		loc := x.tree.SourceInfo().GetStartLocation(e.ID())
		x.ps.Inside(x.s, loc.Line(), loc.Column(), x.subject, fmt.Sprintf(format, args...))
		return false
	}
	if len(args) != len(f.Args) {
		plural := "s"
		if len(f.Args) == 1 {
			plural = ""
		}
		return problem("definition %s takes %d argument%s, not %d", f.Signature(), len(f.Args), plural, len(args))
	}
	for _, arg := range args {
		for _, ident := range freeNames(arg, Names{}) {
			if f.loops[ident.AsIdent()] {
				return problem("definition %s has a variable %s of its own, and an argument reads another one; give yours another name", f.Signature(), ident.AsIdent())
			}
		}
	}
	return true
}

// body parses the expression of a definition and expands its calls, once; nil if that fails.
func (x *expansion) body(f *definition) *body {
	if known, ok := x.bodies[f]; ok {
		return known
	}
	x.bodies[f] = nil
	ast, issues := x.parse(f.Expression.Value)
	if issues.Err() != nil {
		e := issues.Errors()[0]
		x.ps.Inside(f.Expression, e.Location.Line(), e.Location.Column(), f.subject, e.Message)
		return nil
	}
	before := len(x.ps.List)
	s := x.Expand(f.Expression, NewTree(ast.NativeRep()), x.parse, f.subject, x.ps)
	if len(x.ps.List) == before {
		x.bodies[f] = &body{ast.NativeRep(), s}
	}
	return x.bodies[f]
}

// replace puts a body in place of a call.
func (x *expansion) replace(e celast.Expr, f *definition, b *body, args []celast.Expr) {
	info := x.tree.SourceInfo()
	at, _ := info.GetOffsetRange(e.ID())
	start := int(at.Start) - len([]rune(f.Name.Value)) // CEL has the parenthesis
	out := x.tree.Make.CopyExpr(b.tree.Expr())
	out.RenumberIDs(func(id int64) int64 {
		x.tree.last++
		if inside, found := b.tree.SourceInfo().GetOffsetRange(id); found {
			origin, nested := b.s.OriginAt(int(inside.Start))
			if !nested {
				origin = source.Origin{Of: &f.Expression, At: int(inside.Start), Name: "definition " + f.Name.Value}
			}
			origin.Call = start
			offset := int32(x.s.OffsetOfOrigin(len(x.origins)))
			x.origins = append(x.origins, origin)
			info.SetOffsetRange(x.tree.last, celast.OffsetRange{Start: offset, Stop: offset})
		}
		return x.tree.last
	})
	var reads []celast.Expr
	celast.PreOrderVisit(out, celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.IdentKind {
			reads = append(reads, e)
		}
	}))
	names := source.Values(f.Args)
	for _, ident := range reads {
		if i := slices.Index(names, ident.AsIdent()); i >= 0 {
			if written, found := info.GetOffsetRange(args[i].ID()); found {
				info.SetOffsetRange(ident.ID(), written)
			}
			ident.SetKindCase(x.tree.Copy(args[i]))
		}
	}
	celast.PostOrderVisit(out, celast.NewExprVisitor(x.selectField))
	if from, found := info.GetOffsetRange(out.ID()); found {
		info.SetOffsetRange(e.ID(), from)
	}
	e.SetKindCase(out)
	x.tree.Rewritten = true
}

// selectField turns [?'field'], where the field was an argument, into .?field, which records know.
func (x *expansion) selectField(e celast.Expr) {
	if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != operators.OptIndex {
		return
	}
	if _, ok := closure.LiteralText(e.AsCall().Args()[1]); ok {
		e.SetKindCase(x.tree.Make.NewCall(e.ID(), operators.OptSelect, e.AsCall().Args()...))
	}
}
