package registry

import (
	"fmt"
	"math"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// ParseScalar parses a YAML scalar or a flag as a value of a type.
func (r *Registry) ParseScalar(t lang.Type, text string) (ref.Val, error) {
	if t.Unit() != "" {
		n, err := r.units[t.Unit()].Parse(text)
		if err != nil {
			return nil, err
		}
		return types.Int(n), nil
	}
	switch t.CELType() {
	case cel.IntType:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return types.Int(n), nil
	case cel.DoubleType:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%q is not a finite number", text)
		}
		return types.Double(f), nil
	case cel.BoolType:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return types.Bool(b), nil
	case cel.StringType:
		return types.String(text), nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be written down", t)
}

// Format formats a value of a type as a user would write it.
func (r *Registry) Format(t lang.Type, v ref.Val) string {
	if v == nil {
		return "unset"
	}
	if n, ok := v.(types.Int); ok && t.Unit() != "" {
		return r.units[t.Unit()].Format(int64(n))
	}
	return fmt.Sprint(v.Value())
}
