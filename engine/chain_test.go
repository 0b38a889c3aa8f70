package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// chained declares variables, each built from the previous one, which @ stands for.
func chained(first, next string, count int) string {
	out := []string{fmt.Sprintf("v0: %q", first)}
	for i := range count {
		out = append(out, fmt.Sprintf("v%d: %q", i+1, strings.ReplaceAll(next, "@", fmt.Sprintf("v%d", i))))
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// Each expression is cheap; the chain would take gigabytes or never end.
func TestChainsThatGrowFailWhenTheyRun(t *testing.T) {
	const text, list, steps = "the text would have more than 65536 bytes", "the list would have more than 8388608 bytes", "the rules (took|built) more than \\d+ (steps|bytes)"
	for name, tt := range map[string]struct{ variables, when, want string }{
		"a string doubled":               chainOf("item", "@ + @", 30, "size(v30) > 0", text),
		"a literal doubled":              chainOf("'x'", "@ + @", 40, "size(v40) > 0", text),
		"a list doubled":                 chainOf("customer.tags", "@ + @", 30, "size(v30) > 0", list),
		"a list of numbers doubled":      chainOf("[1]", "@ + @", 40, "size(v40) > 0", list),
		"nested lists that are compared": chainOf("[1]", "[@, @]", 40, "v40 == v40", list),
		"nested maps that are compared":  chainOf("{'a': 1}", "{'a': @, 'b': @}", 40, "v40 == v40", list),
		"lists by map":                   chainOf("customer.tags", "@.map(x, @)", 5, "size(v5) > 0", list),
		"lists by map over few":          chainOf("[[1, 2, 3, 4, 5, 6, 7, 8]]", "[1, 2, 3, 4, 5, 6, 7, 8].map(x, @)", 20, "v20 == v20", list),
		"filtered and doubled":           chainOf("customer.tags", "@.filter(x, x != '') + @", 30, "size(v30) > 0", list),
		"lists of growing strings":       chainOf("customer.tags", "@.map(x, x + x)", 20, "size(v20) > 0", list+"|"+text),
		"behind a conditional":           chainOf("item", "count > 0 ? @ + @ : @", 30, "size(v30) > 0", text),
		"behind dyn":                     chainOf("dyn(item)", "dyn(@) + dyn(@)", 30, "size(v30) > 0", text),
		"bytes":                          chainOf("bytes(item)", "@ + @", 30, "size(v30) > 0", text),
		"conversions":                    chainOf("item", "string(bytes(@)) + string(@)", 30, "size(v30) > 0", text),
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := compileOne("order.adjust", stageOf(tt.variables, tt.when), compile.Options{})
			require.NoError(t, err)
			for _, p := range []*engine.Plan{plan, plan.Interpreted()} {
				f := order(1, 2)
				f.Set("customer", customerSchema.New().Put("tags", lang.ListFrom(slices.Repeat([]string{strings.Repeat("t", lang.MaxEntrySize)}, lang.MaxListSize))))
				require.Less(t, hang.Bytes(t, func() {
					failed := p.RunStages("order.adjust", f, nil)
					require.NotEmpty(t, failed)
					require.Regexp(t, tt.want, failed[0].Err.Error())
				}), uint64(1<<30))
			}
		})
	}
}

// chainOf is a case of a chain of variables, and how a condition on the last one fails.
func chainOf(first, next string, count int, when, want string) struct{ variables, when, want string } {
	return struct{ variables, when, want string }{chained(first, next, count), when, want}
}

func stageOf(variables, when string) string {
	return "\n  stages:\n  - name: a\n    each: line\n    variables: " + variables + "\n    rules: [{name: r, when: \"" + when + "\", note: x}]\n"
}

func TestRulesThatTakeTooLongAreRefused(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"a loop in each of many variables", stageOf(chained("customer.tags.map(x, size(x))", "customer.tags.map(x, sum(customer.tags.map(y, sum(customer.tags.map(z, size(z) + size(x) + size(@))))))", 30), "v30 == v30"),
			"steps with the variables that it reads (there are "},
		{"deep maps that a loop compares", stageOf(chained("{'a': 1}", "{'a': @, 'b': @}", 17), "customer.tags.all(x, {x: v17} == {x: v17})"),
			"steps, at most 10000000 are allowed"},
		{"nested loops", stageOf("{v: \"customer.tags.map(x, sum(customer.tags.map(y, sum(customer.tags.map(z, sum(customer.tags.map(w, size(w))))))))\"}", "sum(v) > 0"),
			"steps, at most 10000000 are allowed"},
		{"many rules, each of medium cost", "\n  stages:\n  - name: a\n    each: line\n    rules:\n" + manyRules(60, "{now.price: sum(customer.tags.map(x, sum(customer.tags.map(y, sum(customer.tags.map(z, size(z)))))))}"),
			"steps in one run, for up to 100 items, at most 1000000000 are allowed; this expression has the largest share"},
		{"too many variables", stageOf(chained("1", "@ + 1", 200), "v200 > 0"), "there are 201 variables; at most 200 are allowed: split the stage or table"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			require.Less(t, hang.Bytes(t, func() { _, err = compileOne("order.adjust", tt.body, compile.Options{}) }), uint64(64<<20), "bytes of the attempt")
			require.ErrorContains(t, err, tt.want)
			require.NotZero(t, source.Problems(err)[0].Pos.Line)
		})
	}
}

func manyRules(count int, set string) string {
	var out strings.Builder
	for i := range count {
		fmt.Fprintf(&out, "    - {name: r%d, set: {%s}}\n", i, strings.ReplaceAll(strings.Trim(set, "{}"), ": ", ": \"")+"\"")
	}
	return out.String()
}
