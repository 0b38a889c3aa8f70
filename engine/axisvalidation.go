package engine

import (
	"slices"
	"strings"
)

// validationsAlong are the validations of a rule set, one with an axis once for each of its values.
func (c *compiler) validationsAlong(set *RuleSet) (out []validationPlan) {
	for i := range set.Validations {
		v := &set.Validations[i]
		subject := "RuleSet " + set.ID() + ", validation " + v.Name.Value
		var axis *Axis
		if len(v.Axes) > 0 {
			if axis = c.axisNamed(v.Axes[0], subject); axis == nil {
				continue
			}
		}
		if len(v.Axes) > 1 {
			c.ps.at(v.Axes[1], subject, "a validation has one axis at most")
		}
		for _, value := range c.valuesBut(axis, v.Without, subject) {
			out = append(out, validationPlan{validation: along(v, value), axis: value})
		}
	}
	return out
}

// along is the validation with its texts and paths for one value of its axis: {resource} in a message is cpu, [resource] in
// fieldPath ['cpu']. Expressions stay; they are rewritten when they are compiled.
func along(v *Validation, value *axisValue) *Validation {
	if value == nil {
		return v
	}
	out := *v
	out.Message.Value = value.text(v.Message.Value)
	out.FieldPath.Value = strings.ReplaceAll(v.FieldPath.Value, "["+value.axis.Name+"]", "['"+value.value+"']")
	out.At = slices.Clone(v.At)
	for i := range out.At {
		out.At[i].Value = value.path(out.At[i].Value)
	}
	return &out
}
