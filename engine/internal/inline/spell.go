package inline

import (
	"fmt"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"

	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// Spell returns an expression with all calls of definitions spelt out. Faults of calls go to ps; such
// calls stay. So does an expression that does not parse: its faults are reported when it is compiled.
func (d *Definitions) Spell(s source.Scalar, subject string, ps *source.Collector) source.Scalar {
	if !d.mentioned(s.Value) {
		return s
	}
	ast, issues := parse(s.Value)
	if issues.Err() != nil {
		return s
	}
	w := &speller{d: d, s: s, subject: subject, ps: ps, ast: ast, from: textOf(s)}
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(w.find))
	slices.SortFunc(w.calls, func(a, b call) int { return a.start - b.start })
	w.calls = slices.CompactFunc(w.calls, func(a, b call) bool { return a.start == b.start }) // macros copy
	if len(w.calls) == 0 {
		return s
	}
	out := w.spelt(0, len(w.from.runes))
	if w.tooLong {
		ps.At(s, subject, fmt.Sprintf("the expression has more than %d bytes with its definitions spelt out: split it with variables", lang.MaxExpressionSize))
		return s
	}
	return s.Spliced(string(out.runes), out.pieces)
}

func (d *Definitions) mentioned(expression string) bool {
	for name := range d.byName {
		if strings.Contains(expression, name) {
			return true
		}
	}
	return false
}

// speller spells out the calls of one expression.
type speller struct {
	d       *Definitions
	s       source.Scalar
	subject string
	ps      *source.Collector
	ast     *celast.AST
	from    text
	calls   []call
	tooLong bool
}

// call is a call of a definition in a text.
type call struct {
	span
	of      *definition
	args    []celast.Expr
	written []span // args
}

// find notes a call that can be spelt out.
func (w *speller) find(e celast.Expr) {
	if e.Kind() != celast.CallKind {
		return
	}
	f := w.d.byName[e.AsCall().FunctionName()]
	at, found := w.ast.SourceInfo().GetOffsetRange(e.ID())
	if f == nil || f.faulty || !found || e.AsCall().IsMemberFunction() {
		return
	}
	c := call{of: f, args: e.AsCall().Args()}
	c.written, c.end = arguments(w.from.runes, int(at.Start))
	_, nameEnd := trimmed(w.from.runes, 0, int(at.Start))
	if c.start = nameEnd - len([]rune(f.Name.Value)); c.start < 0 || string(w.from.runes[c.start:nameEnd]) != f.Name.Value {
		return
	}
	problem := func(format string, args ...any) {
		loc := w.ast.SourceInfo().GetStartLocation(e.ID())
		w.ps.Inside(w.s, loc.Line(), loc.Column(), w.subject, fmt.Sprintf(format, args...))
	}
	if len(c.args) != len(f.Args) {
		problem("definition %s takes %s, not %d", f.Signature(), counted(len(f.Args), "argument"), len(c.args))
		return
	}
	for _, arg := range c.args {
		for _, ident := range freeNames(arg, Names{}) {
			if f.loops[ident.AsIdent()] {
				problem("definition %s has a variable %s of its own, and an argument reads another one; give yours another name", f.Signature(), ident.AsIdent())
				return
			}
		}
	}
	w.calls = append(w.calls, c)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// spelt returns a part of the expression with its calls spelt out.
func (w *speller) spelt(start, end int) (out text) {
	at := start
	for _, c := range w.calls[w.first(start):] {
		if c.start >= end {
			break
		}
		if c.start < at {
			continue // in an argument
		}
		out.add(w.from, at, c.start, -1)
		out.put(w.body(c), c.of.binding, w.from, c.start, c.end)
		if at = c.end; len(out.runes) > lang.MaxExpressionSize {
			w.tooLong = true
		}
		if w.tooLong {
			return text{}
		}
	}
	out.add(w.from, at, end, -1)
	return out
}

// body is the body of a definition with the arguments of a call.
func (w *speller) body(c call) (out text) {
	args, bindings := make([]text, len(c.args)), make([]int, len(c.args))
	for i, written := range c.written {
		args[i] = w.spelt(written.start, written.end)
		bindings[i] = bindingOf(c.args[i], w.from.runes[written.start:written.end])
		if whole := w.callAt(written); whole != nil {
			bindings[i] = whole.of.binding
		}
	}
	at, body := 0, c.of.body
	for _, p := range c.of.places {
		out.add(body, at, p.start, c.start)
		behind := p.start + len([]rune(c.of.Args[p.arg].Value))
		out.put(args[p.arg], bindings[p.arg], body, p.start, behind)
		if at = behind; w.tooLong || len(out.runes) > lang.MaxExpressionSize {
			w.tooLong = true
			return text{}
		}
	}
	out.add(body, at, len(body.runes), c.start)
	return out
}

// first is the index of the first call that starts at or behind an offset.
func (w *speller) first(at int) int {
	i, _ := slices.BinarySearchFunc(w.calls, at, func(c call, at int) int { return c.start - at })
	return i
}

// callAt returns the call that is all of an argument; nil without one.
func (w *speller) callAt(arg span) *call {
	start, end := trimmed(w.from.runes, arg.start, arg.end)
	if i := w.first(start); i < len(w.calls) && w.calls[i].span == (span{start, end}) {
		return &w.calls[i]
	}
	return nil
}
