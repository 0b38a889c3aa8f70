package source

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/celvpa/celvpa/engine/faults"
)

// Problem is one fault in a rule file.
type Problem struct {
	Pos     Position // zero = in no file
	Subject string   // e.g. "RuleSet container-caps, rule caps/max-allowed, set now.cpu"
	Message string
	Excerpt string // the offending line with a caret; may be empty
}

// Error formats file:line:col if there is one, the subject, the message and the excerpt.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.Pos != (Position{}) {
		b.WriteString(p.Pos.String())
		b.WriteString(": ")
	}
	if p.Subject != "" {
		b.WriteString(p.Subject)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	if p.Excerpt != "" {
		b.WriteString("\n")
		b.WriteString(p.Excerpt)
	}
	return b.String()
}

// Collector collects problems, so that a user sees all of them at once.
type Collector struct {
	List []*Problem
}

// Add adds a problem.
func (ps *Collector) Add(p *Problem) { ps.List = append(ps.List, p) }

// At adds a problem at a scalar.
func (ps *Collector) At(s Scalar, subject, message string) {
	pos := s.Pos
	ps.Add(&Problem{Pos: pos, Subject: subject, Message: message, Excerpt: Excerpt(s.lines, pos)})
}

// Inside adds a problem at a position in a scalar's value: line from 1, column from 0.
func (ps *Collector) Inside(s Scalar, line, col int, subject, message string) {
	pos := s.At(line, col)
	ps.Add(&Problem{Pos: pos, Subject: subject, Message: message + s.within(line, col), Excerpt: Excerpt(s.lines, pos)})
}

// Err returns all problems ordered by position, or nil without any.
func (ps *Collector) Err() error {
	ps.Sort()
	errs := make([]error, len(ps.List))
	for i, p := range ps.List {
		errs[i] = p
	}
	return faults.Join(errs...)
}

// Sort orders by file, line and column.
func (ps *Collector) Sort() {
	slices.SortStableFunc(ps.List, func(a, b *Problem) int {
		return cmp.Or(strings.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Col, b.Pos.Col))
	})
}

// Dedupe drops duplicates, e.g. from a rule set that several pipelines share.
func (ps *Collector) Dedupe() {
	seen := map[string]bool{}
	kept := ps.List[:0]
	for _, p := range ps.List {
		if text := p.Error(); !seen[text] {
			seen[text] = true
			kept = append(kept, p)
		}
	}
	ps.List = kept
}

// DropReportedAt drops problems from index from on whose position already has one in [first, from): the
// same stage was compiled before, for another scope or value.
func (ps *Collector) DropReportedAt(first, from int) {
	reported := map[Position]bool{}
	for _, p := range ps.List[first:from] {
		reported[p.Pos] = true
	}
	kept := ps.List[:from]
	for _, p := range ps.List[from:] {
		if !reported[p.Pos] {
			kept = append(kept, p)
		}
	}
	ps.List = kept
}

// Problems lists the problems in an error returned by Load or Compile.
func Problems(err error) []*Problem {
	var many *multierror.Error
	if errors.As(err, &many) {
		var out []*Problem
		for _, e := range many.Errors {
			out = append(out, Problems(e)...)
		}
		return out
	}
	var problem *Problem
	if errors.As(err, &problem) {
		return []*Problem{problem}
	}
	return nil
}
