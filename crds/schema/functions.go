package schema

import (
	"math/big"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/celvpa/celvpa/crds/quantity"
)

// Function is a CEL function for rules outside the schema, in addition to those of Kubernetes.
type Function struct {
	Name      string
	Signature string
	Doc       string
}

// Functions lists them. All are exact.
var Functions = []Function{
	{"times", "Quantity.times(Quantity) -> Quantity", "the product: `quantity('1500m').times(quantity('2Gi'))` is 3Gi"},
	{"isMultipleOf", "Quantity.isMultipleOf(Quantity) -> bool", "whether the first is a whole number of times the second: `quantity(string(self)).isMultipleOf(quantity('1m'))`"},
	{"total", "list(Quantity).total() -> Quantity", "the sum, 0 of an empty list"},
}

func quantityFunctions() []cel.EnvOption {
	quantity := apiservercel.QuantityType
	return []cel.EnvOption{
		cel.Function("times", cel.MemberOverload("quantity_times_quantity", []*cel.Type{quantity, quantity}, quantity, cel.BinaryBinding(times))),
		cel.Function("isMultipleOf", cel.MemberOverload("quantity_is_multiple_of_quantity", []*cel.Type{quantity, quantity}, cel.BoolType, cel.BinaryBinding(isMultipleOf))),
		cel.Function("total", cel.MemberOverload("list_quantity_total", []*cel.Type{cel.ListType(quantity)}, quantity, cel.UnaryBinding(total))),
	}
}

// maxExponent bounds exact arithmetic; no resource amount has more digits.
const maxExponent = 1000

// decimal converts a quantity to a decimal; ok is false for invalid or absurdly long ones.
func decimal(v ref.Val) (d *inf.Dec, ok bool) {
	q, ok := v.(apiservercel.Quantity)
	if !ok || q.Quantity == nil {
		return nil, false
	}
	c := q.DeepCopy()
	d = c.AsDec()
	return d, d.Scale() <= maxExponent && d.Scale() >= -maxExponent
}

func notQuantity(v ref.Val) ref.Val {
	return types.NewErr("%v is not a valid quantity", v.Value())
}

func times(a, b ref.Val) ref.Val {
	x, ok := decimal(a)
	if !ok {
		return notQuantity(a)
	}
	y, ok := decimal(b)
	if !ok {
		return notQuantity(b)
	}
	product := new(inf.Dec).Mul(x, y)
	return apiservercel.Quantity{Quantity: resource.NewDecimalQuantity(*product, resource.BinarySI)}
}

func isMultipleOf(a, b ref.Val) ref.Val {
	if n, ok := whole(a); ok {
		if of, ok := whole(b); ok && of > 0 {
			return types.Bool(n%of == 0)
		}
	}
	x, ok := decimal(a)
	if !ok {
		return notQuantity(a)
	}
	y, ok := decimal(b)
	if !ok || y.Sign() == 0 {
		return notQuantity(b)
	}
	// At the same scale, decimals are multiples of each other when their unscaled values are.
	scale := max(x.Scale(), y.Scale())
	unscaled := func(d *inf.Dec) *big.Int {
		if d.Scale() != scale {
			d = new(inf.Dec).Round(d, scale, inf.RoundExact)
		}
		return d.UnscaledBig()
	}
	return types.Bool(new(big.Int).Rem(unscaled(x), unscaled(y)).Sign() == 0)
}

// whole is a quantity as an integer; ok is false if it is none of 64 bits.
func whole(v ref.Val) (n int64, ok bool) {
	q, ok := v.(apiservercel.Quantity)
	if !ok || q.Quantity == nil {
		return 0, false
	}
	return q.AsInt64()
}

func total(list ref.Val) ref.Val {
	sum := new(inf.Dec)
	items, ok := list.(traits.Lister)
	if !ok {
		return notQuantity(list)
	}
	for it := items.Iterator(); it.HasNext() == types.True; {
		v := it.Next()
		d, ok := decimal(v)
		if !ok {
			return notQuantity(v)
		}
		sum.Add(sum, d)
	}
	return apiservercel.Quantity{Quantity: resource.NewDecimalQuantity(*sum, resource.BinarySI)}
}

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
