package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// hostile generates rule sets that try to exceed the limits: chains of growing variables.
type hostile struct {
	generator
	texts, lists, ints, towers []string // variable names by type
	depth                      int      // of loops
	out                        []string
}

// last picks a recent entry, so that chains get long.
func (h *hostile) last(list []string, otherwise ...string) string {
	all := append(slices.Clone(otherwise), list...)
	if len(list) > 0 && h.next(4) != 0 {
		return list[len(list)-1]
	}
	return all[h.next(len(all))]
}

func (h *hostile) text() string {
	return h.last(h.texts, "t", "r.s", "q.s", "now.s", "params.p", "'"+strings.Repeat("x", 1<<h.next(10))+"'")
}

func (h *hostile) listOfTexts() string { return h.last(h.lists, "r.l", "q.l", "['a', 'b']") }

func (h *hostile) numbers() string { return h.last(h.ints, "is", "[1, 2, 3]") }

func (h *hostile) inLoop(make func(variable string) string) string {
	h.depth++
	defer func() { h.depth-- }()
	return make(fmt.Sprintf("l%d", h.depth))
}

func (h *hostile) variable(expression string) string {
	name := fmt.Sprintf("v%d", len(h.out))
	h.out = append(h.out, name+": \""+expression+"\"")
	return name
}

// grow adds a variable that is usually larger than those before it.
func (h *hostile) grow() {
	one := func(format string, args ...any) string { return h.variable(fmt.Sprintf(format, args...)) }
	switch h.next(27) {
	case 0, 1, 2, 3:
		h.texts = append(h.texts, one("%s + %s", h.text(), h.text()))
	case 4:
		h.texts = append(h.texts, one("x > 0 ? %s + %s : %s", h.text(), h.text(), h.text()))
	case 5:
		h.texts = append(h.texts, one("string(bytes(%s) + bytes(%s)) + string(x)", h.text(), h.text()))
	case 6:
		h.lists = append(h.lists, one("%s + %s", h.listOfTexts(), h.listOfTexts()))
	case 7:
		h.lists = append(h.lists, h.inLoop(func(v string) string { return one("%s.map(%s, %s + %s)", h.listOfTexts(), v, v, h.text()) }))
	case 8:
		h.lists = append(h.lists, h.inLoop(func(v string) string {
			return one("%s.filter(%s, %s != %s) + %s", h.listOfTexts(), v, v, h.text(), h.listOfTexts())
		}))
	case 9:
		h.lists = append(h.lists, h.inLoop(func(v string) string { return one("%s.map(%s, %s)", h.numbers(), v, h.text()) }))
	case 10:
		h.lists = append(h.lists, one("[%s, %s, %s]", h.text(), h.text(), h.text()))
	case 11, 12:
		h.ints = append(h.ints, one("%s + %s", h.numbers(), h.numbers()))
	case 13:
		h.ints = append(h.ints, h.inLoop(func(v string) string { return one("%s.map(%s, size(%s))", h.listOfTexts(), v, v) }))
	case 14, 15:
		h.ints = append(h.ints, h.inLoop(func(v string) string {
			return h.inLoop(func(w string) string {
				return one("%s.map(%s, sum(%s.filter(%s, %s > 0).map(%s, add(%s, %s))))", h.numbers(), v, h.numbers(), w, w, w, v, w)
			})
		}))
	case 16:
		h.ints = append(h.ints, h.inLoop(func(v string) string { return one("rs.filter(%s, has(%s.i)).map(%s, %s.i)", v, v, v, v) }))
	case 17:
		h.towers = append(h.towers, one("[%s, %s]", h.any(), h.any()))
	case 18:
		same := h.last(h.towers, "x", "is")
		h.towers = append(h.towers, one("[%s, %s]", same, same))
	case 19:
		same := h.any()
		h.towers = append(h.towers, one("{'a': %s, 'b': %s}", same, same))
	case 20:
		h.towers = append(h.towers, h.inLoop(func(v string) string { return one("%s.map(%s, %s)", h.numbers(), v, h.any()) }))
	case 21:
		same := h.last(h.towers, "is")
		h.towers = append(h.towers, one("dyn(%s) + dyn(%s)", same, same))
	case 22:
		h.texts = append(h.texts, one("r.?s.orValue(%s) + r.n.?s.or(q.?s).orValue(%s)", h.text(), h.text()))
	case 23:
		h.texts = append(h.texts, one("%s[?0].orValue(%s) + dyn(r).s", h.listOfTexts(), h.text()))
	case 24:
		h.lists = append(h.lists, one("r.?l.or(q[?'l']).orValue(%s) + %s", h.listOfTexts(), h.listOfTexts()))
	case 25:
		h.lists = append(h.lists, one("[?r.?s, ?%s[?1], %s]", h.listOfTexts(), h.text()))
	case 26:
		h.towers = append(h.towers, one("[[%s], [%s]][?0].value()", h.any(), h.any()))
	}
}

