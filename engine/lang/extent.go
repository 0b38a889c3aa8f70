package lang

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

const (
	// MaxListSize is the assumed maximum length of a list of facts, e.g. the containers of a pod.
	MaxListSize = 500
	// MaxFieldList is the same for lists in fields of records. Rules cannot store longer ones.
	MaxFieldList = 32
	// MaxItems is the assumed maximum number of items that a stage runs for.
	MaxItems = 100
	// MaxTextSize is the assumed maximum length of a string fact, in bytes. Rules cannot store
	// longer ones.
	MaxTextSize = 1024
	// MaxEntrySize is the same for strings in lists, which are usually names.
	MaxEntrySize = 256
	// MaxText bounds a string that an expression builds, in bytes.
	MaxText = 64 << 10
	// MaxList bounds a list or map that an expression builds, in bytes. Shared contents count each
	// time, because a comparison visits them each time.
	MaxList = 8 << 20

	// Overhead per value, in bytes.
	ValueBytes  = 16
	ListBytes   = 24
	recordBytes = 64 // records are never copied into lists
	// NumberText is the maximum length of a number as a string.
	NumberText = 32
)

// Extent bounds the size of a value.
type Extent struct {
	Length int64   // bytes of a string, entries of a list or map
	Bytes  int64   // including contents
	Elem   *Extent // of entries; nil = numbers
	Key    *Extent // of a map
}

// ScalarExtent is the size of a number or a boolean.
var ScalarExtent = &Extent{Length: 1, Bytes: ValueBytes}

// TextExtent is the size of a string of that many bytes.
func TextExtent(length int64) *Extent { return &Extent{Length: length, Bytes: ValueBytes + length} }

// ListExtent is the size of a list of that many elements.
func ListExtent(length int64, elem *Extent) *Extent {
	return &Extent{Length: length, Bytes: SaturatingTimes(length, elem.Bytes, ListBytes), Elem: elem}
}

func mapExtent(length int64, key, elem *Extent) *Extent {
	out := ListExtent(length, elem)
	out.Bytes, out.Key = SaturatingAdd(out.Bytes, SaturatingTimes(length, key.Bytes, 0)), key
	return out
}

// SaturatingTimes is n × each + base for non-negative numbers.
func SaturatingTimes(n, each, base int64) int64 {
	product, _ := MulDivFloor(n, each, 1)
	return SaturatingAdd(product, base)
}

// Entry is the extent of an element or of a map's value.
func (x *Extent) Entry() *Extent {
	if x == nil || x.Elem == nil {
		return ScalarExtent
	}
	return x.Elem
}

// Looped is the extent of what a loop over the value iterates over.
func (x *Extent) Looped() *Extent {
	if x.Key != nil {
		return x.Key
	}
	return x.Entry()
}

// Larger is an extent that fits both values.
func Larger(a, b *Extent) *Extent {
	switch {
	case a == nil:
		return b
	case b == nil || a == b:
		return a
	}
	return &Extent{Length: max(a.Length, b.Length), Bytes: max(a.Bytes, b.Bytes), Elem: Larger(a.Elem, b.Elem), Key: Larger(a.Key, b.Key)}
}

// Concatenated is the extent of two strings or lists joined.
func Concatenated(a, b *Extent) *Extent {
	return &Extent{Length: SaturatingAdd(a.Length, b.Length), Bytes: SaturatingAdd(a.Bytes, b.Bytes), Elem: Larger(a.Elem, b.Elem), Key: Larger(a.Key, b.Key)}
}

// FactExtent is the assumed maximum size of facts of a type.
func FactExtent(t *types.Type) *Extent { return usualExtent(t, MaxTextSize, MaxListSize) }

// FieldExtent is FactExtent for fields of records.
func FieldExtent(t *types.Type) *Extent { return usualExtent(t, MaxTextSize, MaxFieldList) }

// AnyField is the extent of a field when the record's type is only known at run time.
var AnyField = &Extent{Length: MaxTextSize, Bytes: ListBytes + MaxFieldList*(ValueBytes+MaxEntrySize), Elem: TextExtent(MaxTextSize)}

func usualExtent(t *types.Type, text, entries int64) *Extent {
	t = Inside(t)
	inside := func(i int) *Extent { return usualExtent(t.Parameters()[i], MaxEntrySize, MaxFieldList) }
	switch t.Kind() {
	case types.StringKind, types.BytesKind:
		return TextExtent(text)
	case types.ListKind:
		return ListExtent(entries, inside(0))
	case types.MapKind:
		return mapExtent(entries, inside(0), inside(1))
	case types.StructKind:
		return &Extent{Length: 1, Bytes: recordBytes}
	case types.DynKind, types.AnyKind:
		return ListExtent(entries, TextExtent(MaxEntrySize))
	}
	return ScalarExtent
}

// Weigh is the size of a value, counted as extents are. It stops counting above limit.
func Weigh(v ref.Val, limit int64) int64 {
	switch v := v.(type) {
	case types.String:
		return ValueBytes + int64(len(v))
	case types.Bytes:
		return ValueBytes + int64(len(v))
	case *types.Optional:
		if v.HasValue() {
			return Weigh(v.GetValue(), limit)
		}
		return ValueBytes
	case *Record:
		return recordBytes
	case *List:
		return v.Weight
	case traits.Mapper:
		total := int64(ListBytes)
		for it := v.Iterator(); total <= limit && it.HasNext() == types.True; {
			key := it.Next()
			total += Weigh(key, limit-total)
			if entry, ok := v.Find(key); ok {
				total += Weigh(entry, limit-total)
			}
		}
		return total
	case traits.Lister:
		total := int64(ListBytes)
		for it := v.Iterator(); total <= limit && it.HasNext() == types.True; {
			total += Weigh(it.Next(), limit-total)
		}
		return total
	}
	return ValueBytes
}
