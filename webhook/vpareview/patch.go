package vpareview

import (
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celvpa/celvpa/controllers/facts"
)

// patch makes operations of changes. It brings the object up to date on the way, so that a parent is added once.
func patch(object map[string]any, changes []facts.Change) []jsonpatch.Operation {
	var out []jsonpatch.Operation
	for _, c := range changes {
		if op, ok := operation(object, c); ok {
			out = append(out, op)
		}
	}
	return out
}

// operation reports false where there is nothing that a field could be put into: the schema refuses what is there.
func operation(object map[string]any, c facts.Change) (jsonpatch.Operation, bool) {
	var at any = object
	var holder map[string]any // of the list that at is
	for i, key := range c.Path {
		last := i == len(c.Path)-1
		if list, isList := at.([]any); isList && key == facts.NewEntry {
			holder[c.Path[i-1]] = append(list, runtime.DeepCopyJSONValue(c.Value))
			return jsonpatch.NewOperation("add", pointer(c.Path), c.Value), true
		} else if isList {
			n, _ := strconv.Atoi(key) // an index that facts.Defaults counted
			at = list[n]
			continue
		}
		parent, ok := at.(map[string]any)
		holder = parent
		if !ok {
			break
		}
		switch {
		case last && c.Value == nil:
			delete(parent, key)
			return jsonpatch.NewOperation("remove", pointer(c.Path), nil), true
		case last:
			_, replaces := parent[key]
			parent[key] = runtime.DeepCopyJSONValue(c.Value)
			if replaces {
				return jsonpatch.NewOperation("replace", pointer(c.Path), c.Value), true
			}
			return jsonpatch.NewOperation("add", pointer(c.Path), c.Value), true
		case parent[key] == nil:
			// What is missing on the way is added with the value in it. The operation has its own copy: later changes go on
			// into the object.
			parent[key] = nested(c.Path[i+1:], runtime.DeepCopyJSONValue(c.Value))
			return jsonpatch.NewOperation("add", pointer(c.Path[:i+1]), nested(c.Path[i+1:], c.Value)), true
		}
		at = parent[key]
	}
	return jsonpatch.Operation{}, false
}

func nested(path []string, value any) any {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == facts.NewEntry {
			value = []any{value}
			continue
		}
		value = map[string]any{path[i]: value}
	}
	return value
}

// pointer is a path as RFC 6901 writes it.
func pointer(path []string) string {
	var b strings.Builder
	for _, key := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return b.String()
}
