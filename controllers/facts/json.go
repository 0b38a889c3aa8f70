package facts

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine"
)

var jsonType = cel.OpaqueType("JSON")

// JSON is a part of an object that rules can move but not look into.
type JSON struct {
	Of any // as encoding/json decodes it, whole numbers as int64
}

// ConvertToNative implements ref.Val.
func (j JSON) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a part of an object cannot be converted to %v", t)
}

// ConvertToType implements ref.Val.
func (j JSON) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return jsonType
	}
	return types.NewErr("a part of an object cannot be converted to %s", t.TypeName())
}

// Equal implements ref.Val.
func (j JSON) Equal(other ref.Val) ref.Val {
	o, ok := other.(JSON)
	return types.Bool(ok && reflect.DeepEqual(j.Of, o.Of))
}

// Type implements ref.Val.
func (j JSON) Type() ref.Type { return jsonType }

// Value implements ref.Val.
func (j JSON) Value() any {
	text, err := json.Marshal(j.Of)
	if err != nil {
		return fmt.Sprint(j.Of)
	}
	return string(text)
}

// readJSON makes a part of an object of what a test table holds: {json: '{"cpu":{"type":"Factor"}}'}.
func readJSON(pairs []engine.Pair, _ engine.Unit) (ref.Val, error) {
	if len(pairs) != 1 || pairs[0].Key != "json" {
		return nil, fmt.Errorf(`a part of an object is written as {json: '{"key": "value"}'}`)
	}
	var of any
	if err := json.Unmarshal([]byte(pairs[0].Value), &of); err != nil {
		return nil, fmt.Errorf("%q is not JSON: %w", pairs[0].Value, err)
	}
	return JSON{of}, nil
}
