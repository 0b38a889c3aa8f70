package schema

import (
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/celvpa/celvpa/engine/registry"
)

// Open implements engine.ObjectTypes.
func (o *Objects) Open(object, old map[string]any) registry.ObjectView {
	v := &view{objects: o, object: object, found: map[string][]registry.ObjectValue{}, whole: common.UnstructuredToVal(object, o.shape), before: types.OptionalNone}
	if old != nil {
		v.old, v.before = old, types.OptionalOf(common.UnstructuredToVal(old, o.shape))
	}
	return v
}

// view is an object and the one it replaces.
type view struct {
	objects *Objects
	object  map[string]any
	old     any // nil for a new object
	found   map[string][]registry.ObjectValue

	whole  ref.Val
	before *types.Optional // the whole old object
}

// Values implements engine.ObjectView.
func (v *view) Values(at string) ([]registry.ObjectValue, error) {
	if found, ok := v.found[at]; ok {
		return found, nil
	}
	path, err := v.objects.segmentsOf(at)
	if err != nil {
		return nil, err
	}
	root := node{shape: v.objects.shape, now: v.object}
	if v.old != nil {
		root.same = common.NewCorrelatedObject(v.object, v.old, v.objects.shape)
	}
	found := []registry.ObjectValue{}
	for _, n := range walk(path, root) {
		found = append(found, registry.ObjectValue{Path: n.path, Unchanged: n.unchanged(), Vars: map[string]any{
			"self": common.UnstructuredToVal(n.now, n.shape), "oldSelf": n.before(), "object": v.whole, "oldObject": v.before,
		}})
	}
	v.found[at] = found
	return found, nil
}

// node is a value in an object.
type node struct {
	path  string
	shape *shape
	now   any
	same  *common.CorrelatedObject // the value and its old value; nil = new or unknown
	part  *common.CorrelatedObject // the closest ancestor with a known old value; nil = none
}

// before returns the old value.
func (n *node) before() *types.Optional {
	if n.same == nil || n.same.OldValue == nil {
		return types.OptionalNone
	}
	return types.OptionalOf(common.UnstructuredToVal(n.same.OldValue, n.shape))
}

// unchanged compares the value, or else its closest known ancestor, with its old state.
func (n *node) unchanged() bool {
	if n.same != nil {
		return n.same.CachedDeepEqual()
	}
	return n.part.CachedDeepEqual()
}

// below returns a child; same finds its old value from the parent's.
func (n *node) below(path string, shape *shape, now any, same func(*common.CorrelatedObject) *common.CorrelatedObject) node {
	out := node{path: path, shape: shape, now: now, part: n.part}
	if n.same != nil {
		out.same, out.part = same(n.same), n.same
	}
	return out
}

// walk finds every value at a path. Like API servers, it does not match list entries with old ones.
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
			entry := from.below(from.path+"["+strconv.Itoa(i)+"]", from.shape.items, item,
				func(c *common.CorrelatedObject) *common.CorrelatedObject { return c.Index(i) })
			out = append(out, walk(path[1:], entry)...)
		}
		return out
	}
	object, _ := from.now.(map[string]any)
	child, ok := object[path[0]]
	if !ok || child == nil {
		return nil
	}
	at := path[0]
	if from.path != "" {
		at = from.path + "." + path[0]
	}
	return walk(path[1:], from.below(at, from.shape.field(path[0]), child,
		func(c *common.CorrelatedObject) *common.CorrelatedObject { return c.Key(path[0]) }))
}
