package engine

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// ProfileVersion names the environment that stages and decisions compile in. It is frozen: a function that
// changes meaning needs a new profile.
const ProfileVersion = "celvpa/v1"

// baseEnv is the profile: CEL's operators and macros without regular expressions and time zones, the engine's
// helpers, and the host's units, types and functions.
func (r *Registry) baseEnv() (*cel.Env, error) {
	std := env.NewLibrarySubset().AddExcludedFunctions(
		env.NewFunction("matches"),
		env.NewFunction("getFullYear"), env.NewFunction("getMonth"), env.NewFunction("getDayOfYear"),
		env.NewFunction("getDayOfMonth"), env.NewFunction("getDate"), env.NewFunction("getDayOfWeek"),
		env.NewFunction("getHours"), env.NewFunction("getMinutes"), env.NewFunction("getSeconds"),
		env.NewFunction("getMilliseconds"),
	)
	base, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(std)),
		cel.CustomTypeAdapter(base),
		cel.CustomTypeProvider(&provider{Provider: base, schemas: r.schemas}),
	}
	options = append(options, helpers()...)
	for _, name := range r.unitOrder {
		if u := r.units[name]; u.Func != "" {
			options = append(options, unitFunction(u))
		}
	}
	options = append(options, r.functions...)
	return cel.NewCustomEnv(options...)
}

// unitFunction declares the helper that reads a literal of a unit, e.g. cpu('250m').
func unitFunction(u Unit) cel.EnvOption {
	return cel.Function(u.Func,
		cel.FunctionDocs("reads "+u.Doc+" from text"),
		cel.Overload(u.Func+"_string", []*cel.Type{cel.StringType}, cel.IntType,
			cel.UnaryBinding(func(v ref.Val) ref.Val {
				n, err := u.Parse(string(v.(types.String)))
				if err != nil {
					return types.NewErr("%v", err)
				}
				return types.Int(n)
			})))
}

// gateSchema is the type of the variable `gates`: one boolean a declared gate.
func (r *Registry) gateSchema() *Schema {
	var fields []Field
	for _, name := range sortedKeys(r.gates) {
		fields = append(fields, Field{Name: name, Type: Bool, Doc: r.gates[name]})
	}
	return NewSchema("gates", fields...)
}
