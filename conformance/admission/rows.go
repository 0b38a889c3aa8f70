// Package admission provides objects for tests of VPA validation, from the test tables and at
// random, and judges them by the generated CRD like an API server, without a server.
package admission

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"strconv"

	"go.yaml.in/yaml/v3"
	kjson "k8s.io/apimachinery/pkg/util/json" // keeps integers, like API servers

	"github.com/celvpa/celvpa/conformance/rules"
	"github.com/celvpa/celvpa/controllers/facts"
)

// Row is a row of a test table of vpa.validate.
type Row struct {
	Table, Name string
	Object      map[string]any
	Old         map[string]any // the replaced object; nil = new
	Gates       map[string]bool
	Params      map[string]string
	Violations  []Violation // expected by the table; some rows give only part of each
}

// Violation is an expected violation; empty fields are not checked.
type Violation struct {
	Rule, Field, Severity, Message string
}

// String returns the row's test name.
func (r Row) String() string { return r.Table + "/" + r.Name }

// Rows returns the rows of all tables of vpa.validate.
func Rows() ([]Row, error) {
	files, err := fs.Glob(rules.FS, "*.yaml")
	if err != nil {
		return nil, err
	}
	var out []Row
	for _, file := range files {
		data, err := rules.FS.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := rowsOf(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no table is about %s", facts.VPAValidate)
	}
	return out, nil
}

// tableFile is the part of a RuleTest that matters here.
type tableFile struct {
	Metadata struct{ Name string }
	Spec     struct {
		Point         string
		Gates, Params map[string]any
		Given         map[string]any
		Rows          []struct {
			Name          string
			Gates, Params map[string]any
			Given         map[string]any
			Expect        struct{ Violations []Violation }
		}
	}
}

func rowsOf(data []byte) (out []Row, err error) {
	var table tableFile
	if err := yaml.Unmarshal(data, &table); err != nil || table.Spec.Point != facts.VPAValidate {
		return nil, err
	}
	for _, row := range table.Spec.Rows {
		given := laid(table.Spec.Given, row.Given)
		parsed := Row{Table: table.Metadata.Name, Name: row.Name, Gates: map[string]bool{}, Params: map[string]string{}, Violations: row.Expect.Violations}
		if parsed.Object, err = plain(given["object"]); err != nil {
			return nil, fmt.Errorf("row %q: %w", row.Name, err)
		}
		if parsed.Old, err = plain(given["oldObject"]); err != nil {
			return nil, fmt.Errorf("row %q: %w", row.Name, err)
		}
		for _, settings := range []map[string]any{table.Spec.Gates, row.Gates} {
			for name, on := range settings {
				if parsed.Gates[name], err = strconv.ParseBool(fmt.Sprint(on)); err != nil {
					return nil, fmt.Errorf("row %q: gate %s: %w", row.Name, name, err)
				}
			}
		}
		for _, settings := range []map[string]any{table.Spec.Params, row.Params} {
			for name, value := range settings {
				parsed.Params[name] = fmt.Sprint(value)
			}
		}
		out = append(out, parsed)
	}
	return out, nil
}

// laid merges mappings key by key; over wins for anything else.
func laid(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range over {
		below, isMap := out[key].(map[string]any)
		if above, both := value.(map[string]any); isMap && both {
			value = laid(below, above)
		}
		out[key] = value
	}
	return out
}

// plain converts a value to JSON types; nil stays nil.
func plain(value any) (out map[string]any, err error) {
	if value == nil {
		return nil, nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return out, kjson.Unmarshal(data, &out)
}
