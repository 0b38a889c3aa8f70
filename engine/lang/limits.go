package lang

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Sizes that facts are assumed to have. Estimates count with them.
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
)

// Limits of values, in bytes.
const (
	// MaxText bounds a string that an expression builds.
	MaxText = 64 << 10
	// MaxList bounds a list or map that an expression builds. Shared contents count each time, because a
	// comparison visits them each time.
	MaxList = 8 << 20
	// MaxStoredList bounds a list that a rule stores: MaxFieldList entries of usual size.
	MaxStoredList = ListBytes + MaxFieldList*(ValueBytes+MaxEntrySize)

	// ValueBytes and ListBytes are the overhead of a value and of a list.
	ValueBytes  = 16
	ListBytes   = 24
	recordBytes = 64 // records are never copied into lists
)

// Limits of an expression, and of all rules at a point together. Nothing outside the process bounds
// a rule file or an overlay. See compile/cost.go for the estimates checked against them.
const (
	// MaxCost bounds the estimated steps of one expression with the variables that it reads. A
	// shipped rule takes a few thousand at most; nested loops over all containers reach this.
	MaxCost = 10_000_000
	// MaxPointSteps bounds the estimate of one run of all rules at a point, whose lists are longer than
	// those of any real pod: MaxItems items, each with a list of MaxListSize entries. It only keeps out what
	// no pod can run: what a run really takes is bounded by MaxRunSteps and MaxRunBytes.
	MaxPointSteps = MaxItems * MaxCost
	// MaxRunSteps and MaxRunBytes bound what a rule set really takes in one run at a point, and what an
	// overlay takes in it. No shipped one takes a quarter, for 100 containers with all gates on.
	MaxRunSteps = MaxCost
	MaxRunBytes = 32 << 20
	// MaxReviewSteps bounds all validations of one object, as API servers bound those of a schema. The
	// shipped ones take a tenth of it for the largest object.
	MaxReviewSteps = 10_000_000
	// CheckSteps is what evaluating an expression of a validation costs at least.
	CheckSteps = 10
	// MaxExpressionSize bounds the source of an expression, in bytes. Longer ones are not parsed.
	MaxExpressionSize = 16 << 10
	// MaxVariables bounds the variables of a stage or of a decision table.
	MaxVariables = 200
	// StepBytes is how many bytes of a string or list one step covers.
	StepBytes = 16
)

// Weigh is the size of a value in bytes, with all that is in it. It stops counting above limit.
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
