// Package registry is how a host describes its world to the engine: units, functions, feature
// gates, axes, and the points at which rules plug in, with the facts that rules see and may write
// there. Facts are the values of one run.
package registry

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
)

// PointKind says which body a rule set at a point must have.
type PointKind string

// The kinds of points.
const (
	StagePoint      PointKind = "stages"
	DecisionPoint   PointKind = "decisions"
	ValidationPoint PointKind = "validations"
)

// Var is a fact that rules at a point can read. Writable vars are records whose fields rules may set; such a record
// may be reached through no other fact that a host gives.
type Var struct {
	Name     string
	Type     lang.Type
	Writable bool
	Doc      string

	scope *Scope // whose items it shows; nil = a host gives it
}

// Scope is what `each` may name: the stage runs once for each item, with Vars bound to that item. The facts of an item are
// one record, which List and Whole let expressions see from everywhere at the point, as rules have left it so far.
//
// Items have two facts without being given them, where Vars has them: a text called like the scope is the item's label,
// and an integer called index its place among the items, from 0: what a function gives for all items is a list, of which each
// takes its own.
type Scope struct {
	Name string
	Vars []Var
	Doc  string

	// Kinds are labels that items usually have. Stages are compiled for each of them, with the label a constant, so that rules
	// for other kinds of items cost nothing.
	Kinds []string

	// List is what expressions call the list of all items, in their order; empty = they have none.
	List string
	// Whole is what expressions call the one item that there is at most, or with Kinds a record that has a field for each item
	// of these; empty = they have none. An item that is not there has nothing set.
	Whole string

	item, whole *lang.Schema // of an item, and of Whole
	label       int          // index into Vars of the fact that holds the label, -1 = none
	place       int          // index into Vars of the fact that holds the place, -1 = none
}

// Outcome is what a decision may `do`.
type Outcome struct {
	Name string
	Doc  string
}

// Point is a place where rule sets plug in. Hosts declare points once, at start-up, and add them to a Registry.
type Point struct {
	Name   string
	Kind   PointKind
	Doc    string
	Vars   []Var
	Scopes []Scope

	// Outcomes and FailSafe belong to decision points: FailSafe is done when no row matches or one fails.
	Outcomes []Outcome
	FailSafe string

	// Objects belongs to validation points: it types the values validations look at.
	Objects ObjectTypes

	varIndex   map[string]int
	scopeIndex map[string]int
	shows      []int // indexes into Vars of those that show what scopes hold
}

// Registry is everything a host tells the engine about its world.
type Registry struct {
	units     map[string]lang.Unit
	gates     map[string]string
	functions map[string]*Function
	overloads map[string]Overload // of functions, by identifier
	points    map[string]*Point
	schemas   map[string]*lang.Schema
	readers   map[string]Reader // of opaque types, by type name
	axes      map[string]*lang.Axis
}

// New returns a registry that knows the built-in types and helpers only.
func New() *Registry {
	r := &Registry{
		units:   map[string]lang.Unit{},
		gates:   map[string]string{},
		points:  map[string]*Point{},
		schemas: map[string]*lang.Schema{},
		axes:    map[string]*lang.Axis{},

		functions: map[string]*Function{},
		overloads: map[string]Overload{},
		readers:   map[string]Reader{},
	}
	for _, f := range closure.Helpers() {
		r.add(f)
	}
	return r
}

// AddUnit declares a unit of integers, and the helper that reads a literal of it, e.g. cpu('250m').
func (r *Registry) AddUnit(u lang.Unit) {
	r.units[u.Name] = u
	if u.Func != "" {
		r.add(&Function{Name: u.Func, Doc: "reads " + u.Doc + " from text", Overloads: []Overload{Try1(u.Parse)}})
	}
}

// AddGate declares a feature gate, off unless Options turn it on.
func (r *Registry) AddGate(name, doc string) { r.gates[name] = doc }

// AddFunction declares a host function for stages and decisions, how it treats units, and what it does for each
// combination of argument types. It panics on a name that is taken, a fault of the program.
func (r *Registry) AddFunction(name string, rule UnitRule, doc string, overloads ...Overload) {
	r.add(&Function{Name: name, Doc: doc, Units: rule, Overloads: overloads})
}

