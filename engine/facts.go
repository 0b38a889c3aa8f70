package engine

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Facts are the inputs and outputs of one run at one point. They belong to one goroutine.
type Facts struct {
	point  *Point
	values []cell
	items  [][]*Item

	// Notes collects what rules outside any scope noted, in order.
	Notes []string
}

// NewFacts returns empty facts for the point.
func (p *Point) NewFacts() *Facts {
	return &Facts{point: p, values: make([]cell, len(p.Vars)), items: make([][]*Item, len(p.Scopes))}
}

// Set gives a variable of the point its value. It panics on a name the point does not declare.
func (f *Facts) Set(name string, v ref.Val) *Facts {
	i, ok := f.point.varIndex[name]
	if !ok {
		panic(fmt.Sprintf("engine: point %s has no variable %s", f.point.Name, name))
	}
	f.values[i] = cellOf(v)
	return f
}

// get reads a variable by its index in the point; nil when it is unset.
func (f *Facts) get(i int) ref.Val { return f.values[i].val() }

// AddItem adds an item to a scope; label names it in traces, and is the value of the scope's text variable that is
// called like the scope, where there is one. Items run in the order they were added.
func (f *Facts) AddItem(scope, label string) *Item {
	i, ok := f.point.scopeIndex[scope]
	if !ok {
		panic(fmt.Sprintf("engine: point %s has no scope %s", f.point.Name, scope))
	}
	item := &Item{Label: label, scope: &f.point.Scopes[i]}
	item.values = make([]cell, len(item.scope.Vars))
	f.items[i] = append(f.items[i], item)
	if item.scope.labelled {
		item.Set(scope, Text(label))
	}
	return item
}

// Items are the items of a scope, in the order in which they were added.
func (f *Facts) Items(scope string) []*Item {
	i, ok := f.point.scopeIndex[scope]
	if !ok {
		panic(fmt.Sprintf("engine: point %s has no scope %s", f.point.Name, scope))
	}
	return f.items[i]
}

// Item is one element of a scope, e.g. one container or one bound.
type Item struct {
	Label string
	// Notes collects what rules noted about this item, in order.
	Notes []string

	scope  *Scope
	kind   int // index into Scope.Kinds from 1; 0 = another
	values []cell
}

// Set gives a variable of the scope its value for this item.
func (it *Item) Set(name string, v ref.Val) *Item {
	for i := range it.scope.Vars {
		if it.scope.Vars[i].Name == name {
			it.values[i] = cellOf(v)
			if name == it.scope.Kind {
				text, _ := unbox[string](v)
				it.kind = 1 + slices.Index(it.scope.Kinds, text)
			}
			return it
		}
	}
	panic(fmt.Sprintf("engine: scope %s has no variable %s", it.scope.Name, name))
}

// Record reads a variable of the scope that is a record: the very one that rules write, nil when it is unset. It panics on
// a name the scope does not declare.
func (it *Item) Record(name string) *Record {
	i := it.scope.index(name)
	if i < 0 {
		panic(fmt.Sprintf("engine: scope %s has no variable %s", it.scope.Name, name))
	}
	r, _ := it.get(i).(*Record)
	return r
}

// get reads a variable by its index in the scope; nil when it is unset.
func (it *Item) get(i int) ref.Val { return it.values[i].val() }

// Text makes a string value for Set.
func Text(s string) ref.Val { return types.String(s) }

// Number makes an integer value for Set.
func Number(n int64) ref.Val { return types.Int(n) }

// Records makes a list value for Set.
func Records(list []*Record) ref.Val {
	vals := make([]ref.Val, len(list))
	for i, r := range list {
		vals[i] = r
	}
	return types.NewRefValList(types.DefaultTypeAdapter, vals)
}
