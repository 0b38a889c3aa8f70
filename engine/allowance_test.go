package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
)

// onHugeFacts runs a rule set on facts beyond all estimates, with closures and with CEL.
func onHugeFacts(t *testing.T, body string, check func(t *testing.T, now *lang.Record, failures []string)) {
	t.Helper()
	plan, err := compileMixed(body)
	require.NoError(t, err)
	for name, p := range map[string]*engine.Plan{"code": plan, "CEL": plan.Interpreted()} {
		t.Run(name, func(t *testing.T) {
			f := usualFacts(1)
			f.Set("is", lang.ListFrom(slices.Repeat([]int64{1}, 200_000)))
			f.ByScope()[0][0].Set("t", lang.Text(strings.Repeat("t", 40_000)))
			now := outerSchema.New().SetString("s", "before").SetInt("i", 5)
			f.ByScope()[0][0].Set("now", now)
			var failures []string
			require.Less(t, hang.Bytes(t, func() {
				for _, e := range p.RunStages("mixed", f, nil) {
					failures = append(failures, e.Err.Error())
				}
			}), uint64(2<<30), "what CEL builds is counted at its end, and boxes of numbers are not")
			check(t, now, failures)
		})
	}
}

func TestRunIsBoundedForAnyFacts(t *testing.T) {
	rule := func(variables, set string) string {
		return "\n  stages: [{name: st, each: one, variables: {" + variables + "}, rules: [{name: r, set: {" + set + "}}]}]\n"
	}
	tests := []struct{ name, body, want string }{
		{"string concatenation", rule("", "now.i: \"size(t + t)\""), "set now.i: the text would have more than 65536 bytes"},
		{"list concatenation", rule("v1: is + is, v2: v1 + v1, v3: v2 + v2", "now.i: size(v3)"), "set now.i: the list would have more than 8388608 bytes"},
		{"a list of lists", rule("v: \"[is, is, is]\"", "now.i: size(v)"), "set now.i: the list would have more than 8388608 bytes"},
		{"a stored string", rule("", "now.s: t"), "set now.s: a rule cannot store a text of more than 1024 bytes, nor a list of more than 32 entries of usual size"},
		{"a stored list", rule("", "now.l: \"is.map(k, 'x')\""), "set now.l: a rule cannot store a text of more than 1024 bytes, nor a list of more than 32 entries of usual size"},
		{"nested loops", rule("", "now.i: \"sum(is.map(a, size(is.map(b, b))))\""), "set now.i: the rules (built more than 33554432 bytes of texts and lists|took more than 10000000 steps) in one run; rule set \\S+ is left out for the rest of it"},
		{"nested loops without a list", rule("", "now.i: \"is.exists(a, is.all(b, b > 0) ? a > 1 : false) ? 1 : 2\""), "set now.i: the rules took more than 10000000 steps in one run; rule set \\S+ is left out for the rest of it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onHugeFacts(t, tt.body, func(t *testing.T, now *lang.Record, failures []string) {
				require.Len(t, failures, 1)
				require.Regexp(t, "^"+tt.want+"$", failures[0])
				require.Equal(t, "before", now.Text("s"))
				n, _ := now.Int("i")
				require.EqualValues(t, 5, n)
			})
		})
	}
}

// Estimates accept a stage that doubles the previous one's output, so storing is bounded.
func TestStoredStringStaysWithinFactSize(t *testing.T) {
	var stages strings.Builder
	for i := range 30 {
		fmt.Fprintf(&stages, "  - {name: s%d, each: one, rules: [{name: r, set: {now.s: now.s + now.s}}]}\n", i)
	}
	onHugeFacts(t, "\n  stages:\n"+stages.String(), func(t *testing.T, now *lang.Record, failures []string) {
		require.Len(t, now.Text("s"), 6<<7)
		require.Len(t, failures, 23)
		require.Contains(t, failures[0], "set now.s: a rule cannot store a text of more than 1024 bytes")
	})
}
