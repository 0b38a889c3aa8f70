package registry

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
)

// ObjectTypes types the objects of a validation point and finds the values inside them.
type ObjectTypes interface {
	// Env returns the environment for rules at a path such as spec.items[*], with self typed as what is there. With
	// schema, it is the one in which an API server compiles the rules of an object's schema: it has self, and oldSelf
	// where there can be one. Otherwise it also has object and oldObject, and what functions the host adds.
	Env(at string, schema bool) (*cel.Env, error)
	// Sizes tells how large what rules at a path read can get; with schema, as an API server estimates it.
	Sizes(at string, schema bool) (checker.CostEstimator, error)
	// FieldPath checks a path below another, and gives it as errors show it.
	FieldPath(at, below string) (string, error)
	// Open looks at one object, and at what it replaces; old is nil for a new object.
	Open(object, old map[string]any) ObjectView
}

// ObjectView finds values in one object.
type ObjectView interface {
	// Values lists what a path selects. The result is shared and must not be changed.
	Values(at string) ([]ObjectValue, error)
}

// ObjectValue is one value that a validation looks at.
type ObjectValue struct {
	Path string         // concrete, e.g. spec.items[2]
	Vars map[string]any // what Env declares, with values
	// Unchanged tells that the value, or something that it is part of, is what it was in the object replaced.
	Unchanged bool
}
