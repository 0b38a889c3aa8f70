// Package source tracks positions in rule files, and reports problems with their position, their
// subject and the offending line with a caret.
package source

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Position is a place in a rule file. Line and Col count from 1; Col counts characters, not bytes.
type Position struct {
	File string
	Line int
	Col  int
}

// String formats the position as file:line:col, which editors and terminals make clickable.
func (p Position) String() string {
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Scalar is a YAML string with its position, so that an error inside it can be located.
type Scalar struct {
	Value string
	Pos   Position

	style yaml.Style
	lines []string // the whole file, shared by all its scalars

	origins []Origin // of parts that stand in place of calls
}

// IsZero reports whether the document has no such scalar.
func (s Scalar) IsZero() bool { return s.Value == "" && s.Pos.Line == 0 }

// Source is the whole file.
func (s Scalar) Source() string { return strings.Join(s.lines, "\n") }

// At maps a position in the scalar's value (line from 1, column from 0, as CEL reports them) to the
// file. It walks value and source in parallel to follow quotes, escapes, folding and indentation.
func (s Scalar) At(line, col int) Position {
	if o, ok := s.origin(line, col); ok {
		return s.atOffset(o.Call)
	}
	if s.Pos.Line == 0 || s.Pos.Line > len(s.lines) {
		return s.Pos
	}
	at := sourceCursor{lines: s.lines, line: s.Pos.Line - 1, col: s.Pos.Col - 1, read: -1}
	switch s.style {
	case yaml.LiteralStyle, yaml.FoldedStyle:
		at.nextLine()
	case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle:
		at.col++
	}
	wantLine, wantCol := 1, 0
	for _, r := range s.Value {
		if wantLine == line && wantCol == col {
			break
		}
		at.pass(r)
		if r == '\n' {
			wantLine, wantCol = wantLine+1, 0
		} else {
			wantCol++
		}
	}
	at.settle()
	return Position{File: s.Pos.File, Line: at.line + 1, Col: at.col + 1}
}

// sourceCursor is a position in a file; line and col count from 0.
type sourceCursor struct {
	lines []string
	line  int
	col   int

	runes []rune // of the line that was read last, which may be long
	read  int    // its number; -1 = none
}

func (c *sourceCursor) nextLine() { c.line, c.col = c.line+1, 0 }

// peek returns the current character, '\n' at the end of a line.
func (c *sourceCursor) peek() (rune, bool) {
	if c.line >= len(c.lines) {
		return 0, false
	}
	if c.read != c.line {
		c.runes, c.read = []rune(c.lines[c.line]), c.line
	}
	if c.col >= len(c.runes) {
		return '\n', true
	}
	return c.runes[c.col], true
}

func (c *sourceCursor) advance() {
	if r, ok := c.peek(); ok && r == '\n' {
		c.nextLine()
		return
	}
	c.col++
}

// pass moves past the source of one character of the value.
func (c *sourceCursor) pass(want rune) {
	blank := want == ' ' || want == '\n' || want == '\t'
	for {
		got, ok := c.peek()
		if !ok {
			return
		}
		if blank {
			if got == ' ' || got == '\n' || got == '\t' {
				c.advance()
			}
			return
		}
		c.advance()
		if got == want {
			return
		}
	}
}

// settle moves to the next non-blank character.
func (c *sourceCursor) settle() {
	start := *c
	for {
		got, ok := c.peek()
		if !ok {
			*c = start
			return
		}
		if got != ' ' && got != '\n' && got != '\t' {
			return
		}
		c.advance()
	}
}

// Excerpt returns the line of a position with a caret under its column. Of a long line it returns
// what is around the caret.
func Excerpt(lines []string, p Position) string {
	if p.Line < 1 || p.Line > len(lines) {
		return ""
	}
	text := []rune(strings.ReplaceAll(strings.TrimSuffix(lines[p.Line-1], "\r"), "\t", " "))
	at := min(max(p.Col, 1), len(text)+1) - 1
	begin, end := 0, len(text)
	if end > maxExcerpt {
		begin = min(max(0, at-maxExcerpt/2), end-maxExcerpt)
		end = begin + maxExcerpt
	}
	shown, before := string(text[begin:end]), at-begin
	if begin > 0 {
		shown, before = "… "+shown, before+2
	}
	if end < len(text) {
		shown += " …"
	}
	return fmt.Sprintf("  | %s\n  | %s^", shown, strings.Repeat(" ", before))
}

// maxExcerpt is the longest line that is shown whole, in characters.
const maxExcerpt = 200

// Values returns the strings of scalars.
func Values(list []Scalar) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = s.Value
	}
	return out
}

// Lines is the whole file, one string per line. Do not modify it.
func (s Scalar) Lines() []string { return s.lines }

// Style is the scalar's YAML style: plain, quoted or block.
func (s Scalar) Style() yaml.Style { return s.style }

// NewScalar builds a scalar at a position in a file with the given lines.
func NewScalar(value string, at Position, style yaml.Style, lines []string) Scalar {
	return Scalar{Value: value, Pos: at, style: style, lines: lines}
}
