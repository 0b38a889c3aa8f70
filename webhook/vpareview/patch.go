package vpareview

import (
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celvpa/celvpa/controllers/facts"
)

// patch converts changes to operations. It applies them to the object as well, so that a missing parent is added once.
func patch(object map[string]any, changes []facts.Change) []jsonpatch.Operation {
	var out []jsonpatch.Operation
	for _, c := range changes {
		if op, ok := operation(object, c); ok {
			out = append(out, op)
		}
	}
	return out
}

// operation reports false where the parent cannot hold the field. The schema refuses such an object.
func operation(object map[string]any, c facts.Change) (jsonpatch.Operation, bool) {
	var at any = object
	var holder map[string]any // of the list at
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
			// Add the missing parents with the value in them. The operation gets its own copy, because later changes modify the
			// object.
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

// pointer writes a path as a JSON pointer (RFC 6901).
func pointer(path []string) string {
	var b strings.Builder
	for _, key := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return b.String()
}
