package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// digest collects the meaning of rules: expressions, conditions and names, not prose and not where they stand.
type digest struct{ h hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

// String is the digest so far. Hex, 12 digits.
func (d digest) String() string { return hex.EncodeToString(d.h.Sum(nil))[:12] }

// line adds one record; values are quoted, so that no two records look the same.
func (d digest) line(what string, values ...any) {
	fmt.Fprint(d.h, what)
	for _, v := range values {
		if s, ok := v.(Scalar); ok {
			v = s.Value
		}
		fmt.Fprintf(d.h, " %q", fmt.Sprint(v))
	}
	fmt.Fprintln(d.h)
}

// commas are the values of a list, separated by commas.
func commas(list []Scalar) string {
	return strings.Join(valuesOf(list), ", ")
}

func (d digest) ruleSet(s *RuleSet) {
	d.line("set", s.ID(), s.Point, s.Gate)
	for _, p := range s.Params {
		d.line("param", p.Name, p.Type, p.Default, p.Min, p.Max)
	}
	d.body(s)
}

// body is what a rule set does; its parameters' values are digested where they are known.
func (d digest) body(s *RuleSet) {
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

func (d digest) variables(list []Variable) {
	for _, v := range list {
		d.line("var", v.Name, v.Expression)
	}
}

func (d digest) stage(s *Stage) {
	d.line("stage", s.Name, commas(s.Each), s.When, s.OnError, commas(s.Without))
	d.variables(s.Variables)
	for i := range s.Rules {
		d.rule(&s.Rules[i])
	}
}

func (d digest) rule(r *Rule) {
	d.line("rule", r.Name, r.When, r.Note, commas(r.Without))
	for _, a := range r.Set {
		d.line("set", a.Path, a.Expression)
	}
	for _, u := range r.Unset {
		d.line("unset", u)
	}
}

func (d digest) decision(x *Decision) {
	d.line("decision", x.Name, x.When, x.Do, x.ReasonExpression)
}

func (d digest) validation(v *Validation) {
	d.line("validation", v.Severity, v.Name, v.When, v.Expression, v.Message, v.MessageExpression, v.FieldPath, v.Reason, commas(v.Axes), commas(v.Without))
	for _, at := range v.At {
		d.line("at", at)
	}
	for _, e := range v.Enforce {
		d.line("enforce", e)
	}
}
