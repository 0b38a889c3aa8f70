package facts

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/engine/bounds"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Units of integers in rules.
const (
	CPU      = "cpu"      // milli-cores
	Memory   = "memory"   // bytes
	Duration = "duration" // nanoseconds
	Time     = "time"     // seconds since 1970
)

// MilliCPU converts a CPU quantity to milli-cores, rounded up and clamped to int64.
func MilliCPU(q resource.Quantity) int64 { return held(q, resource.Milli) }

// Bytes converts a memory quantity to bytes, rounded up and clamped to int64.
func Bytes(q resource.Quantity) int64 { return held(q, 0) }

// wholeBytes converts a memory quantity to bytes like Bytes, but rounded down.
func wholeBytes(q resource.Quantity) int64 {
	if milli := held(q, resource.Milli); milli < math.MaxInt64 {
		return milli / 1000
	}
	return Bytes(q)
}

// held clamps to int64 from 9e18 units up; Quantity's Value and MilliValue overflow.
func held(q resource.Quantity, scale resource.Scale) int64 {
	switch units := q.AsApproximateFloat64() / math.Pow10(int(scale)); {
	case q.Sign() == 0:
		return 0
	case units >= 9e18:
		return math.MaxInt64
	case units <= -9e18:
		return math.MinInt64
	}
	return q.ScaledValue(scale)
}

// CPUQuantity renders milli-cores as upstream does: 250 is 250m, 1000 is 1 (UPSTREAM.md §2.14).
func CPUQuantity(milli int64) resource.Quantity {
	return *resource.NewMilliQuantity(milli, resource.DecimalSI)
}

// MemoryQuantity renders bytes as upstream does: 262144000 is 250Mi (UPSTREAM.md §2.14).
func MemoryQuantity(bytes int64) resource.Quantity {
	return *resource.NewQuantity(bytes, resource.BinarySI)
}

func addUnits(r *registry.Registry) {
	r.AddUnit(lang.Unit{
		Name: CPU, Func: "cpu", Doc: "milli-cores",
		Parse: func(s string) (int64, error) {
			q, err := parse(s)
			if err == nil && q.Format == resource.BinarySI {
				return 0, fmt.Errorf("%q is an amount of memory; write CPU as 250m or 1.5", s)
			}
			return MilliCPU(q), err
		},
		Format: func(n int64) string { q := CPUQuantity(n); return q.String() },
	})
	r.AddUnit(lang.Unit{
		Name: Memory, Func: "mem", Doc: "bytes",
		Parse: func(s string) (int64, error) {
			q, err := parse(s)
			if err == nil && strings.ContainsAny(s[len(s)-1:], "mun") {
				return 0, fmt.Errorf("%q is less than it looks: m stands for thousandths; write memory as 500M or 4Gi", s)
			}
			return Bytes(q), err
		},
		Format: func(n int64) string { q := MemoryQuantity(n); return q.String() },
	})
	r.AddUnit(lang.Unit{
		Name: Duration, Func: "duration", Doc: "nanoseconds",
		Parse: func(s string) (int64, error) {
			d, err := time.ParseDuration(s)
			if err != nil {
				return 0, fmt.Errorf("%q is not a duration such as 30s, 5m or 24h", s)
			}
			return int64(d), nil
		},
		Format: func(n int64) string { return time.Duration(n).String() },
	})
	r.AddUnit(timeUnit)
}

func parse(s string) (resource.Quantity, error) {
	if err := quantity.Check(s); err != nil {
		return resource.Quantity{}, fmt.Errorf("%.*q: %w; write it like 250m or 4Gi", quantity.MaxLength, s, err)
	}
	q, err := quantity.Parse(s)
	if err != nil {
		return q, fmt.Errorf("%q is not a quantity such as 250m or 4Gi", s)
	}
	return q, nil
}

// maxAmount is the largest resource amount of the model, in milli-cores or bytes (UPSTREAM.md §2.9).
const maxAmount = 1e14

// Amount truncates to an integer between 0 and 1e14; NaN is 0 (UPSTREAM.md §2.13).
func Amount(v float64) int64 {
	switch {
	case math.IsNaN(v) || v <= 0:
		return 0
	case v >= maxAmount:
		return maxAmount
	}
	return int64(v)
}

var histogramType = cel.OpaqueType("Histogram")

// Histogram exposes a usage distribution to rules, which read it with percentile(usage.cpu, 0.9).
type Histogram struct {
	// Percentile returns the milli-cores or bytes that a fraction (0 to 1) of samples stays within.
	Percentile func(fraction float64) int64
}

// ConvertToNative implements ref.Val.
func (h Histogram) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a histogram cannot be converted to %v", t)
}

// ConvertToType implements ref.Val.
func (h Histogram) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return histogramType
	}
	return types.NewErr("a histogram cannot be converted to %s", t.TypeName())
}

// Equal implements ref.Val; histograms are never equal.
func (h Histogram) Equal(ref.Val) ref.Val { return types.False }

// Type implements ref.Val.
func (h Histogram) Type() ref.Type { return histogramType }

// Value implements ref.Val.
func (h Histogram) Value() any { return h }

