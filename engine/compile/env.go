package compile

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// ProfileVersion names the CEL environment of stages and decisions. It is frozen: a function that
// changes meaning needs a new profile.
const ProfileVersion = "celvpa/v1"

// baseEnv is CEL without regular expressions and time zones, plus optionals, the engine's helpers,
// and the host's units, types and functions.
func baseEnv(r *registry.Registry) (*cel.Env, error) {
	std := env.NewLibrarySubset().AddExcludedFunctions(
		env.NewFunction(operators.Add), // replaced by closure.Addition
		env.NewFunction("matches"),
		env.NewFunction("duration"), env.NewFunction("timestamp"), // free for units
		env.NewFunction("getFullYear"), env.NewFunction("getMonth"), env.NewFunction("getDayOfYear"),
		env.NewFunction("getDayOfMonth"), env.NewFunction("getDate"), env.NewFunction("getDayOfWeek"),
		env.NewFunction("getHours"), env.NewFunction("getMinutes"), env.NewFunction("getSeconds"),
		env.NewFunction("getMilliseconds"),
	)
	base, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	options := append(closure.Optionals(),
		cel.StdLib(cel.StdLibSubset(std)),
		closure.OptionalMacros(),
		closure.Addition(),
		cel.CustomTypeAdapter(base),
		cel.CustomTypeProvider(&lang.TypeProvider{Provider: base, Schemas: r.Schemas()}),
		inRecords(r.Schemas()),
		inRecords(gateSchema(r).WithNested()),
	)
	for _, f := range r.FunctionsByName() {
		options = append(options, f.Declaration())
	}
	return cel.NewCustomEnv(options...)
}

// gateSchema is the type of the variable `gates`: one boolean per declared gate.
func gateSchema(r *registry.Registry) *lang.Schema {
	var fields []lang.Field
	for _, name := range slices.Sorted(maps.Keys(r.Gates())) {
		fields = append(fields, lang.Field{Name: name, Type: lang.Bool, Doc: r.Gates()[name]})
	}
	return lang.NewSchema("gates", fields...)
}
