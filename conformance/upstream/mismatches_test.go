package upstream

import (
	"cmp"
	"maps"
	"slices"
	"testing"
)

// reported is how many kinds of mismatch are shrunk and printed; of the others only the first line
// is.
const reported = 25

// mismatches collects the cases with an unexplained difference, by what is wrong.
type mismatches map[string]*kindOfMismatch

type kindOfMismatch struct {
	signature string
	first     testCase
	seed      uint64 // of the first
	count     int
}

// add records what is wrong with a case.
func (m mismatches) add(signature string, c testCase, seed uint64) {
	if m[signature] == nil {
		m[signature] = &kindOfMismatch{signature: signature, first: c, seed: seed}
	}
	m[signature].count++
}

// report fails the test with all kinds of mismatch, the most frequent first, and explains a few in
// full.
func (m mismatches) report(t *testing.T, explain func(first testCase, signature string) string) {
	t.Helper()
	sorted := slices.SortedFunc(maps.Values(m), func(a, b *kindOfMismatch) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.signature, b.signature))
	})
	for i, one := range sorted {
		if i < reported {
			t.Errorf("%d times, first with seed %d: %s", one.count, one.seed, explain(one.first, one.signature))
		} else {
			t.Errorf("%d times: %s", one.count, one.signature)
		}
	}
}
