package schema

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

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
