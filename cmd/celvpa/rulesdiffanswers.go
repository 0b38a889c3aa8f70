package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/ruletest"
)

// changedAnswers names each row whose answer differs, with the lines that differ.
func changedAnswers(before, after []ruletest.RowResult) []string {
	var out []string
	for i, row := range after {
		was := before[i]
		if len(row.Problems) > 0 || len(was.Problems) > 0 {
			if len(was.Problems) == 0 {
				out = append(out, fmt.Sprintf("%s/%s (%s) no longer runs: %s", row.Table, row.Row, row.At, row.Problems[0].Message))
			}
			continue
		}
		lines := changedLines(was.Answer, row.Answer)
		if len(lines) > 0 {
			out = append(out, fmt.Sprintf("%s/%s (%s)", row.Table, row.Row, row.At))
			out = append(out, lines...)
		}
	}
	return out
}

// changedLines pairs lines of the form "field = value" by their field, in order where several have the same. Lines that are
// in both are left out.
func changedLines(before, after []string) []string {
	field := func(line string) string {
		name, _, _ := strings.Cut(line, " = ")
		return name
	}
	now := slices.Clone(after)
	take := func(matches func(string) bool) (line string, found bool) {
		i := slices.IndexFunc(now, matches)
		if i < 0 {
			return "", false
		}
		line = now[i]
		now = slices.Delete(now, i, i+1)
		return line, true
	}
	var gone, out []string
	for _, line := range before {
		if _, same := take(func(other string) bool { return other == line }); !same {
			gone = append(gone, line)
		}
	}
	for _, line := range gone {
		if to, changed := take(func(other string) bool { return field(other) == field(line) }); changed {
			out = append(out, "  "+line+" → "+strings.TrimPrefix(to, field(line)+" = "))
			continue
		}
		out = append(out, "  "+line+" → unset")
	}
	for _, line := range now {
		out = append(out, "  "+line+" is new")
	}
	return out
}
