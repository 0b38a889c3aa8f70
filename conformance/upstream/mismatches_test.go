package upstream

import (
	"cmp"
	"maps"
	"slices"
	"testing"
)

// reported is how many kinds of mismatch are shrunk and shown; of the rest the first line is.
const reported = 25

// mismatches collects the cases in which both sides differ and no named difference tells why, by what is wrong.
type mismatches map[string]*kindOfMismatch

type kindOfMismatch struct {
	signature string
	first     testCase
	seed      uint64 // of the first
	count     int
}

// add notes what is wrong with a case.
func (m mismatches) add(signature string, c testCase, seed uint64) {
	if m[signature] == nil {
		m[signature] = &kindOfMismatch{signature: signature, first: c, seed: seed}
	}
	m[signature].count++
}

// report fails the test with all of them, the most frequent first, of which explain tells a few whole.
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
