package document

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/source"
)

// Definition is an expression with a name, which the expressions of a pipeline's rule sets call like
// a function. It reads its arguments, params and gates.
type Definition struct {
	Name        source.Scalar
	Args        []source.Scalar
	Expression  source.Scalar
	Description string

	reads, calls map[string]bool // what the expression mentions: params, and what it calls
}

// Signature is the name and the arguments: capOf(list, name).
func (f *Definition) Signature() string {
	return f.Name.Value + "(" + strings.Join(source.Values(f.Args), ", ") + ")"
}

// CalledBy returns the definitions that a rule set calls, and those that these call, as declared.
func (p *Pipeline) CalledBy(s *RuleSet) (out []*Definition) {
	if len(p.Definitions) == 0 {
		return nil
	}
	names := maps.Clone(s.CallsOf())
	for i := len(p.Definitions) - 1; i >= 0; i-- {
		if f := &p.Definitions[i]; names[f.Name.Value] { // it calls only what is declared above
			maps.Copy(names, f.calls)
			out = append(out, f)
		}
	}
	slices.Reverse(out)
	return out
}

// ReadsParams returns the names of the parameters that a rule set and the definitions it calls mention.
func (p *Pipeline) ReadsParams(s *RuleSet) map[string]bool {
	out := maps.Clone(s.ReadsParams())
	for _, f := range p.CalledBy(s) {
		maps.Copy(out, f.reads)
	}
	return out
}

// Definitions lists the definitions of all pipelines, of those with one name the first.
func (l *Library) Definitions() (out []*Definition) {
	for _, id := range slices.Sorted(maps.Keys(l.Pipelines)) {
		for i := range l.Pipelines[id].Definitions {
			f := &l.Pipelines[id].Definitions[i]
			if !slices.ContainsFunc(out, func(other *Definition) bool { return other.Name.Value == f.Name.Value }) {
				out = append(out, f)
			}
		}
	}
	return out
}

func (d *Decoder) definitionFields(f *Definition, at source.Scalar) fields {
	f.Name = at
	return fields{
		"name":        d.into(&f.Name),
		"args":        d.Scalars(&f.Args),
		"expression":  d.into(&f.Expression),
		"description": d.text(&f.Description),
	}
}

func (d *Decoder) checkDefinitions(list []Definition) {
	d.checkNames("definition", identifier, names(list, func(f Definition) source.Scalar { return f.Name }))
	for i := range list {
		f := &list[i]
		d.checkNames("argument", identifier, f.Args)
		f.reads, f.calls = map[string]bool{}, map[string]bool{}
		noteParams(f.reads, f.Expression.Value)
		noteCalls(f.calls, f.Expression.Value)
		switch {
		case f.Expression.IsZero():
			d.Problems.At(f.Name, d.Subject, fmt.Sprintf("definition %s has no expression", f.Name.Value))
		case len(f.Args) == 0:
			d.Problems.At(f.Name, d.Subject, fmt.Sprintf("definition %s has no args, so it is a constant: declare a param", f.Name.Value))
		}
	}
}
