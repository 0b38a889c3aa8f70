package inline

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/ext"

	"github.com/celvpa/celvpa/engine/lang"
)

// parser knows the macros of all environments.
var parser = sync.OnceValue(func() *cel.Env {
	env, err := cel.NewEnv(cel.OptionalTypes(), ext.TwoVarComprehensions())
	if err != nil {
		panic(fmt.Sprintf("building the parser of definitions: %v", err)) // it has no inputs
	}
	return env
})

func parse(expression string) (*celast.AST, *cel.Issues) {
	if len(expression) > lang.MaxExpressionSize {
		expression = "" // reported elsewhere
	}
	ast, issues := parser().Parse(expression)
	if issues.Err() != nil {
		return nil, issues
	}
	return ast.NativeRep(), issues
}

func loopVariables(loop celast.ComprehensionExpr) []string {
	names := []string{loop.IterVar(), loop.AccuVar()}
	if loop.HasIterVar2() {
		names = append(names, loop.IterVar2())
	}
	return names
}

// calledInNamespace reports calls such as sets.contains(…), whose target is no value.
func calledInNamespace(e celast.Expr, names Names) bool {
	if e.Kind() != celast.CallKind || !e.AsCall().IsMemberFunction() || e.AsCall().Target().Kind() != celast.IdentKind {
		return false
	}
	call := e.AsCall()
	return names.Functions[call.Target().AsIdent()+"."+call.FunctionName()]
}

// freeNames lists the names that an expression reads from outside.
func freeNames(e celast.Expr, names Names) (out []celast.Expr) {
	bound := map[string]int{}
	var visit func(celast.Expr)
	visit = func(e celast.Expr) {
		switch e.Kind() {
		case celast.IdentKind:
			if bound[e.AsIdent()] == 0 {
				out = append(out, e)
			}
		case celast.CallKind:
			if e.AsCall().IsMemberFunction() && !calledInNamespace(e, names) {
				visit(e.AsCall().Target())
			}
			for _, arg := range e.AsCall().Args() {
				visit(arg)
			}
		case celast.SelectKind:
			visit(e.AsSelect().Operand())
		case celast.ListKind:
			for _, one := range e.AsList().Elements() {
				visit(one)
			}
		case celast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				visit(entry.AsMapEntry().Key())
				visit(entry.AsMapEntry().Value())
			}
		case celast.StructKind:
			for _, field := range e.AsStruct().Fields() {
				visit(field.AsStructField().Value())
			}
		case celast.ComprehensionKind:
			loop := e.AsComprehension()
			visit(loop.IterRange())
			visit(loop.AccuInit())
			inside := loopVariables(loop)
			for _, name := range inside {
				bound[name]++
			}
			visit(loop.LoopCondition())
			visit(loop.LoopStep())
			visit(loop.Result())
			for _, name := range inside {
				bound[name]--
			}
		}
	}
	visit(e)
	return out
}
