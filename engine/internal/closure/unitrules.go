package closure

// UnitRule says which unit a function's result has, given the units of its arguments.
type UnitRule int

// The unit rules. NoUnit is what a function has that declares none.
const (
	// NoUnit: the result is a plain number.
	NoUnit UnitRule = iota
	// SameUnit: the arguments must agree, and the result has their unit.
	SameUnit
	// AgreeingArguments: the arguments must agree, and the result is a plain number.
	AgreeingArguments
	// FirstUnit: the result has the unit of the first argument, the others are plain.
	FirstUnit
)
