package facts

import (
	"math"
	"math/big"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// policyRatios binds requestToLimitRatio, in either spelling: objects that were stored before a webhook renamed the field
// have the AEP's. nil when a policy has none.
func policyRatios(p *vpav1.ContainerResourcePolicy) *engine.Record {
	asked := p.RequestToLimitRatio
	if asked == nil {
		asked = p.RequestToLimitRatioAEP
	}
	if asked == nil {
		return nil
	}
	r := policyRatiosSchema.New()
	if asked.CPU != nil {
		r.SetRecord("cpu", policyRatio(policyCPURatioSchema, asked.CPU, MilliCPU))
	}
	if asked.Memory != nil {
		r.SetRecord("memory", policyRatio(policyMemoryRatioSchema, asked.Memory, Bytes))
	}
	return r
}

func policyRatio(schema *engine.Schema, asked *vpav1.ResourceRatio, amount func(resource.Quantity) int64) *engine.Record {
	r := schema.New().SetString("type", string(asked.Type))
	if asked.Factor != nil {
		if times, per, ok := fraction(string(*asked.Factor)); ok {
			r.SetRecord("factor", fractionSchema.New().SetInt("limit", times).SetInt("request", per))
		}
	}
	if asked.Quantity != nil {
		r.SetInt("quantity", amount(*asked.Quantity))
	}
	return r
}

// fractionDigits are what 63 bits hold of a decimal number; digits beyond them are cut off.
const fractionDigits = 18

// fraction is a JSON number as times ÷ per: 1.2 is 12 ÷ 10. It is exact up to 18 digits in all, and held at the ends of int64.
// ok is false for what is no number, and for numbers below 0.
func fraction(number string) (times, per int64, ok bool) {
	// A number such as 1e1000000000 is refused before anybody writes it out.
	if i := strings.IndexAny(number, "eE"); i >= 0 && len(strings.TrimLeft(number[i+1:], "+-0")) > 3 {
		if strings.HasPrefix(number[i+1:], "-") {
			return 0, 1, true
		}
		return math.MaxInt64, 1, !strings.HasPrefix(number, "-")
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok || r.Sign() < 0 {
		return 0, 0, false
	}
	whole := new(big.Int).Quo(r.Num(), r.Denom())
	if !whole.IsInt64() {
		return math.MaxInt64, 1, true
	}
	ten, scale := big.NewInt(10), big.NewInt(1)
	for range fractionDigits - len(whole.String()) {
		if new(big.Int).Rem(new(big.Int).Mul(r.Num(), scale), r.Denom()).Sign() == 0 {
			break
		}
		scale.Mul(scale, ten)
	}
	scaled := new(big.Int).Mul(r.Num(), scale)
	return scaled.Quo(scaled, r.Denom()).Int64(), scale.Int64(), true
}

// startupBoost binds a CPU startup boost; nil when there is none, or none for CPU.
func startupBoost(b *vpav1.StartupBoost) *engine.Record {
	if b == nil || b.CPU == nil {
		return nil
	}
	cpu := cpuBoostSchema.New().SetString("type", string(b.CPU.Type))
	if b.CPU.Factor != nil {
		cpu.SetInt("factor", int64(*b.CPU.Factor))
	}
	if b.CPU.Quantity != nil {
		cpu.SetInt("quantity", MilliCPU(*b.CPU.Quantity))
	}
	if b.CPU.DurationSeconds != nil {
		cpu.SetInt("lasts", int64(*b.CPU.DurationSeconds)*int64(time.Second))
	}
	return boostSchema.New().SetRecord("cpu", cpu)
}

// boosts reports whether a VPA has a startup boost anywhere, be it an empty one (UPSTREAM.md §4.2).
func boosts(v *vpav1.VerticalPodAutoscaler) bool {
	if v.Spec.StartupBoost != nil {
		return true
	}
	if v.Spec.ResourcePolicy == nil {
		return false
	}
	for i := range v.Spec.ResourcePolicy.ContainerPolicies {
		if v.Spec.ResourcePolicy.ContainerPolicies[i].StartupBoost != nil {
			return true
		}
	}
	return false
}