func (r *Registry) add(f *Function) {
	if _, twice := r.functions[f.Name]; twice {
		panic("engine: function " + f.Name + " declared twice")
	}
	r.functions[f.Name] = f
	for _, o := range f.Overloads {
		r.overloads[o.Id(f.Name)] = o
	}
}

// Functions lists what rules of stages and decisions can call beyond CEL's own operators, by name.
func (r *Registry) Functions() []*Function {
	var out []*Function
	for _, name := range slices.Sorted(maps.Keys(r.functions)) {
		out = append(out, r.functions[name])
	}
	return out
}

// Pair is one key of a mapping with its value, as written.
type Pair struct {
	Key, Value string
}

// Reader makes a value of a host type from the mapping that a test table holds for it. Unit is the unit of the field
// the value is for, with an empty name where the field has none.
type Reader func(pairs []Pair, unit lang.Unit) (ref.Val, error)

// AddReader says how values of an opaque type are written in test tables.
func (r *Registry) AddReader(t *cel.Type, read Reader) { r.readers[t.TypeName()] = read }

// AddPoint declares a point. It panics on a contradiction in the declaration, a fault of the program.
func (r *Registry) AddPoint(p *Point) {
	if _, twice := r.points[p.Name]; twice {
		panic("engine: point " + p.Name + " declared twice")
	}
	p.prepare()
	for _, v := range p.Vars {
		r.addSchemas(v.Type)
	}
	for _, s := range p.Scopes {
		for _, v := range s.Vars {
			r.addSchemas(v.Type)
		}
	}
	r.points[p.Name] = p
}

func (r *Registry) addSchemas(t lang.Type) {
	if t.Schema() == nil || r.schemas[t.Schema().Name()] == t.Schema() {
		return
	}
	if _, clash := r.schemas[t.Schema().Name()]; clash {
		panic("engine: two record types are called " + t.Schema().Name())
	}
	r.schemas[t.Schema().Name()] = t.Schema()
	for _, f := range t.Schema().Fields() {
		r.addSchemas(f.Type)
	}
}

// Points lists the declared points by name.
func (r *Registry) Points() []*Point {
	var out []*Point
	for _, name := range slices.Sorted(maps.Keys(r.points)) {
		out = append(out, r.points[name])
	}
	return out
}

// TypeNamed finds a parameter type by the name rule files use.
func (r *Registry) TypeNamed(name string) (lang.Type, bool) {
	switch name {
	case "int":
		return lang.Int, true
	case "double":
		return lang.Double, true
	case "bool":
		return lang.Bool, true
	case "string":
		return lang.String, true
	}
	if _, ok := r.units[name]; ok {
		return lang.IntOf(name), true
	}
	return lang.Type{}, false
}

// Scope returns a scope of the point by name, nil when there is none.
func (p *Point) Scope(name string) *Scope {
	if i, ok := p.scopeIndex[name]; ok {
		return &p.Scopes[i]
	}
	return nil
}

// Axes are the declared axes by name. This map and the next ones are shared and must not be changed.
func (r *Registry) Axes() map[string]*lang.Axis { return r.axes }

// Units are the declared units by name.
func (r *Registry) Units() map[string]lang.Unit { return r.units }

// Gates are what the declared feature gates are for, by name.
func (r *Registry) Gates() map[string]string { return r.gates }

// Schemas are the record types that facts have, by name.
func (r *Registry) Schemas() map[string]*lang.Schema { return r.schemas }

// Readers read values of opaque types in test tables, by the name of the type.
func (r *Registry) Readers() map[string]Reader { return r.readers }

// PointsByName are the declared points.
func (r *Registry) PointsByName() map[string]*Point { return r.points }

// FunctionsByName are what rules can call beyond CEL's own operators.
func (r *Registry) FunctionsByName() map[string]*Function { return r.functions }

// Overloads are the ways to call functions, by the identifier that checked expressions have.
func (r *Registry) Overloads() map[string]Overload { return r.overloads }

// OfScope is the scope whose items the variable shows; nil = a host gives it.
func (v Var) OfScope() *Scope { return v.scope }

// VarIndex finds variables by name. It is shared and must not be changed.
func (p *Point) VarIndex() map[string]int { return p.varIndex }

// ScopeIndex finds scopes by name. It is shared and must not be changed.
func (p *Point) ScopeIndex() map[string]int { return p.scopeIndex }
