package facts

import (
	"math"
	"math/big"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/lang"
)

var (
	policyRatiosSchema = lang.Bind("PolicyRatios",
		lang.RecordFrom("cpu", policyCPURatioSchema.Schema, "", func(r *vpav1.RequestToLimitRatio) *lang.Record { return policyRatio(policyCPURatioSchema, r.CPU) }),
		lang.RecordFrom("memory", policyMemoryRatioSchema.Schema, "", func(r *vpav1.RequestToLimitRatio) *lang.Record {
			return policyRatio(policyMemoryRatioSchema, r.Memory)
		}))

	policyCPURatioSchema    = policyRatioSchema("PolicyCPURatio", CPU, MilliCPU)
	policyMemoryRatioSchema = policyRatioSchema("PolicyMemoryRatio", Memory, Bytes)

	fractionSchema = lang.Bind("Fraction",
		lang.IntFrom("limit", lang.Int, "", func(f fraction) int64 { return f.limit }),
		lang.IntFrom("request", lang.Int, "a factor of 1.2 is a limit of 12 for a request of 10", func(f fraction) int64 { return f.request }))
)

func policyRatioSchema(name, unit string, amount func(resource.Quantity) int64) *lang.Binding[*vpav1.ResourceRatio] {
	return lang.Bind(name,
		lang.TextFrom("type", "Factor or Quantity", func(r *vpav1.ResourceRatio) vpav1.ScaleType { return r.Type }),
		lang.RecordFrom("factor", fractionSchema.Schema, "exactly as written", func(r *vpav1.ResourceRatio) *lang.Record {
			if r.Factor == nil {
				return nil
			}
			f, ok := fractionOf(string(*r.Factor))
			if !ok {
				return nil
			}
			return fractionSchema.Of(f)
		}),
		lang.IntIf("quantity", lang.IntOf(unit), "", func(r *vpav1.ResourceRatio) (int64, bool) {
			q, ok := given(r.Quantity)
			return amount(q), ok
		}))
}

// policyRatios also reads the AEP's spelling: stored objects may predate the webhook's renaming.
func policyRatios(p *vpav1.ContainerResourcePolicy) *lang.Record {
	ratios := p.RequestToLimitRatio
	if ratios == nil {
		ratios = p.RequestToLimitRatioAEP
	}
	if ratios == nil {
		return nil
	}
	return policyRatiosSchema.Of(ratios)
}

func policyRatio(schema *lang.Binding[*vpav1.ResourceRatio], r *vpav1.ResourceRatio) *lang.Record {
	if r == nil {
		return nil
	}
	return schema.Of(r)
}

// fraction is a factor as limit ÷ request: 1.2 is 12 ÷ 10.
type fraction struct{ limit, request int64 }

// fractionDigits is what 63 bits hold of a decimal; further digits are truncated.
const fractionDigits = 18

// fractionOf reads a JSON number ≥ 0, exact to 18 digits and clamped to int64.
func fractionOf(number string) (f fraction, ok bool) {
	// Refuse numbers such as 1e1000000000 before expanding them.
	if i := strings.IndexAny(number, "eE"); i >= 0 && len(strings.TrimLeft(number[i+1:], "+-0")) > 3 {
		if strings.HasPrefix(number[i+1:], "-") {
			return fraction{0, 1}, true
		}
		return fraction{math.MaxInt64, 1}, !strings.HasPrefix(number, "-")
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok || r.Sign() < 0 {
		return fraction{}, false
	}
	whole := new(big.Int).Quo(r.Num(), r.Denom())
	if !whole.IsInt64() {
		return fraction{math.MaxInt64, 1}, true
	}
	ten, scale := big.NewInt(10), big.NewInt(1)
	for range fractionDigits - len(whole.String()) {
		if new(big.Int).Rem(new(big.Int).Mul(r.Num(), scale), r.Denom()).Sign() == 0 {
			break
		}
		scale.Mul(scale, ten)
	}
	scaled := new(big.Int).Mul(r.Num(), scale)
	return fraction{scaled.Quo(scaled, r.Denom()).Int64(), scale.Int64()}, true
}
