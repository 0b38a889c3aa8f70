package engine

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// ProfileVersion names the environment that stages and decisions compile in. It is frozen: a function that
// changes meaning needs a new profile.
const ProfileVersion = "celvpa/v1"

// baseEnv is the profile: CEL's operators and macros without regular expressions and time zones, optional values, the
// engine's helpers, and the host's units, types and functions.
func baseEnv(r *Registry) (*cel.Env, error) {
	std := env.NewLibrarySubset().AddExcludedFunctions(
		env.NewFunction(operators.Add), // see addition
		env.NewFunction("matches"),
		env.NewFunction("duration"), env.NewFunction("timestamp"), // a host may call a unit so
		env.NewFunction("getFullYear"), env.NewFunction("getMonth"), env.NewFunction("getDayOfYear"),
		env.NewFunction("getDayOfMonth"), env.NewFunction("getDate"), env.NewFunction("getDayOfWeek"),
		env.NewFunction("getHours"), env.NewFunction("getMinutes"), env.NewFunction("getSeconds"),
		env.NewFunction("getMilliseconds"),
	)
	base, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	options := append(optionals(),
		cel.StdLib(cel.StdLibSubset(std)),
		optionalMacros(),
		addition(),
		cel.CustomTypeAdapter(base),
		cel.CustomTypeProvider(&provider{Provider: base, schemas: r.schemas}),
		inRecords(r.schemas),
		inRecords(gateSchema(r).withNested()),
	)
	for _, f := range r.functions {
		options = append(options, f.declaration())
	}
	return cel.NewCustomEnv(options...)
}

// gateSchema is the type of the variable `gates`: one boolean a declared gate.
func gateSchema(r *Registry) *Schema {
	var fields []Field
	for _, name := range slices.Sorted(maps.Keys(r.gates)) {
		fields = append(fields, Field{Name: name, Type: Bool, Doc: r.gates[name]})
	}
	return NewSchema("gates", fields...)
}
