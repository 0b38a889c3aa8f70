package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/ruletest"
	"github.com/celvpa/celvpa/simulate"
)

// answers runs tables on both sets of rules, and on the second once more with each of its overlays. The error counts the rows that
// run on none of them.
func (d *ruleDiff) answers(a, b *ruleFiles, tables []*document.RuleTest) error {
	before, after := a.Test(tables, policy.TestOptions{}), b.Test(tables, policy.TestOptions{})
	ran := make([]bool, len(after))
	mark := func(rows []ruletest.RowResult) {
		for i, row := range rows {
			ran[i] = ran[i] || len(row.Problems) == 0
		}
	}
	mark(before)
	mark(after)
	d.add("answers of the test tables", changedAnswers(before, after))
	both := len(d.Changes) - 1
	for _, o := range b.book.Overlays() {
		with := b.Test(tables, policy.TestOptions{Overlays: []string{o.Name.Value}})
		mark(with)
		d.add("answers with overlay "+o.Name.Value, changedAnswers(after, with))
	}
	stuck := 0
	for i, row := range after {
		if !ran[i] {
			stuck++
			d.Changes[both].Lines = append(d.Changes[both].Lines, because(row, "cannot run")...)
		}
	}
	if stuck > 0 {
		return fmt.Errorf("no set of rules can run %s of the test tables; the answer says which, and why", simulate.Counted(stuck, "row"))
	}
	return nil
}

// changedAnswers names each row whose answer differs, with the lines that differ, and each row that runs on one side only. Rows that
// run on neither are left out.
func changedAnswers(before, after []ruletest.RowResult) []string {
	var out []string
	for i, row := range after {
		was := before[i]
		switch ran, runs := len(was.Problems) == 0, len(row.Problems) == 0; {
		case ran && runs:
			if lines := changedLines(was.Answer, row.Answer); len(lines) > 0 {
				out = append(append(out, rowName(row)), lines...)
			}
		case ran:
			out = append(out, because(row, "no longer runs")...)
		case runs:
			out = append(out, rowName(row)+" is new")
			for _, line := range row.Answer {
				out = append(out, "  "+line)
			}
		}
	}
	return out
}

func rowName(row ruletest.RowResult) string {
	return fmt.Sprintf("%s/%s (%s)", row.Table, row.Row, row.At)
}

// because says what is the matter with a row, and why, in lines.
func because(row ruletest.RowResult, what string) []string {
	var why []string
	for _, problem := range row.Problems {
		why = append(why, problem.Message)
	}
	text := fmt.Sprintf("%s %s: %s", rowName(row), what, strings.Join(why, "; "))
	return strings.Split(strings.ReplaceAll(text, "\n", "\n  "), "\n")
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
