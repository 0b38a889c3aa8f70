package compile

import (
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
)

// validationsAlong expands each validation with an axis to one per value.
func (c *compiler) validationsAlong(set *document.RuleSet) (out []engine.ValidationPlan) {
	for i := range set.Validations {
		v := &set.Validations[i]
		subject := "RuleSet " + set.ID() + ", validation " + v.Name.Value
		var axis *lang.Axis
		if len(v.Axes) > 0 {
			if axis = c.axisNamed(v.Axes[0], subject); axis == nil {
				continue
			}
		}
		if len(v.Axes) > 1 {
			c.ps.At(v.Axes[1], subject, "a validation has one axis at most")
		}
		for _, value := range c.valuesBut(axis, v.Without, subject) {
			out = append(out, engine.ValidationPlan{Validation: along(v, value), Axis: value})
		}
	}
	return out
}

// along writes an axis value into texts and paths: {resource} becomes cpu, [resource] in fieldPath
// ['cpu']. Expressions are rewritten when they are compiled.
func along(v *document.Validation, value *lang.AxisValue) *document.Validation {
	if value == nil {
		return v
	}
	out := *v
	out.Message.Value = value.Text(v.Message.Value)
	out.FieldPath.Value = strings.ReplaceAll(v.FieldPath.Value, "["+value.Axis.Name+"]", "['"+value.Value+"']")
	out.At = slices.Clone(v.At)
	for i := range out.At {
		out.At[i].Value = value.Path(out.At[i].Value)
	}
	return &out
}