// any returns an expression of any type.
func (h *hostile) any() string {
	switch h.next(4) {
	case 0:
		return h.text()
	case 1:
		return h.listOfTexts()
	case 2:
		return h.numbers()
	}
	return h.last(h.towers, "x", "is", "rs", "r")
}

func (h *hostile) ruleSet() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n  params: [{name: p, type: string, default: %s}]\n  stages:\n", strings.Repeat("p", 1+h.next(4)*500))
	for stage := range 1 + h.next(3) {
		h.out, h.texts, h.lists, h.ints, h.towers = nil, nil, nil, nil, nil
		for range 1 + h.next(24) {
			h.grow()
		}
		fmt.Fprintf(&out, "  - name: s%d\n    each: one\n    variables: {%s}\n    rules:\n", stage, strings.Join(h.out, ", "))
		for rule := range 1 + h.next(4) {
			same := h.any()
			when := []string{"%s == %s", "[%s] == [%s]", "%s != %s", "%s in [%s]"}[h.next(4)]
			fmt.Fprintf(&out, "    - {name: r%d, when: \""+when+"\", set: {now.s: \"%s\", now.i: \"sum(%s)\", now.l: \"%s\"}}\n",
				rule, same, same, h.text(), h.numbers(), h.listOfTexts())
		}
	}
	return out.String()
}

// usualFacts have the sizes that estimates assume.
func usualFacts(items int) *registry.Facts {
	long, name := strings.Repeat("t", lang.MaxTextSize), strings.Repeat("n", lang.MaxEntrySize)
	record := func() *lang.Record {
		r := outerSchema.New().SetInt("i", 7).SetDouble("d", 0.5).SetBool("b", true).SetString("s", long)
		return r.Put("l", lang.ListFrom(slices.Repeat([]string{name}, lang.MaxFieldList)))
	}
	several := func(count int) ref.Val {
		var out []*lang.Record
		for range count {
			out = append(out, record())
		}
		return lang.Records(out)
	}
	f := mixedPoint.NewFacts().Set("r", record()).Set("x", lang.Number(1)).Set("y", types.Double(1)).Set("rs", several(lang.MaxListSize))
	f.Set("is", lang.ListFrom(slices.Repeat([]int64{3}, lang.MaxListSize)))
	for i := range items {
		f.AddItem("one", fmt.Sprint(i)).Set("now", record()).Set("q", record()).Set("t", lang.Text(long)).Set("qs", several(lang.MaxListSize))
	}
	return f
}

// FuzzWhatIsAcceptedStaysWithinTheLimitsOfARun checks that rule sets stay within the limits whether they
// are accepted or refused.
func FuzzWhatIsAcceptedStaysWithinTheLimitsOfARun(f *testing.F) {
	for i := range 64 {
		data := make([]byte, 300)
		for j := range data {
			data[j] = byte(i*37 + j*j*11 + j*i*5 + j>>3)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		body := (&hostile{generator: generator{data: data}}).ruleSet()
		var plan *engine.Plan
		var err error
		require.Less(t, hang.Bytes(t, func() { plan, err = compileMixed(body) }), uint64(512<<20), "bytes of compiling\n%s", body)
		if err != nil {
			require.NotEmpty(t, source.Problems(err))
			return
		}
		for name, p := range map[string]*engine.Plan{"code": plan, "CEL": plan.Interpreted()} {
			if name == "CEL" && plan.Parts().Points["mixed"].Steps > 1_000_000 {
				continue // slow, and adds nothing
			}
			facts := usualFacts(2)
			var steps, built int64
			bytes := hang.Bytes(t, func() { steps, built, _ = engine.MeasuredRun(p, "mixed", facts) })
			require.LessOrEqual(t, steps, int64(lang.MaxRunSteps+1), "steps, %s\n%s", name, body)
			require.LessOrEqual(t, built, int64(lang.MaxRunBytes+lang.MaxList), "bytes built, %s\n%s", name, body)
			require.Less(t, bytes, uint64(2<<30), "bytes, %s\n%s", name, body)
		}
	})
}
