package resolve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/source"
)

// Digest hashes what rules mean: expressions, conditions and names, not prose or positions.
type Digest struct{ h hash.Hash }

// NewDigest returns an empty digest.
func NewDigest() Digest { return Digest{sha256.New()} }

// String is the digest so far, 12 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d.h.Sum(nil))[:12] }

// Line adds one record; quoted values keep records distinct.
func (d Digest) Line(what string, values ...any) {
	fmt.Fprint(d.h, what)
	for _, v := range values {
		if s, ok := v.(source.Scalar); ok {
			v = s.Value
		}
		fmt.Fprintf(d.h, " %q", fmt.Sprint(v))
	}
	fmt.Fprintln(d.h)
}

// Commas joins a list with commas.
func Commas(list []source.Scalar) string {
	return strings.Join(source.Values(list), ", ")
}

func (d Digest) ruleSet(s *document.RuleSet) {
	d.Line("set", s.ID(), s.Point, s.Gate)
	for _, p := range s.Params {
		d.Line("param", p.Name, p.Type, p.Default, p.Min, p.Max)
	}
	d.Body(s)
}

// Definitions adds those that a part calls.
func (d Digest) Definitions(called []*document.Definition) {
	for _, f := range called {
		d.Line("definition", f.Signature(), f.Expression)
	}
}

// Body adds what a rule set does; parameter values are added where they are known.
func (d Digest) Body(s *document.RuleSet) {
	d.variables(s.Variables)
	for i := range s.Decisions {
		d.decision(&s.Decisions[i])
	}
	for i := range s.Stages {
		d.stage(&s.Stages[i])
	}
	for i := range s.Validations {
		d.validation(&s.Validations[i])
	}
}

func (d Digest) variables(list []document.Variable) {
	for _, v := range list {
		d.Line("var", v.Name, v.Expression)
	}
}

func (d Digest) stage(s *document.Stage) {
	d.Line("stage", s.Name, Commas(s.Each), s.When, s.OnError, Commas(s.Without))
	if !s.Solve.IsZero() {
		d.Line("solve", s.Solve)
	}
	d.variables(s.Variables)
	for i := range s.Rules {
		d.rule(&s.Rules[i])
	}
}

func (d Digest) rule(r *document.Rule) {
	d.Line("rule", r.Name, r.When, r.Note, Commas(r.Without))
	for _, a := range r.Set {
		d.Line("set", a.Path, a.Expression)
	}
	for _, u := range r.Unset {
		d.Line("unset", u)
	}
}

func (d Digest) decision(x *document.Decision) {
	d.Line("decision", x.Name, x.When, x.Do, x.ReasonExpression)
	if !x.Class.IsZero() { // the digest of rows without one is as before
		d.Line("class", x.Class)
	}
	if !x.UntilExpression.IsZero() {
		d.Line("until", x.UntilExpression)
	}
}

func (d Digest) validation(v *document.Validation) {
	d.Line("validation", v.Severity, v.Name, v.When, v.Expression, v.Message, v.MessageExpression, v.FieldPath, v.Reason, Commas(v.Axes), Commas(v.Without))
	for _, at := range v.At {
		d.Line("at", at)
	}
	for _, e := range v.Enforce {
		d.Line("enforce", e)
	}
}
