package engine

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
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
// may be reached through no other fact, unless that one is Live.
//
// A Live var reaches records that are writable elsewhere, e.g. a list of what the items of a scope hold. Rules that read
// it see what was written a moment ago: what depends on it is never remembered beyond a write or for the next item, and
// it is no constant. Point.Link gives it its value, in test tables too, which therefore cannot. It must hold the very
// records that are written, not copies. Records nested in those may be replaced by a write: reach them from above.
type Var struct {
	Name     string
	Type     Type
	Writable bool
	Live     bool
	Doc      string
}

// Scope is what `each` may name: the stage runs once for each item, with Vars bound to that item.
type Scope struct {
	Name string
	Vars []Var
	Doc  string

	// Kind names a text of Vars of which the usual values are known, and Kinds lists them. Stages are then compiled
	// for each of them, so that rules for other kinds of items cost nothing. Both are optional.
	Kind  string
	Kinds []string

	labelled bool // a text variable is called like the scope: it holds the item's label
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

	// Link sets the Live vars from the other facts. It runs before each run, on facts of which any may be unset except
	// records of items. Points with Live vars need one, others must have none.
	Link func(*Facts)

	varIndex   map[string]int
	scopeIndex map[string]int
}

// Registry is everything a host tells the engine about its world.
type Registry struct {
	units     map[string]Unit
	gates     map[string]string
	functions map[string]*Function
	overloads map[string]Overload // of functions, by identifier
	points    map[string]*Point
	schemas   map[string]*Schema
	readers   map[string]Reader // of opaque types, by type name
	axes      map[string]*Axis
}

// NewRegistry returns a registry that knows the built-in types and helpers only.
func NewRegistry() *Registry {
	r := &Registry{
		units:   map[string]Unit{},
		gates:   map[string]string{},
		points:  map[string]*Point{},
		schemas: map[string]*Schema{},
		axes:    map[string]*Axis{},

		functions: map[string]*Function{},
		overloads: map[string]Overload{},
		readers:   map[string]Reader{},
	}
	for _, f := range helpers() {
		r.add(f)
	}
	return r
}

// AddUnit declares a unit of integers, and the helper that reads a literal of it, e.g. cpu('250m').
func (r *Registry) AddUnit(u Unit) {
	r.units[u.Name] = u
	if u.Func != "" {
		r.add(&Function{Name: u.Func, Doc: "reads " + u.Doc + " from text", Overloads: []Overload{Try1(u.Parse)}})
	}
}

// AddGate declares a feature gate, off unless CompileOptions turn it on.
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
		r.overloads[o.id(f.Name)] = o
	}
}

// Functions lists what rules of stages and decisions can call beyond CEL's own operators, by name.
func (r *Registry) Functions() []*Function {
	var out []*Function
	for _, name := range sortedKeys(r.functions) {
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
type Reader func(pairs []Pair, unit Unit) (ref.Val, error)

// AddReader says how values of an opaque type are written in test tables.
func (r *Registry) AddReader(t *cel.Type, read Reader) { r.readers[t.TypeName()] = read }

// AddPoint declares a point. It panics on a contradiction in the declaration, a fault of the program.
func (r *Registry) AddPoint(p *Point) {
	if _, twice := r.points[p.Name]; twice {
		panic("engine: point " + p.Name + " declared twice")
	}
	p.varIndex, p.scopeIndex = map[string]int{}, map[string]int{}
	live := false
	for i, v := range p.Vars {
		if v.Name == expectNotes || v.Name == expectFired || v.Name == expectErrors {
			panic(fmt.Sprintf("engine: point %s: test tables use the name %s for something else", p.Name, v.Name))
		}
		p.varIndex[v.Name] = i
		live = live || p.isLive(v)
		r.addSchemas(v.Type)
	}
	for i, s := range p.Scopes {
		p.scopeIndex[s.Name] = i
		if _, taken := p.varIndex[s.Name]; taken {
			panic(fmt.Sprintf("engine: point %s: a scope and a variable are both called %s", p.Name, s.Name))
		}
		for _, v := range s.Vars {
			if _, shadows := p.varIndex[v.Name]; shadows {
				panic(fmt.Sprintf("engine: point %s: scope %s hides variable %s", p.Name, s.Name, v.Name))
			}
			if v.Name == expectNotes {
				panic(fmt.Sprintf("engine: point %s: test tables use the name %s for something else", p.Name, v.Name))
			}
			if v.Name == s.Name && v.Type.cel == cel.StringType {
				p.Scopes[i].labelled = true
			}
			live = live || p.isLive(v)
			r.addSchemas(v.Type)
		}
	}
	if live != (p.Link != nil) {
		panic(fmt.Sprintf("engine: point %s: live facts and Link go together", p.Name))
	}
	r.points[p.Name] = p
}

// isLive reports whether a variable is live, and panics where it may not be.
func (p *Point) isLive(v Var) bool {
	if v.Live && (v.Writable || p.Kind == ValidationPoint) {
		panic(fmt.Sprintf("engine: point %s: %s cannot be live: rules may write it, or validations read it", p.Name, v.Name))
	}
	return v.Live
}

func (r *Registry) addSchemas(t Type) {
	if t.schema == nil || r.schemas[t.schema.name] == t.schema {
		return
	}
	if _, clash := r.schemas[t.schema.name]; clash {
		panic("engine: two record types are called " + t.schema.name)
	}
	r.schemas[t.schema.name] = t.schema
	for _, f := range t.schema.fields {
		r.addSchemas(f.Type)
	}
}

// Points lists the declared points by name.
func (r *Registry) Points() []*Point {
	var out []*Point
	for _, name := range sortedKeys(r.points) {
		out = append(out, r.points[name])
	}
	return out
}

// typeNamed finds a parameter type by the name rule files use.
func (r *Registry) typeNamed(name string) (Type, bool) {
	switch name {
	case "int":
		return Int, true
	case "double":
		return Double, true
	case "bool":
		return Bool, true
	case "string":
		return String, true
	}
	if _, ok := r.units[name]; ok {
		return IntOf(name), true
	}
	return Type{}, false
}

// scope returns a scope of the point by name, nil when there is none.
func (p *Point) scope(name string) *Scope {
	if i, ok := p.scopeIndex[name]; ok {
		return &p.Scopes[i]
	}
	return nil
}
