package facts

import (
	"fmt"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Units of integers in rules.
const (
	CPU      = "cpu"      // milli-cores
	Memory   = "memory"   // bytes
	Duration = "duration" // nanoseconds
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
