package pagetest

import (
	"reflect"

	"github.com/celvpa/celvpa/backtest"
)

// Attack is what every text of Hostile holds: markup, ends of attributes, of the style and of the
// title, controls, and characters that turn the direction of what follows.
const Attack = `<script>window.hacked=1</script>"'><img src=x onerror=window.hacked=1></style></title>&lt;{}%s` + "\x00\x1b[31m\u202Eevil\u2066\u200B\xff שלום"

// Hostile has Attack in every text but the types of events and the names of built-in policies.
func Hostile() *backtest.Report {
	r := report(3, "0.15", "0.3")
	r.Policies[4].Enforces = []string{"overlay"}
	attack(reflect.ValueOf(r).Elem())
	return r
}

func attack(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() && v.String() != "" && v.String() != backtest.Manifest && v.String() != backtest.Hindsight {
			v.SetString(Attack + v.String())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			attack(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			attack(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.ValueOf(Attack))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				attack(f)
			}
		}
	}
}
