package simulate

import (
	"strconv"
	"strings"

	"github.com/celvpa/celvpa/controllers/podpatch"
	jsonpatch "github.com/evanphx/json-patch/v5"
	patch "gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/json"
)

// withParents adds missing parents: the patch is for a defaulted pod, not for the manifest.
func withParents(object map[string]any, ops []patch.Operation) (out []patch.Operation) {
	made := map[string]bool{}
	for _, op := range ops {
		for i := 1; i < len(op.Path); i++ {
			if at := op.Path[:i]; op.Path[i] == '/' && !made[at] && !written(object, at) {
				out = append(out, podpatch.Add(at, map[string]any{}))
				made[at] = true
			}
		}
		if empty, ok := op.Value.(map[string]any); ok && len(empty) == 0 && written(object, op.Path) {
			continue // keep what is there, even fields unknown to this version
		}
		out = append(out, op)
		made[op.Path] = true
	}
	return out
}

func written(object any, path string) bool {
	for _, key := range strings.Split(path, "/")[1:] {
		switch at := object.(type) {
		case map[string]any:
			object = at[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(at) {
				return false
			}
			object = at[i]
		default:
			return false
		}
	}
	return object != nil
}

// Patched returns a copy of an object, a pointer or a map, with a JSON patch applied. It is an error
// if the patch does not fit the object.
func Patched[T any](object T, ops []patch.Operation) (out T, err error) {
	before, err := json.Marshal(object)
	if err != nil {
		return out, err
	}
	text, err := json.Marshal(ops)
	if err != nil {
		return out, err
	}
	decoded, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return out, err
	}
	after, err := decoded.Apply(before)
	if err != nil {
		return out, err
	}
	err = json.Unmarshal(after, &out)
	return out, err
}
