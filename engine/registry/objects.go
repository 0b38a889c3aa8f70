package registry

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
)

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
