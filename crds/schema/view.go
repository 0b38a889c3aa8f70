package schema

import (
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/celvpa/celvpa/engine/registry"
)

// Open implements registry.ObjectTypes.
func (o *Objects) Open(object, old map[string]any) registry.ObjectView { return o.open(object, old) }

func (o *Objects) open(object, old map[string]any) *view {
	v := &view{objects: o, old: old, found: make([][]registry.ObjectValue, o.placesKnown())}
	v.root = &node{view: v, shape: o.shape, now: object}
	if old != nil {
		v.root.same = common.NewCorrelatedObject(object, old, o.shape)
	}
	return v
}

// view is an object and the one it replaces.
type view struct {
	objects *Objects
	root    *node
	old     map[string]any           // nil for a new object
	found   [][]registry.ObjectValue // by place.index, nodes; nil = not yet sought
}

// Values implements registry.ObjectView.
func (v *view) Values(at registry.ObjectPlace) []registry.ObjectValue { return v.at(at.(*place)) }

// at finds every value at a place, below those at the place above it.
func (v *view) at(p *place) []registry.ObjectValue {
	if p.index >= len(v.found) { // made since the object was opened
		v.found = append(v.found, make([][]registry.ObjectValue, p.index+1-len(v.found))...)
	}
	if found := v.found[p.index]; found != nil {
		return found
	}
	out := []registry.ObjectValue{}
	switch {
	case p.above == nil:
		out = append(out, v.root)
	case p.name == "[*]":
		for _, n := range v.at(p.above) {
			out = n.(*node).appendEntries(out)
		}
	default:
		for _, n := range v.at(p.above) {
			if child := n.(*node).field(p.name); child != nil {
				out = append(out, child)
			}
		}
	}
	v.found[p.index] = out
	return out
}

// oldObject is the old object for CEL.
func (v *view) oldObject() *types.Optional {
	if v.old == nil {
		return types.OptionalNone
	}
	return types.OptionalOf(common.UnstructuredToVal(v.old, v.objects.shape))
}

// Vars implements registry.ObjectValue.
func (n *node) Vars() map[string]any {
	before := types.OptionalNone
	if same := n.correlated(); same != nil && same.OldValue != nil {
		before = types.OptionalOf(common.UnstructuredToVal(same.OldValue, n.shape))
	}
	return map[string]any{
		"self": common.UnstructuredToVal(n.now, n.shape), "oldSelf": before,
		"object": common.UnstructuredToVal(n.view.root.now, n.view.objects.shape), "oldObject": n.view.oldObject(),
	}
}

var _ registry.ObjectValue = &node{}
