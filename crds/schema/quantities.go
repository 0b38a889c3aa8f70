package schema

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/celvpa/celvpa/crds/quantity"
)

// checkedQuantities guards quantity() and isQuantity() of Kubernetes with quantity.Check, so a rule
// cannot hang its caller. API servers lack this guard, so schema rules check for themselves.
func checkedQuantities() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Function("quantity", cel.Overload("string_to_quantity", []*cel.Type{cel.StringType}, apiservercel.QuantityType, cel.UnaryBinding(toQuantity))),
		cel.Function("isQuantity", cel.Overload("is_quantity_string", []*cel.Type{cel.StringType}, cel.BoolType, cel.UnaryBinding(isQuantity))),
	}
}

func toQuantity(v ref.Val) ref.Val {
	text, ok := v.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	q, err := quantity.Parse(string(text))
	if err != nil {
		return types.WrapErr(err)
	}
	return apiservercel.Quantity{Quantity: &q}
}

func isQuantity(v ref.Val) ref.Val {
	text, ok := v.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	_, err := quantity.Parse(string(text))
	return types.Bool(err == nil)
}
