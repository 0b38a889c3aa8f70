// Package registry describes a host to the engine: units, functions, feature gates, axes, and the
// points where rules plug in, with their facts. Facts are the values of one run.
package registry

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
)

// PointKind selects the body of rule sets at a point.
type PointKind string

// The kinds of points.
const (
	StagePoint      PointKind = "stages"
	DecisionPoint   PointKind = "decisions"
	ValidationPoint PointKind = "validations"
)

// Var is a fact that rules at a point can read. A writable var is a record whose fields rules may
// set; no other fact of the host may share that record.
type Var struct {
	Name     string
	Type     lang.Type
	Writable bool
	Doc      string
	// Optional: nothing may be known of it, so conditions ask first.
	Optional bool

	scope *Scope // whose items it shows; nil = set by the host
}

// Scope is a target of `each`: a stage runs once per item, with Vars bound to it. List and Whole
// expose the items' records, as rules have changed them so far, everywhere at the point.
//
// Items get two of the Vars automatically, if declared: a string named after the scope holds the
// label, and an integer named index holds the position from 0, e.g. to pick the item's entry from a
// list that a function returns for all items.
type Scope struct {
	Name string
	Vars []Var
	Doc  string

	// Kinds are the labels that Whole has a field for.
	Kinds []string

	// List is the name of the list of all items; empty = none.
	List string
	// Whole names the only item or, with Kinds, a record with one field per kind; empty = none. A
	// missing item reads as empty.
	Whole string

	// Bounds are what rules bound of an item.
	Bounds []BoundVar

	item, whole *lang.Schema // of an item, and of Whole
	label       int          // index into Vars of the label, -1 = none
	place       int          // index into Vars of the position, -1 = none
}

// Outcome is what a decision may `do`.
type Outcome struct {
	Name    string
	Doc     string
	Classed bool // its rows may name a class, and should
}

// Class sorts the decisions that leave things as they are.
type Class struct {
	Name string
	Doc  string
}

// Point is where rule sets plug in. Hosts declare points at start-up and add them to a Registry.
type Point struct {
	Name   string
	Kind   PointKind
	Doc    string
	Vars   []Var
	Scopes []Scope

	// For stage points. Bounds are those of all items together. The host judges what is Judged after all rules have run,
	// and does not apply what does not hold.
	Bounds  []BoundVar
	Solvers []Solver
	Judged  []string

	// For decision points. FailSafe applies if no row matches or one fails.
	Outcomes []Outcome
	FailSafe string
	Classes  []Class // of decisions whose outcome is Classed

	// For validation points. Objects types the values they check.
	Objects ObjectTypes

	varIndex   map[string]int
	scopeIndex map[string]int
	shows      []int // indexes into Vars of those that show scopes
}

// Registry is the host's description for the engine.
type Registry struct {
	units     map[string]lang.Unit
	gates     map[string]string
	functions map[string]*Function
	overloads map[string]Overload // by overload ID
	points    map[string]*Point
	schemas   map[string]*lang.Schema
	readers   map[string]Reader // of opaque types, by type name
	texts     map[string]text   // host types written as text, by the function that reads them
	axes      map[string]*lang.Axis
}

// New returns a registry with only the built-in types and helpers.
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
		texts:     map[string]text{},
	}
	for _, f := range closure.Helpers() {
		r.add(f)
	}
	return r
}

// AddUnit declares a unit and the helper that parses its literals, e.g. cpu('250m').
func (r *Registry) AddUnit(u lang.Unit) {
	r.units[u.Name] = u
	if u.Func != "" {
		r.add(&Function{Name: u.Func, Doc: "reads " + u.Doc + " from text", Overloads: []Overload{Try1(u.Parse)}})
	}
}

// text is a host type whose values are written as text.
type text struct {
	Type  lang.Type
	Parse func(string) (ref.Val, error)
}

// AddText declares a host type whose values rule files write as text: the function name reads it, as in
// name('…'), and params may have type name. A text that cannot be read is refused when rules are loaded.
func AddText[T ref.Val](r *Registry, name, doc string, parse func(string) (T, error)) {
	var zero T
	r.texts[name] = text{lang.OpaqueOf(zero.Type().(*cel.Type), ""), func(s string) (ref.Val, error) { return parse(s) }}
	r.add(&Function{Name: name, Doc: doc, Overloads: []Overload{Try1(parse)}})
}

// ParseText reads a constant text as a function of the registry does that takes nothing else; ok is false for others.
func (r *Registry) ParseText(function, s string) (ok bool, err error) {
	if t, ok := r.texts[function]; ok {
		_, err = t.Parse(s)
		return true, err
	}
	for _, u := range r.units {
		if u.Func == function {
			_, err = u.Parse(s)
			return true, err
		}
	}
	return false, nil
}

// AddGate declares a feature gate, off unless Options turn it on.
func (r *Registry) AddGate(name, doc string) { r.gates[name] = doc }

// AddFunction declares a host function for stages and decisions, with its unit rule and overloads.
// It panics on a duplicate name, a programming error.
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

// Functions lists what stages and decisions can call beyond CEL's operators, by name.
func (r *Registry) Functions() []*Function {
	var out []*Function
	for _, name := range slices.Sorted(maps.Keys(r.functions)) {
		out = append(out, r.functions[name])
	}
	return out
}

// Pair is a key of a mapping with its value, as written.
type Pair struct {
	Key, Value string
}

