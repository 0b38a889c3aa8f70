package page

import (
	"cmp"
	"slices"

	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/simulate"
)

// place is a field of a container, or of the pod as a whole.
type place struct{ container, field string }

// held is what the pods have at a place, and what admission would give them.
type held struct{ now, new counts }

// counts says how many pods have a value.
type counts []count

type count struct {
	value string
	pods  int
}

func (c *counts) add(value string) {
	for i := range *c {
		if (*c)[i].value == value {
			(*c)[i].pods++
			return
		}
	}
	*c = append(*c, count{value, 1})
}

// top is the n most frequent ones, the most frequent first.
func (c *counts) top(n int) []count {
	out := slices.Clone(*c)
	slices.SortStableFunc(out, func(a, b count) int { return cmp.Compare(b.pods, a.pods) })
	return out[:min(n, len(out))]
}

// brief is the value, or how many there are.
func (c *counts) brief() string {
	if len(*c) == 1 {
		return cmp.Or((*c)[0].value, "unset")
	}
	return simulate.Counted(len(*c), "value")
}

// podsHaving sums up the pods.
func podsHaving(r *explain.Report) map[place]*held {
	out := map[place]*held{}
	for _, p := range r.Pods {
		for _, c := range p.Containers {
			at := place{c.Container, c.Field}
			if out[at] == nil {
				out[at] = &held{}
			}
			out[at].now.add(c.Now)
			out[at].new.add(c.New)
		}
	}
	return out
}
