package registry

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"

	"github.com/celvpa/celvpa/engine/lang"
)

// Expectations of test tables beside facts; no fact may use these names.
const (
	ExpectNotes  = "notes"
	ExpectFired  = "fired"
	ExpectErrors = "errors"
)

// placeName is the fact that holds an item's position.
const placeName = "index"

// prepare indexes a point and declares the facts that show scopes. It panics on a contradiction.
func (p *Point) prepare() {
	if p.varIndex != nil {
		return // already added to another registry
	}
	for i := range p.Scopes {
		p.prepareScope(&p.Scopes[i])
	}
	vars, scopes := map[string]int{}, map[string]int{}
	for i, v := range p.Vars {
		if v.Name == ExpectNotes || v.Name == ExpectFired || v.Name == ExpectErrors {
			p.wrong("test tables use the name %s for something else", v.Name)
		}
		if _, twice := vars[v.Name]; twice {
			p.wrong("two variables are called %s", v.Name)
		}
		vars[v.Name] = i
		if v.scope != nil {
			p.shows = append(p.shows, i)
		}
	}
	for i, s := range p.Scopes {
		scopes[s.Name] = i
		if _, taken := vars[s.Name]; taken {
			p.wrong("a scope and a variable are both called %s", s.Name)
		}
		for _, v := range s.Vars {
			if _, shadows := vars[v.Name]; shadows {
				p.wrong("scope %s hides variable %s", s.Name, v.Name)
			}
			if v.Name == ExpectNotes {
				p.wrong("test tables use the name %s for something else", v.Name)
			}
		}
	}
	p.varIndex, p.scopeIndex = vars, scopes
}

func (p *Point) wrong(format string, args ...any) {
	panic(fmt.Sprintf("engine: point %s: ", p.Name) + fmt.Sprintf(format, args...))
}

func (p *Point) prepareScope(s *Scope) {
	s.label, s.place = -1, -1
	fields := make([]lang.Field, 0, len(s.Vars))
	for i, v := range s.Vars {
		switch {
		case v.Name == s.Name && v.Type.CELType() == cel.StringType:
			s.label = i
		case v.Name == placeName && v.Type.CELType() == cel.IntType:
			s.place = i
		}
		fields = append(fields, lang.Field{Name: v.Name, Type: v.Type, Doc: v.Doc})
	}
	if len(s.Kinds) > 0 && s.label < 0 {
		p.wrong("scope %s has kinds, so it needs a text %s, which holds them", s.Name, s.Name)
	}
	if (s.List != "" || s.Whole != "") && p.Kind != StagePoint {
		p.wrong("only stages see what scope %s holds", s.Name)
	}
	s.item = lang.NewSchema(p.Name+"/"+s.Name, fields...)
	if s.List != "" {
		p.Vars = append(p.Vars, Var{Name: s.List, Type: lang.ListOf(lang.RecordOf(s.item)), scope: s, Doc: s.Doc})
	}
	if s.Whole == "" {
		return
	}
	s.whole = s.item
	if len(s.Kinds) > 0 {
		byKind := make([]lang.Field, 0, len(s.Kinds))
		for _, kind := range s.Kinds {
			byKind = append(byKind, lang.Field{Name: kind, Type: lang.RecordOf(s.item)})
		}
		s.whole = lang.NewSchema(p.Name+"/"+s.Whole, byKind...)
	}
	p.Vars = append(p.Vars, Var{Name: s.Whole, Type: lang.RecordOf(s.whole), scope: s, Doc: s.Doc})
}

// Show sets the facts that show scopes to the records that rules write, not to copies.
func (f *Facts) Show() {
	for _, i := range f.point.shows {
		if f.values[i].Kind != lang.UnsetCell {
			continue // no item came since
		}
		v := &f.point.Vars[i]
		items := f.items[f.point.scopeIndex[v.scope.Name]]
		if v.Type.IsRecord() {
			f.values[i] = lang.Cell{Kind: lang.RefCell, Ref: v.scope.together(items)}
			continue
		}
		list := make([]*lang.Record, len(items))
		for j, item := range items {
			list[j] = &item.record
		}
		f.values[i] = lang.Cell{Kind: lang.RefCell, Ref: lang.Records(list)}
	}
}

// together builds the value of Whole.
func (s *Scope) together(items []*Item) *lang.Record {
	if len(s.Kinds) == 0 {
		if len(items) == 0 {
			return s.item.Empty()
		}
		return &items[0].record
	}
	out := s.whole.New()
	for _, item := range items {
		if item.kind > 0 {
			out.Cells()[item.kind-1] = lang.Cell{Kind: lang.RefCell, Ref: &item.record}
		}
	}
	return out
}

// Full reports whether the scope takes no more items.
func (s *Scope) Full(items []*Item) bool { return s.Whole != "" && len(s.Kinds) == 0 && len(items) > 0 }

// Given reports whether a host or a table sets a variable of items.
func (s *Scope) Given(i int) bool { return i != s.label && i != s.place }

// GivenVars are the variables of an item that a host or a table sets.
func (s *Scope) GivenVars() []Var {
	var out []Var
	for i, v := range s.Vars {
		if s.Given(i) {
			out = append(out, v)
		}
	}
	return out
}

// Index is the index of a variable; -1 if there is none.
func (s *Scope) Index(name string) int {
	return slices.IndexFunc(s.Vars, func(v Var) bool { return v.Name == name })
}

// GivenVars are the variables that a host or a table sets.
func (p *Point) GivenVars() []Var {
	return slices.DeleteFunc(slices.Clone(p.Vars), func(v Var) bool { return v.scope != nil })
}

// SomeScope returns the name of at most one scope, for examples.
func (p *Point) SomeScope() []string {
	if len(p.Scopes) == 0 {
		return nil
	}
	return []string{p.Scopes[0].Name}
}

// ScopesWith names the scopes that have a variable.
func (p *Point) ScopesWith(name string) []string {
	var out []string
	for _, s := range p.Scopes {
		if slices.ContainsFunc(s.Vars, func(v Var) bool { return v.Name == name }) {
			out = append(out, s.Name)
		}
	}
	return out
}
