package schema

import (
	"strconv"

	"k8s.io/apiserver/pkg/cel/common"

	"github.com/celvpa/celvpa/engine/registry"
)

// node is a value in an object.
type node struct {
	view   *view
	parent *node  // nil for the whole object
	name   string // in the parent; empty for an entry of a list
	index  int    // in the parent list
	shape  *shape
	now    any

	matched bool                     // same is known
	same    *common.CorrelatedObject // the value and its old value; nil = new or unknown
}

// Path implements registry.ObjectValue.
func (n *node) Path() string {
	switch {
	case n.parent == nil:
		return ""
	case n.name == "":
		return n.parent.Path() + "[" + strconv.Itoa(n.index) + "]"
	case n.parent.parent == nil:
		return n.name
	}
	return n.parent.Path() + "." + n.name
}

// correlated finds the old value. Like API servers, it does not match list entries with old ones.
func (n *node) correlated() *common.CorrelatedObject {
	if n.matched || n.parent == nil {
		return n.same
	}
	n.matched = true
	switch parent := n.parent.correlated(); {
	case parent == nil:
	case n.name == "":
		n.same = parent.Index(n.index)
	default:
		n.same = parent.Key(n.name)
	}
	return n.same
}

// Unchanged implements registry.ObjectValue. It compares the value, or else its closest ancestor
// with a known old value, with that.
func (n *node) Unchanged() bool {
	for ; n != nil; n = n.parent {
		if same := n.correlated(); same != nil {
			return same.CachedDeepEqual()
		}
	}
	return false
}

// field returns a field, or an entry of a map, that is set; nil = none.
func (n *node) field(name string) *node {
	object, _ := n.now.(map[string]any)
	child, shape := object[name], n.shape.below(name)
	if child == nil || shape == nil {
		return nil
	}
	return &node{view: n.view, parent: n, name: name, shape: shape, now: child}
}

// appendEntries appends the entries of a list.
func (n *node) appendEntries(out []registry.ObjectValue) []registry.ObjectValue {
	list, _ := n.now.([]any)
	nodes := make([]node, len(list))
	for i, item := range list {
		if item == nil {
			continue
		}
		nodes[i] = node{view: n.view, parent: n, index: i, shape: n.shape.items, now: item}
		out = append(out, &nodes[i])
	}
	return out
}
