package schema

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// LowestKubernetes is the oldest API server whose CEL environment validations may use.
var LowestKubernetes = version.MajorMinor(1, 33)

// Variable and type names. They must differ: a nested type name would hide a variable's fields.
const (
	selfType   = "selfType"
	objectType = "objectType"
)

// Env implements engine.ObjectTypes: self is the value at the path, oldSelf an optional of its old
// value if known. Rules outside the schema also see the whole object and oldObject.
func (o *Objects) Env(at string, schema bool) (*cel.Env, error) {
	self, object, err := o.named(at)
	if err != nil {
		return nil, err
	}
	_, stable, err := o.schemaAt(at)
	if err != nil {
		return nil, err
	}
	options := environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        append(checkedQuantities(), cel.Variable("self", self.CelType())),
		DeclTypes:         []*apiservercel.DeclType{self},
	}
	if stable {
		options.EnvOptions = append(options.EnvOptions, cel.Variable("oldSelf", types.NewOptionalType(self.CelType())))
	}
	if !schema {
		options.DeclTypes = append(options.DeclTypes, object)
		options.EnvOptions = append(options.EnvOptions,
			cel.Variable("object", object.CelType()),
			cel.Variable("oldObject", types.NewOptionalType(object.CelType())))
		options.EnvOptions = append(options.EnvOptions, quantityFunctions()...)
	}
	env, err := environment.MustBaseEnvSet(LowestKubernetes).Extend(options)
	if err != nil {
		return nil, fmt.Errorf("typing what is at %q: %w", at, err)
	}
	return env.NewExpressionsEnv(), nil
}

// named returns the types of self at a path and of the object, with the names that rules know.
func (o *Objects) named(at string) (self, object *apiservercel.DeclType, err error) {
	if self, err = o.declared(at); err != nil {
		return nil, nil, err
	}
	return self.MaybeAssignTypeName(selfType), o.object(), nil
}

// declared is the type at a path.
func (o *Objects) declared(at string) (*apiservercel.DeclType, error) {
	s, _, err := o.schemaAt(at)
	if err != nil {
		return nil, err
	}
	t := model.SchemaDeclType(s, at == "")
	if t == nil {
		return nil, fmt.Errorf("what is at %q has no type that rules can use", at)
	}
	return t, nil
}

// Sizes implements engine.ObjectTypes.
func (o *Objects) Sizes(at string, schema bool) (checker.CostEstimator, error) {
	self, err := o.declared(at)
	if err != nil {
		return nil, err
	}
	object := o.object()
	return &library.CostEstimator{SizeEstimator: &sizes{otherwise: !schema, roots: map[string]*apiservercel.DeclType{"self": self, "oldSelf": self, "object": object, "oldObject": object}}}, nil
}

// sizes bounds lists, maps and strings by the schema.
type sizes struct {
	roots     map[string]*apiservercel.DeclType
	otherwise bool // assume a common size where the schema has no bound
}

const (
	// maxList is the assumed length of unbounded lists, e.g. other objects with the same target.
	maxList = 500
	// maxText is the assumed length of unbounded strings.
	maxText = 1024
)

// EstimateSize implements checker.CostEstimator.
func (s *sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if node := s.declared(element.Path()); node != nil {
		return &checker.SizeEstimate{Max: uint64(node.MaxElements)}
	}
	switch {
	case !s.otherwise:
		return nil
	case element.Type() != nil && element.Type().TypeName() == "string":
		return &checker.SizeEstimate{Max: maxText}
	}
	return &checker.SizeEstimate{Max: maxList}
}

// declared returns the type at a path in the object; nil if the path is outside.
func (s *sizes) declared(path []string) *apiservercel.DeclType {
	if len(path) == 0 {
		return nil
	}
	node := s.roots[path[0]]
	for _, name := range path[1:] {
		switch {
		case node == nil:
			return nil
		case name == "@items" || name == "@values":
			node = node.ElemType
		case name == "@keys":
			node = node.KeyType
		case node.IsMap():
			node = node.ElemType // map.key is map['key']
		case node.Fields[name] == nil:
			return nil
		default:
			node = node.Fields[name].Type
		}
	}
	return node
}

// EstimateCallCost implements checker.CostEstimator.
func (s *sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// Planner implements engine.ObjectTypes. Programs run as in an API server, which plans with the
// whole environment. But each program keeps a table of all functions that its planner knows, which
// takes 50 KB for those of Kubernetes.
func (o *Objects) Planner(env *cel.Env, asts []*cel.Ast) (func(*cel.Ast) (cel.Program, error), error) {
	called := map[string][]string{} // overloads by function
	for _, ast := range asts {
		references := ast.NativeRep().ReferenceMap()
		celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
			if e.Kind() == celast.CallKind && references[e.ID()] != nil {
				name := e.AsCall().FunctionName()
				called[name] = append(called[name], references[e.ID()].OverloadIDs...)
			}
		}))
	}
	options := []cel.EnvOption{cel.OptionalTypes(), cel.CustomTypeAdapter(env.CELTypeAdapter()), cel.CustomTypeProvider(env.CELTypeProvider())}
	known := env.Functions()
	for _, name := range slices.Sorted(maps.Keys(called)) {
		if f := known[name].Subset(decls.IncludeOverloads(called[name]...)); f != nil {
			options = append(options, cel.FunctionDecls(f))
		}
	}
	planner, err := cel.NewCustomEnv(options...)
	if err != nil {
		return nil, err
	}
	return func(ast *cel.Ast) (cel.Program, error) {
		return planner.Program(ast, // the options of k8s.io/apiserver/pkg/cel/environment
			cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
			cel.CostLimit(celconfig.PerCallLimit),
			cel.CostTracking(&library.CostEstimator{}),
			cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
			cel.OptimizeRegex(library.FindRegexOptimization, library.FindAllRegexOptimization))
	}, nil
}
