package engine

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
)

const (
	// maxCost is the highest estimate, in CEL's cost units, that one expression may have. A rule of the shipped set
	// costs at most a few thousand; nested loops over all containers reach this.
	maxCost = 10_000_000
	// maxListSize is how many entries a list of facts is taken to have at most, e.g. the containers of a pod.
	maxListSize = 500
	// maxTextSize is how many characters a text is taken to have at most.
	maxTextSize = 1024
	// maxExpressionSize bounds an expression's source, in bytes: generated monsters are refused before they are parsed.
	maxExpressionSize = 16 << 10
)

// sizes tells the cost estimate how large facts can get.
type sizes struct{}

// EstimateSize implements checker.CostEstimator.
func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if node.Type() != nil && node.Type().TypeName() == "string" {
		return &checker.SizeEstimate{Max: maxTextSize}
	}
	return &checker.SizeEstimate{Max: maxListSize}
}

// EstimateCallCost implements checker.CostEstimator: host functions count as one step.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// tooCostly refuses expressions whose worst case could hold up a cycle or an admission.
func tooCostly(env *cel.Env, ast *cel.Ast, sizes checker.CostEstimator) error {
	estimate, err := env.EstimateCost(ast, sizes)
	if err != nil {
		return fmt.Errorf("estimating the cost: %w", err)
	}
	if estimate.Max > maxCost {
		return fmt.Errorf("the expression may take %d steps, at most %d are allowed: avoid loops inside loops, "+
			"filter a list before going through it again, or move a part into a variable", estimate.Max, maxCost)
	}
	return nil
}