// readHistogram reads percentiles from a test table, e.g. {0.5: 500m, 0.9: 900m}. A fraction in
// between takes the next listed amount; a fraction above all takes the last.
func readHistogram(pairs []registry.Pair, unit lang.Unit) (ref.Val, error) {
	type percentile struct {
		fraction float64
		amount   int64
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("a histogram needs at least one percentile, e.g. {0.9: 1}")
	}
	var table []percentile
	for _, p := range pairs {
		fraction, err := strconv.ParseFloat(p.Key, 64)
		if err != nil || !(fraction >= 0 && fraction <= 1) {
			return nil, fmt.Errorf("%q is not a fraction between 0 and 1", p.Key)
		}
		amount, err := unit.Parse(p.Value)
		if err != nil {
			return nil, err
		}
		table = append(table, percentile{fraction, amount})
	}
	slices.SortStableFunc(table, func(a, b percentile) int { return cmp.Compare(a.fraction, b.fraction) })
	return Histogram{Percentile: func(fraction float64) int64 {
		for _, p := range table {
			if p.fraction >= fraction {
				return p.amount
			}
		}
		return table[len(table)-1].amount
	}}, nil
}

func addFunctions(r *registry.Registry) {
	r.AddReader(histogramType, readHistogram)
	r.AddFunction("percentile", registry.FirstUnit,
		"the amount, in milli-cores or bytes, that the given fraction of samples (0.0 to 1.0) does not exceed",
		registry.Func2(func(h Histogram, fraction float64) int64 { return h.Percentile(fraction) }))
	r.AddFunction("scale", registry.FirstUnit,
		"an amount times a factor, rounded towards zero and held between 0 and 1e14",
		registry.Func2(func(amount int64, factor float64) int64 { return Amount(float64(amount) * factor) }))
	r.AddFunction("toHundredths", registry.SameUnit,
		"an amount rounded to hundredths of a unit: halves go to the even hundredth, and fractions are then rounded up",
		registry.Try2(toHundredths))
	r.AddFunction("relativeDiff", registry.AgreeingArguments,
		"the difference of current and wanted as a fraction of current, which counts as at least 1",
		registry.Func2(func(current, wanted int64) float64 {
			base := math.Max(float64(current), 1)
			return math.Abs(base-float64(wanted)) / base
		}))
	r.AddFunction("timeText", registry.NoUnit,
		"a duration as kubectl prints ages, such as 5m or 3h20m, for use in reasons",
		registry.Func1(func(nanoseconds int64) string { return duration.HumanDuration(time.Duration(nanoseconds)) }))
	r.AddFunction("percentText", registry.NoUnit,
		"a fraction as whole percent, such as 15%, for use in reasons",
		registry.Func1(func(fraction float64) string { return strconv.FormatFloat(math.Round(fraction*100), 'f', -1, 64) + "%" }))
}

// toHundredths rounds amount/unit to hundredths, half to even like %.2f, then up to an integer,
// like a Quantity parsed from that text (UPSTREAM.md §2.14).
func toHundredths(amount, unit int64) (int64, error) {
	if unit <= 0 {
		return 0, errors.New("the unit must be greater than zero")
	}
	whole, _ := lang.FloorTo(amount, unit)
	rest := amount - whole
	hundredths, _ := lang.MulDivFloor(rest, 100, unit)
	// In halves of a hundredth: an odd number is a half or more.
	halves, _ := lang.MulDivFloor(rest, 200, unit)
	up, _ := lang.MulDivCeil(rest, 200, unit)
	if exact := up == halves; halves%2 != 0 && (!exact || hundredths%2 != 0) {
		hundredths++
	}
	part, _ := lang.MulDivCeil(hundredths, unit, 100)
	return lang.SaturatingAdd(whole, part), nil
}

// addPodFunctions declares how to divide a total among containers. Rules choose the bounds.
func addPodFunctions(r *registry.Registry) {
	const proportion = "total shared out in proportion to amounts, a list of as many; "
	r.AddFunction("raiseFloor", registry.SameUnit,
		proportion+"each rounded down and none above its most, or above its amount where that is more already; what such a one cannot take goes to the others in proportion. An amount of 0 stays 0; a total below the sum of the amounts changes nothing",
		registry.Try3(func(total int64, amounts, most []int64) ([]int64, error) {
			return bounds.Raise(total, amounts, most, false)
		}))
	r.AddFunction("raiseCeil", registry.SameUnit,
		"raiseFloor rounded up: together they may exceed total, each by less than 1",
		registry.Try3(func(total int64, amounts, most []int64) ([]int64, error) {
			return bounds.Raise(total, amounts, most, true)
		}))
	r.AddFunction("lowerFloor", registry.SameUnit,
		proportion+"each rounded down and none below its least, or below its amount where that is less already; what such a one cannot give is taken from the others in proportion. A total above the sum of the amounts changes nothing",
		registry.Try3(bounds.Lower))
	r.AddFunction("largest", registry.SameUnit, "the largest of a list; 0 for an empty one",
		registry.Func1(func(list []int64) int64 {
			if len(list) == 0 {
				return 0
			}
			return slices.Max(list)
		}))
}
