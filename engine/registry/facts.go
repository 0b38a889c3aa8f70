package registry

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// Facts are the inputs and outputs of one run at one point. They are not safe for concurrent use.
type Facts struct {
	point  *Point
	values []lang.Cell
	items  [][]*Item

	// Notes are the notes of rules outside any scope, in order.
	Notes []string
	// Written reports whether rules set or unset a variable of the point.
	Written bool
}

// NewFacts returns empty facts for the point.
func (p *Point) NewFacts() *Facts {
	return &Facts{point: p, values: make([]lang.Cell, len(p.Vars)), items: make([][]*Item, len(p.Scopes))}
}

// Set sets a variable of the point. It panics on an undeclared name and on one that shows a scope.
func (f *Facts) Set(name string, v ref.Val) *Facts {
	i, ok := f.point.varIndex[name]
	if !ok || f.point.Vars[i].scope != nil {
		panic(fmt.Sprintf("engine: point %s has no variable %s to set", f.point.Name, name))
	}
	f.values[i] = lang.CellOf(v)
	return f
}

// Unset lists the variables that the host did not set; an item's carry the scope as a prefix.
func (f *Facts) Unset() []string {
	var out []string
	for _, v := range f.point.GivenVars() {
		if f.Value(f.point.varIndex[v.Name]) == nil {
			out = append(out, v.Name)
		}
	}
	for i := range f.point.Scopes {
		scope := &f.point.Scopes[i]
		for _, item := range f.items[i] {
			for j, v := range scope.Vars {
				if item.Value(j) == nil {
					out = append(out, scope.Name+"."+v.Name)
				}
			}
		}
	}
	return out
}

// Value reads a variable by its index in the point; nil if unset.
func (f *Facts) Value(i int) ref.Val { return f.values[i].Val() }

// AddItem appends an item to a scope. The label names it in traces and in rules; see Scope.
func (f *Facts) AddItem(scope, label string) *Item {
	i, ok := f.point.scopeIndex[scope]
	if !ok {
		panic(fmt.Sprintf("engine: point %s has no scope %s", f.point.Name, scope))
	}
	s := &f.point.Scopes[i]
	if s.Full(f.items[i]) {
		panic(fmt.Sprintf("engine: point %s: scope %s has one item at most", f.point.Name, scope))
	}
	for _, shows := range f.point.shows {
		if f.point.Vars[shows].scope == s {
			f.values[shows] = lang.Cell{}
		}
	}
	item := &Item{scope: s, record: s.item.Make(), Label: label, kind: 1 + slices.Index(s.Kinds, label)}
	if s.label >= 0 {
		item.record.Cells()[s.label] = lang.Cell{Kind: lang.RefCell, Ref: types.String(label)}
	}
	if s.place >= 0 {
		item.record.Cells()[s.place] = lang.Cell{Kind: lang.IntCell, Bits: uint64(len(f.items[i]))}
	}
	f.items[i] = append(f.items[i], item)
	return item
}

// Items returns the items of a scope, in the order added.
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
	// Notes are the notes of rules about this item, in order.
	Notes []string
	// Written reports whether rules set or unset a variable of the item.
	Written bool

	scope  *Scope
	kind   int         // index into Scope.Kinds from 1; 0 = another
	record lang.Record // its facts
}

// Set sets a variable of the scope for this item.
func (it *Item) Set(name string, v ref.Val) *Item {
	i := it.scope.Index(name)
	if i < 0 || !it.scope.Given(i) {
		panic(fmt.Sprintf("engine: scope %s has no variable %s to set", it.scope.Name, name))
	}
	it.record.Cells()[i] = lang.CellOf(v)
	return it
}

// Record returns a variable's record, not a copy; nil if unset. It panics on unknown names.
func (it *Item) Record(name string) *lang.Record {
	i := it.scope.Index(name)
	if i < 0 {
		panic(fmt.Sprintf("engine: scope %s has no variable %s", it.scope.Name, name))
	}
	r, _ := it.Value(i).(*lang.Record)
	return r
}

// Field is a field of a variable's record, which is created if it is missing.
func (it *Item) Field(name string, path []int) *lang.Cell {
	cell := &it.record.Cells()[it.scope.Index(name)]
	for _, i := range path {
		record := Writable(cell)
		if cell = &record.Cells()[i]; cell.Kind == lang.UnsetCell && record.Schema().Fields()[i].Type.IsRecord() {
			*cell = lang.Cell{Kind: lang.RefCell, Ref: record.Schema().Fields()[i].Type.Schema().Empty()}
		}
	}
	return cell
}

// Writable returns the record in a cell. It replaces the empty record, which is shared, by a new one.
func Writable(c *lang.Cell) *lang.Record {
	record := c.Ref.(*lang.Record)
	if schema := record.Schema(); record == schema.Empty() {
		record = schema.New()
		c.Ref = record
	}
	return record
}

// Value reads a variable by its index in the scope; nil if unset.
func (it *Item) Value(i int) ref.Val { return it.record.At(i) }

// Filled returns the variables in the point's order; f may be nil. Unset lists and records read as
// empty.
func (f *Facts) Filled(point *Point) []lang.Cell {
	out := make([]lang.Cell, len(point.Vars))
	if f != nil {
		copy(out, f.values)
	}
	for i, v := range point.Vars {
		if _, isList := v.Type.Elem(); out[i].Kind != lang.UnsetCell {
			continue
		} else if isList {
			out[i] = lang.CellOf(lang.NewList(nil))
		} else if v.Type.IsRecord() {
			out[i] = lang.CellOf(v.Type.Schema().Empty())
		}
	}
	return out
}

// Labelled finds an item of a scope by its label; nil if there is none.
func (f *Facts) Labelled(scope int, label string) *Item {
	for _, item := range f.items[scope] {
		if item.Label == label {
			return item
		}
	}
	return nil
}

// Point returns the point of the facts.
func (f *Facts) Point() *Point { return f.point }

// Values are the variables in the point's order.
func (f *Facts) Values() []lang.Cell { return f.values }

// ByScope returns the items of each scope, in the point's order.
func (f *Facts) ByScope() [][]*Item { return f.items }

// Fields are the item's facts.
func (it *Item) Fields() *lang.Record { return &it.record }