// Reader builds a host type's value from a mapping in a test table. The unit is that of the field;
// its name is empty for none.
type Reader func(pairs []Pair, unit lang.Unit) (ref.Val, error)

// AddReader sets the reader of an opaque type for test tables.
func (r *Registry) AddReader(t *cel.Type, read Reader) { r.readers[t.TypeName()] = read }

// AddPoint declares a point. It panics on a contradictory declaration, a programming error.
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

// TypeNamed finds a parameter type by its name in rule files.
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
	t, ok := r.texts[name]
	return t.Type, ok
}

// TypeNames are the parameter types.
func (r *Registry) TypeNames() []string {
	return slices.Concat([]string{"int", "double", "bool", "string"}, slices.Sorted(maps.Keys(r.units)), slices.Sorted(maps.Keys(r.texts)))
}

// Scope returns a scope by name, nil if there is none.
func (p *Point) Scope(name string) *Scope {
	if i, ok := p.scopeIndex[name]; ok {
		return &p.Scopes[i]
	}
	return nil
}

// Axes are the axes by name. This map and the ones below are shared; do not modify them.
func (r *Registry) Axes() map[string]*lang.Axis { return r.axes }

// Units are the units by name.
func (r *Registry) Units() map[string]lang.Unit { return r.units }

// Gates are the docs of the feature gates, by name.
func (r *Registry) Gates() map[string]string { return r.gates }

// Schemas are the record types of facts, by name.
func (r *Registry) Schemas() map[string]*lang.Schema { return r.schemas }

// Readers are the readers of opaque types, by type name.
func (r *Registry) Readers() map[string]Reader { return r.readers }

// PointsByName are the points by name.
func (r *Registry) PointsByName() map[string]*Point { return r.points }

// FunctionsByName are the functions beyond CEL's operators, by name.
func (r *Registry) FunctionsByName() map[string]*Function { return r.functions }

// Overloads are the overloads of functions, by overload ID.
func (r *Registry) Overloads() map[string]Overload { return r.overloads }

// OfScope is the scope whose items the variable shows; nil = set by the host.
func (v Var) OfScope() *Scope { return v.scope }

// VarIndex maps variable names to indexes. Do not modify it.
func (p *Point) VarIndex() map[string]int { return p.varIndex }

// ScopeIndex maps scope names to indexes. Do not modify it.
func (p *Point) ScopeIndex() map[string]int { return p.scopeIndex }

// ObjectTypes types the objects of a validation point and finds values in them.
type ObjectTypes interface {
	// Env returns the environment of rules at a path such as spec.items[*], where self is typed.
	// With schema, it is the API server's environment for schema rules: self, and oldSelf where
	// possible. Otherwise it adds object, oldObject and the host's functions.
	Env(at string, schema bool) (*cel.Env, error)
	// Planner returns what plans checked expressions of an environment that is like one of Env's.
	// asts are all that it will plan.
	Planner(env *cel.Env, asts []*cel.Ast) (func(*cel.Ast) (cel.Program, error), error)
	// Sizes estimates what rules at a path read; with schema, as an API server does.
	Sizes(at string, schema bool) (checker.CostEstimator, error)
	// Place finds a path, so that views need not look it up again.
	Place(at string) (ObjectPlace, error)
	// FieldPath checks a path below another and formats it as errors show it.
	FieldPath(at, below string) (string, error)
	// Open returns a view of an object and the one it replaces; old is nil for a new object.
	Open(object, old map[string]any) ObjectView
}

// ObjectView finds values in one object.
type ObjectView interface {
	// Values lists what a path selects. Do not modify the result.
	Values(at ObjectPlace) []ObjectValue
}

// ObjectPlace is a path in the objects of the ObjectTypes that made it.
type ObjectPlace interface{ String() string }

// ObjectValue is one value that a validation checks.
type ObjectValue interface {
	// Path is concrete, e.g. spec.items[2].
	Path() string
	// Vars are the variables that Env declares, with values.
	Vars() map[string]any
	// Unchanged reports that the value, or a parent of it, equals the one in the old object.
	Unchanged() bool
}

// BoundVar is what rules set to bound an amount, instead of changing it. Nothing reads it: what rules set is kept, in order, for
// a solver. To unset it takes back what rules set before.
type BoundVar struct {
	Name string
	Type lang.Type // a record of integers
	// Of is the fact that it bounds, a writable one of the scope's items or, for a bound of the point, of Scope's.
	Of    string
	Scope string
	Doc   string
}

// Bound is what one rule set to a BoundVar.
type Bound struct {
	Item  *Item // whose; nil = of the point
	Var   *BoundVar
	Field int // index in the record, e.g. that of cpu
	Value int64
	// Level orders bounds by precedence: those of a later stage have a higher one.
	Level int
	// Note is that of the rule.
	Note string

	Source int32 // of the engine, for traces
}

// Solver chooses amounts within bounds, when a stage asks for it.
type Solver struct {
	Name string
	Doc  string
	// Solve returns the amounts that change. It must not change facts.
	Solve func(*Facts, []Bound) []Chosen
}

// Chosen is a fact that a solver changes.
type Chosen struct {
	Item  *Item
	Index int    // of the item
	Var   string // of the item
	Path  []int  // of fields in its record
	Value lang.Cell
	// By is what asks for it; nil = nothing that a trace or a note should name.
	By *Bound
	// Note is one for the item, beside that of By.
	Note string
}
