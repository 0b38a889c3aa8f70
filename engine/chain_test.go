package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/engine/compile"
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
func TestChainsThatGrowAreRefused(t *testing.T) {
	stage := func(variables, when string) string {
		return "\n  stages:\n  - name: a\n    each: line\n    variables: " + variables + "\n    rules: [{name: r, when: \"" + when + "\", note: x}]\n"
	}
	text, list := "the text may get ", "the list may hold "
	tests := []struct {
		name, body string
		want       []string
	}{
		{"a string doubled", stage(chained("item", "@ + @", 30), "size(v30) > 0"),
			[]string{"variable v7: " + text + "131072 bytes long, at most 65536 are allowed, where a fact counts as 1024: join fewer texts"}},
		{"a literal doubled, which lint would fold", stage(chained("'x'", "@ + @", 40), "size(v40) > 0"), []string{"variable v17: " + text + "131072 bytes long"}},
		{"a param doubled", "\n  params: [{name: p, type: string, default: " + strings.Repeat("y", 9000) + "}]" + stage(chained("params.p", "@ + @", 30), "size(v30) > 0"),
			[]string{"variable v3: " + text + "72000 bytes long"}},
		{"a list doubled", stage(chained("customer.tags", "@ + @", 30), "size(v30) > 0"), []string{"variable v10: " + list, "at most 8388608 are allowed"}},
		{"a list of numbers doubled, which lint would fold", stage(chained("[1]", "@ + @", 40), "size(v40) > 0"), []string{"variable v18: " + list}},
		{"nested lists, small in memory but endless to compare", stage(chained("[1]", "[@, @]", 40), "v40 == v40"), []string{list}},
		{"nested maps", stage(chained("{'a': 1}", "{'a': @, 'b': @}", 40), "v40 == v40"), []string{list}},
		{"lists by map", stage(chained("customer.tags", "@.map(x, @)", 5), "size(v5) > 0"), []string{"variable v2: " + list}},
		{"lists by map over few", stage(chained("[[1, 2, 3, 4, 5, 6, 7, 8]]", "[1, 2, 3, 4, 5, 6, 7, 8].map(x, @)", 20), "v20 == v20"), []string{list}},
		{"filtered and doubled", stage(chained("customer.tags", "@.filter(x, x != '') + @", 20), "size(v20) > 0"), []string{list}},
		{"lists of growing strings", stage(chained("customer.tags", "@.map(x, x + x)", 20), "size(v20) > 0"), []string{"variable v9: " + text}},
		{"behind a conditional", stage(chained("item", "count > 0 ? @ + @ : @", 30), "size(v30) > 0"), []string{"variable v7: " + text}},
		{"behind dyn", stage(chained("dyn(item)", "dyn(@) + dyn(@)", 30), "size(v30) > 0"), []string{"variable v11: the expression may build texts and lists of 67076360 bytes, at most 33554432 are allowed"}},
		{"bytes", stage(chained("bytes(item)", "@ + @", 30), "size(v30) > 0"), []string{text}},
		{"conversions keep sizes", stage(chained("item", "string(bytes(@)) + string(@)", 30), "size(v30) > 0"), []string{text}},
		{"written out of order", stage("{c: b + b, b: a + a + a + a + a + a + a + a + a + a, a: item + item + item + item + item + item + item}", "size(c) > 0"), []string{"variable b: " + text, "71680"}},
		{"a loop in each of many variables", stage(chained("customer.tags.map(x, size(x))", "v0.map(x, sum(v0.map(y, sum(v0.map(z, x + y + z + size(@))))))", 30), "v30 == v30"),
			[]string{"steps with the variables that it reads (there are 25), at most 10000000 are allowed: avoid loops inside loops"}},
		{"nested loops", stage("{v: \"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map(x, sum(customer.tags.map(y, sum(customer.tags.map(z, sum(customer.tags.map(w, size(w))))))))\"}", "sum(v) > 0"),
			[]string{"steps, at most 10000000 are allowed"}},
		{"lists kept in variables", stage(chained("customer.tags.map(x, size(x))", "v0.map(x, v0.map(y, v0.map(z, x + y + z)))", 190), "true"), []string{"with it the variables may build texts and lists of", "for they are kept: split the stage"}},
		{"many rules, each of medium cost", "\n  stages:\n  - name: a\n    each: line\n    rules:\n" + manyRules(60, "{now.price: sum(customer.tags.map(x, sum(customer.tags.map(y, sum(customer.tags.map(z, size(z)))))))}"),
			[]string{"the rules at order.adjust may take", "steps in one run, for up to 100 items, at most 400000000 are allowed; this expression has the largest share"}},
		{"too many variables", stage(chained("1", "@ + 1", 200), "v200 > 0"), []string{"there are 201 variables; at most 200 are allowed: split the stage or table"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			require.Less(t, hang.Bytes(t, func() { _, err = compileOne("order.adjust", tt.body, compile.Options{}) }), uint64(64<<20), "bytes of the attempt")
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			for _, want := range tt.want {
				require.Contains(t, err.Error(), want)
			}
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

func TestChainsThroughReasons(t *testing.T) {
	_, err := compileOne("order.ship", "\n  variables: "+chained("customer.tier", "@ + @", 5)+"\n  decisions: [{name: d, when: v5 != '', reasonExpression: \"v5 + v5 + v5\", do: Ship}]\n", compile.Options{})
	require.ErrorContains(t, err, "decision d, reasonExpression: the text may get 98304 bytes long")
}
