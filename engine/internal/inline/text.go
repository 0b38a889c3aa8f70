package inline

import (
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/celvpa/celvpa/engine/source"
)

// text is an expression that knows where its parts come from.
type text struct {
	runes     []rune
	pieces    []source.Piece
	commented bool // it has a comment
}

func (t *text) write(s string) { t.runes = append(t.runes, []rune(s)...) }

// add appends a part of another text. What that has from a definition stands at from; -1 = where it
// stood there.
func (t *text) add(other text, start, end, from int) {
	for i, p := range other.pieces {
		next := len(other.runes)
		if i+1 < len(other.pieces) {
			next = other.pieces[i+1].At
		}
		if next <= start || p.At >= end {
			continue
		}
		skipped := max(0, start-p.At)
		p.At = len(t.runes) + max(0, p.At-start)
		if p.Of == nil {
			p.From += skipped
		} else {
			p.OfAt += skipped
			if from >= 0 {
				p.From = from
			}
		}
		t.pieces = append(t.pieces, p)
	}
	t.runes, t.commented = append(t.runes, other.runes[start:end]...), t.commented || other.commented
}

// put appends a part in place of what stands at [start, end) of its surroundings, with parentheses if
// it needs them there.
func (t *text) put(part text, binding int, around text, start, end int) {
	first, last := trimmed(part.runes, 0, len(part.runes))
	bare := !around.commented && fits(binding, around.runes, start, end)
	if !bare {
		t.write("(")
	}
	t.add(part, first, last, -1)
	if part.commented {
		t.write("\n")
	}
	if !bare {
		t.write(")")
	}
}

func trimmed(r []rune, start, end int) (int, int) {
	for start < end && isSpace(r[start]) {
		start++
	}
	for end > start && isSpace(r[end-1]) {
		end--
	}
	return start, end
}

func isSpace(r rune) bool { return strings.ContainsRune(" \t\n\r\f", r) }

// skip returns the index behind the text literal or comment that starts at i; i without one.
func skip(r []rune, i int) int {
	if r[i] == '/' && i+1 < len(r) && r[i+1] == '/' {
		for i < len(r) && r[i] != '\n' {
			i++
		}
		return i
	}
	if r[i] != '\'' && r[i] != '"' {
		return i
	}
	raw := i > 0 && (r[i-1] == 'r' || r[i-1] == 'R')
	quote := r[i : i+1]
	if i+2 < len(r) && r[i+1] == r[i] && r[i+2] == r[i] {
		quote = r[i : i+3]
	}
	for i += len(quote); i < len(r); i++ {
		if r[i] == '\\' && !raw {
			i++
		} else if i+len(quote) <= len(r) && slices.Equal(r[i:i+len(quote)], quote) {
			return i + len(quote)
		}
	}
	return len(r)
}

func hasComment(r []rune) bool {
	for i := 0; i < len(r); i++ {
		if next := skip(r, i); next > i {
			if r[i] == '/' {
				return true
			}
			i = next - 1
		}
	}
	return false
}

// span is a part of a text.
type span struct{ start, end int }

// arguments returns those of the call whose parenthesis opens at an index, and the index behind the one
// that closes it. The text has been parsed, so its brackets match.
func arguments(r []rune, open int) (args []span, behind int) {
	depth, start := 0, open+1
	for i := open; i < len(r); i++ {
		if next := skip(r, i); next > i {
			i = next - 1
			continue
		}
		switch r[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				return append(args, span{start, i}), i + 1
			}
		case ',':
			if depth == 1 {
				args, start = append(args, span{start, i}), i+1
			}
		}
	}
	return args, len(r)
}

// How tightly expressions and operators bind.
const (
	bindsConditional = iota
	bindsOr
	bindsAnd
	bindsRelation
	bindsSum
	bindsProduct
	bindsUnary
	bindsMember
	bindsUnknown
	free = -1 // a bracket, a comma, or nothing
)

var bindings = map[string]int{
	operators.Conditional: bindsConditional, operators.LogicalOr: bindsOr, operators.LogicalAnd: bindsAnd,
	operators.Equals: bindsRelation, operators.NotEquals: bindsRelation, operators.Less: bindsRelation, operators.LessEquals: bindsRelation,
	operators.Greater: bindsRelation, operators.GreaterEquals: bindsRelation, operators.In: bindsRelation,
	operators.Add: bindsSum, operators.Subtract: bindsSum, operators.Multiply: bindsProduct, operators.Divide: bindsProduct, operators.Modulo: bindsProduct,
	operators.LogicalNot: bindsUnary, operators.Negate: bindsUnary,
}

// bindingOf is how tightly an expression, written as a text, binds.
func bindingOf(e celast.Expr, written []rune) int {
	first, last := trimmed(written, 0, len(written))
	if first < last && written[first] == '(' {
		if _, behind := arguments(written, first); behind == last {
			return bindsMember
		}
	}
	switch e.Kind() {
	case celast.CallKind:
		if b, ok := bindings[e.AsCall().FunctionName()]; ok {
			return b
		}
	case celast.LiteralKind:
		switch n := e.AsLiteral().(type) {
		case types.Int:
			if n < 0 {
				return bindsUnary
			}
		case types.Double:
			if n < 0 {
				return bindsUnary
			}
		}
	}
	return bindsMember
}

// fits reports whether what binds so tightly needs no parentheses in place of [start, end).
func fits(binding int, around []rune, start, end int) bool {
	before, after := before(around, start), after(around, end)
	chained := binding == bindsAnd || binding == bindsOr
	return (binding > before || binding == before && chained) &&
		(binding > after || binding == after && binding != bindsConditional)
}

// before is how tightly the operator in front of an index binds.
func before(r []rune, at int) int {
	_, at = trimmed(r, 0, at)
	if at == 0 {
		return free
	}
	word := at >= 2 && string(r[at-2:at]) == "in" && (at == 2 || !isWord(r[at-3]))
	switch c := r[at-1]; {
	case strings.ContainsRune("([{,", c):
		return free
	case c == '?' || c == ':':
		return bindsConditional
	case c == '|':
		return bindsOr
	case c == '&':
		return bindsAnd
	case strings.ContainsRune("=<>", c) || word:
		return bindsRelation
	case c == '+':
		return bindsSum
	case strings.ContainsRune("*/%", c):
		return bindsProduct
	case c == '-':
		if _, end := trimmed(r, 0, at-1); end > 0 && (isWord(r[end-1]) || strings.ContainsRune(")]}'\"", r[end-1])) {
			return bindsSum
		}
		return bindsMember // -1.x() means (-1).x()
	case c == '!':
		return bindsUnary
	}
	return bindsUnknown
}

// after is how tightly the operator at or behind an index binds.
func after(r []rune, at int) int {
	at, _ = trimmed(r, at, len(r))
	if at == len(r) {
		return free
	}
	switch c := r[at]; {
	case strings.ContainsRune(")]},", c):
		return free
	case c == '?' || c == ':':
		return bindsConditional
	case c == '|':
		return bindsOr
	case c == '&':
		return bindsAnd
	case strings.ContainsRune("=!<>i", c): // i of in
		return bindsRelation
	case c == '+' || c == '-':
		return bindsSum
	case strings.ContainsRune("*%", c) || c == '/' && (at+1 == len(r) || r[at+1] != '/'):
		return bindsProduct
	case c == '.' || c == '[':
		return bindsMember
	}
	return bindsUnknown
}

func isWord(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}
