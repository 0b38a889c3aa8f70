package lang

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

const (
	// MaxListSize is how many entries a list of facts is taken to have at most, e.g. the containers of a pod.
	MaxListSize = 500
	// MaxFieldList is the same for lists in fields of records, of which there are lists in turn. Rules cannot store larger
	// ones.
	MaxFieldList = 32
	// MaxItems is how many items a stage is taken to run for at most.
	MaxItems = 100
	// MaxTextSize is how long a text among the facts is taken to be at most, in bytes. Rules cannot store longer ones.
	MaxTextSize = 1024
	// MaxEntrySize is the same for texts in lists, which are names as a rule.
	MaxEntrySize = 256
	// MaxText bounds a text that an expression builds, in bytes.
	MaxText = 64 << 10
	// MaxList bounds a list or map that an expression builds, in bytes, with all that is in it however often it is there:
	// a comparison goes through all of that, too.
	MaxList = 8 << 20

	// What values count for, in bytes, beside what is in them.
	ValueBytes  = 16
	ListBytes   = 24
	recordBytes = 64 // records are never copied into lists
	// NumberText is how long the text of a number can get.
	NumberText = 32
)

// Extent bounds the size of a value.
type Extent struct {
	Length int64   // bytes of a text, entries of a list or map
	Bytes  int64   // with all that is in it
	Elem   *Extent // of entries; nil = they are numbers
	Key    *Extent // of a map
}

// ScalarExtent is the size of a number or a boolean.
var ScalarExtent = &Extent{Length: 1, Bytes: ValueBytes}

// TextExtent is the size of a text of so many bytes.
func TextExtent(length int64) *Extent { return &Extent{Length: length, Bytes: ValueBytes + length} }

// ListExtent is the size of a list of so many elements.
func ListExtent(length int64, elem *Extent) *Extent {
	return &Extent{Length: length, Bytes: SaturatingTimes(length, elem.Bytes, ListBytes), Elem: elem}
}

func mapExtent(length int64, key, elem *Extent) *Extent {
	out := ListExtent(length, elem)
	out.Bytes, out.Key = SaturatingAdd(out.Bytes, SaturatingTimes(length, key.Bytes, 0)), key
	return out
}

// SaturatingTimes is n × each + base, of numbers that are not negative.
func SaturatingTimes(n, each, base int64) int64 {
	product, _ := MulDivFloor(n, each, 1)
	return SaturatingAdd(product, base)
}

// Entry is the extent of what a list or map holds.
func (x *Extent) Entry() *Extent {
	if x == nil || x.Elem == nil {
		return ScalarExtent
	}
	return x.Elem
}

// Looped is the extent of what a loop over the value goes through.
func (x *Extent) Looped() *Extent {
	if x.Key != nil {
		return x.Key
	}
	return x.Entry()
}

// Larger is an extent that holds either of two values.
func Larger(a, b *Extent) *Extent {
	switch {
	case a == nil:
		return b
	case b == nil || a == b:
		return a
	}
	return &Extent{Length: max(a.Length, b.Length), Bytes: max(a.Bytes, b.Bytes), Elem: Larger(a.Elem, b.Elem), Key: Larger(a.Key, b.Key)}
}

// Concatenated is the extent of the two texts or lists put together.
func Concatenated(a, b *Extent) *Extent {
	return &Extent{Length: SaturatingAdd(a.Length, b.Length), Bytes: SaturatingAdd(a.Bytes, b.Bytes), Elem: Larger(a.Elem, b.Elem), Key: Larger(a.Key, b.Key)}
}

// FactExtent is how large facts of a type are taken to be at most.
func FactExtent(t *types.Type) *Extent { return usualExtent(t, MaxTextSize, MaxListSize) }

// FieldExtent is factExtent for fields of records.
func FieldExtent(t *types.Type) *Extent { return usualExtent(t, MaxTextSize, MaxFieldList) }

// AnyField is the extent of a field of a record of which only a run tells which record it is.
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

// Weigh gives the size of a value as extents count it. It stops counting beyond a limit.
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
