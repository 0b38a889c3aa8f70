package facts

import (
	"slices"

	"github.com/celvpa/celvpa/engine/bounds"
	"github.com/celvpa/celvpa/engine/registry"
)

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
