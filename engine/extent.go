package engine

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

const (
	// maxListSize is how many entries a list of facts is taken to have at most, e.g. the containers of a pod.
	maxListSize = 500
	// maxFieldList is the same for lists in fields of records, of which there are lists in turn. Rules cannot store larger
	// ones.
	maxFieldList = 32
	// maxItems is how many items a stage is taken to run for at most.
	maxItems = 100
	// maxTextSize is how long a text among the facts is taken to be at most, in bytes. Rules cannot store longer ones.
	maxTextSize = 1024
	// maxEntrySize is the same for texts in lists, which are names as a rule.
	maxEntrySize = 256
	// maxText bounds a text that an expression builds, in bytes.
	maxText = 64 << 10
	// maxList bounds a list or map that an expression builds, in bytes, with all that is in it however often it is there:
	// a comparison goes through all of that, too.
	maxList = 8 << 20

	// What values count for, in bytes, beside what is in them.
	valueBytes  = 16
	listBytes   = 24
	recordBytes = 64 // records are never copied into lists
	// numberText is how long the text of a number can get.
	numberText = 32
)

// extent bounds the size of a value.
type extent struct {
	length int64   // bytes of a text, entries of a list or map
	bytes  int64   // with all that is in it
	elem   *extent // of entries; nil = they are numbers
	key    *extent // of a map
}

var scalarExtent = &extent{length: 1, bytes: valueBytes}

func textExtent(length int64) *extent { return &extent{length: length, bytes: valueBytes + length} }

func listExtent(length int64, elem *extent) *extent {
	return &extent{length: length, bytes: saturatingTimes(length, elem.bytes, listBytes), elem: elem}
}

func mapExtent(length int64, key, elem *extent) *extent {
	out := listExtent(length, elem)
	out.bytes, out.key = SaturatingAdd(out.bytes, saturatingTimes(length, key.bytes, 0)), key
	return out
}

// saturatingTimes is n × each + base, of numbers that are not negative.
func saturatingTimes(n, each, base int64) int64 {
	product, _ := MulDivFloor(n, each, 1)
	return SaturatingAdd(product, base)
}

// entry is the extent of what a list or map holds.
func (x *extent) entry() *extent {
	if x == nil || x.elem == nil {
		return scalarExtent
	}
	return x.elem
}

// looped is the extent of what a loop over the value goes through.
func (x *extent) looped() *extent {
	if x.key != nil {
		return x.key
	}
	return x.entry()
}

// larger is an extent that holds either of two values.
func larger(a, b *extent) *extent {
	switch {
	case a == nil:
		return b
	case b == nil || a == b:
		return a
	}
	return &extent{length: max(a.length, b.length), bytes: max(a.bytes, b.bytes), elem: larger(a.elem, b.elem), key: larger(a.key, b.key)}
}

// concatenated is the extent of the two texts or lists put together.
func concatenated(a, b *extent) *extent {
	return &extent{length: SaturatingAdd(a.length, b.length), bytes: SaturatingAdd(a.bytes, b.bytes), elem: larger(a.elem, b.elem), key: larger(a.key, b.key)}
}

// factExtent is how large facts of a type are taken to be at most.
func factExtent(t *types.Type) *extent { return usualExtent(t, maxTextSize, maxListSize) }

// fieldExtent is factExtent for fields of records.
func fieldExtent(t *types.Type) *extent { return usualExtent(t, maxTextSize, maxFieldList) }

// anyField is the extent of a field of a record of which only a run tells which record it is.
var anyField = &extent{length: maxTextSize, bytes: listBytes + maxFieldList*(valueBytes+maxEntrySize), elem: textExtent(maxTextSize)}

func usualExtent(t *types.Type, text, entries int64) *extent {
	t = inside(t)
	inside := func(i int) *extent { return usualExtent(t.Parameters()[i], maxEntrySize, maxFieldList) }
	switch t.Kind() {
	case types.StringKind, types.BytesKind:
		return textExtent(text)
	case types.ListKind:
		return listExtent(entries, inside(0))
	case types.MapKind:
		return mapExtent(entries, inside(0), inside(1))
	case types.StructKind:
		return &extent{length: 1, bytes: recordBytes}
	case types.DynKind, types.AnyKind:
		return listExtent(entries, textExtent(maxEntrySize))
	}
	return scalarExtent
}

// weigh gives the size of a value as extents count it. It stops counting beyond a limit.
func weigh(v ref.Val, limit int64) int64 {
	switch v := v.(type) {
	case types.String:
		return valueBytes + int64(len(v))
	case types.Bytes:
		return valueBytes + int64(len(v))
	case *types.Optional:
		if v.HasValue() {
			return weigh(v.GetValue(), limit)
		}
		return valueBytes
	case *Record:
		return recordBytes
	case *listOf[int64]:
		return listBytes + valueBytes*int64(len(v.values))
	case *listOf[string]:
		total := int64(listBytes)
		for _, s := range v.values {
			total += valueBytes + int64(len(s))
		}
		return total
	case *listOf[ref.Val]:
		return v.weight
	case traits.Mapper:
		total := int64(listBytes)
		for it := v.Iterator(); total <= limit && it.HasNext() == types.True; {
			key := it.Next()
			total += weigh(key, limit-total)
			if entry, ok := v.Find(key); ok {
				total += weigh(entry, limit-total)
			}
		}
		return total
	case traits.Lister:
		total := int64(listBytes)
		for it := v.Iterator(); total <= limit && it.HasNext() == types.True; {
			total += weigh(it.Next(), limit-total)
		}
		return total
	}
	return valueBytes
}
