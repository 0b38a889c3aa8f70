package schema

import (
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/celvpa/celvpa/engine"
)

// Open implements engine.ObjectTypes.
func (o *Objects) Open(object, old map[string]any) engine.ObjectView {
	v := &view{objects: o, object: object, found: map[string][]engine.ObjectValue{}, whole: schemacel.UnstructuredToVal(object, o.root), before: types.OptionalNone}
	if old != nil {
		v.old, v.before = old, types.OptionalOf(schemacel.UnstructuredToVal(old, o.root))
	}
	return v
}

// view is one object with what it replaces.
type view struct {
	objects *Objects
	object  map[string]any
	old     any // nil = the object is new
	found   map[string][]engine.ObjectValue

	whole  ref.Val
	before *types.Optional // the whole as it was
}

// Values implements engine.ObjectView.
func (v *view) Values(at string) ([]engine.ObjectValue, error) {
	if found, ok := v.found[at]; ok {
		return found, nil
	}
	if _, _, err := v.objects.schemaAt(at); err != nil {
		return nil, err
	}
	root := node{schema: v.objects.root, now: v.object, before: v.old}
	if v.old != nil {
		root.correlated = common.NewCorrelatedObject(v.object, v.old, &model.Structural{Structural: v.objects.root})
	}
	found := []engine.ObjectValue{}
	for _, n := range walk(segments(at), root) {
		old := types.OptionalNone
		if n.before != nil {
			old = types.OptionalOf(schemacel.UnstructuredToVal(n.before, n.schema))
		}
		found = append(found, engine.ObjectValue{Path: n.path, Unchanged: n.correlated.CachedDeepEqual(), Vars: map[string]any{
			"self": schemacel.UnstructuredToVal(n.now, n.schema), "oldSelf": old, "object": v.whole, "oldObject": v.before,
		}})
	}
	v.found[at] = found
	return found, nil
}

// node is a value in an object. correlated compares it with what it was or, where that cannot be told, what it is part
// of; nil = there is nothing to compare with.
type node struct {
	path        string
	schema      *structural.Structural
	now, before any
	correlated  *common.CorrelatedObject
	lost bool
}

// walk finds every value at a path. Entries of lists are not matched with what they were, as API servers do not either.
func walk(path []string, from node) []node {
	if len(path) == 0 {
		return []node{from}
	}
	if path[0] == "[*]" {
		list, _ := from.now.([]any)
		var out []node
		for i, item := range list {
			if item == nil {
				continue
			}
			entry := node{path: from.path + "[" + strconv.Itoa(i) + "]", schema: from.schema.Items, now: item, correlated: from.correlated, lost: true}
			if !from.lost {
				if same := from.correlated.Index(i); same != nil {
					entry.correlated, entry.before, entry.lost = same, same.OldValue, false
				}
			}
			out = append(out, walk(path[1:], entry)...)
		}
		return out
	}
	object, _ := from.now.(map[string]any)
	child, ok := object[path[0]]
	if !ok || child == nil {
		return nil
	}
	schema := from.schema.Properties[path[0]]
	below := node{path: path[0], schema: &schema, now: child, correlated: from.correlated, lost: true}
	if from.path != "" {
		below.path = from.path + "." + path[0]
	}
	if !from.lost {
		if same := from.correlated.Key(path[0]); same != nil {
			below.correlated, below.before, below.lost = same, same.OldValue, false
		}
	}
	return walk(path[1:], below)
}
