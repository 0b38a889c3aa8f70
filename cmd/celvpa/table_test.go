package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sortedCells prints a table of one column sorted by it.
func sortedCells(t *testing.T, cells ...any) []string {
	t.Helper()
	p := printer{form: "table", sortBy: "amount", bare: true}
	var out strings.Builder
	require.NoError(t, p.print(&out, nil, tables(func(p *page, _ bool) {
		p.printf("what is around a table\n")
		p.header("AMOUNT")
		for _, cell := range cells {
			p.row(cell)
		}
	})))
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

func TestRowsAreSortedByTheValueOfACell(t *testing.T) {
	for name, tt := range map[string]struct{ cells, want []any }{
		"numbers":    {[]any{10, 9, 100}, []any{9, 10, 100}},
		"quantities": {[]any{"1Gi", "500Mi", "2", "1500m", "587804717"}, []any{"1500m", "2", "500Mi", "587804717", "1Gi"}},
		"large ones": {[]any{"9007199254740993", "9007199254740992"}, []any{"9007199254740992", "9007199254740993"}},
		"changes":    {[]any{"100m → 3", "2 → 250m", "- → 1"}, []any{"2 → 250m", "- → 1", "100m → 3"}},
		"ranges":     {[]any{"1m..200", "83m..30"}, []any{"83m..30", "1m..200"}},
		"signs":      {[]any{"+1.5", "-2", "0", "-0.25"}, []any{"-2", "-0.25", "0", "+1.5"}},
		"shares":     {[]any{"9.5%", "10.0%", "0.1%"}, []any{"0.1%", "9.5%", "10.0%"}},
		"priorities": {[]any{"11 up outside", "2 up"}, []any{"2 up", "11 up outside"}},
		"times":      {[]any{length(3 * 3600), length(50 * 60), "-", length(26 * 3600)}, []any{"50m", "3h", "1d2h", "-"}},
		"texts":      {[]any{"web-2", "web-10", "-", "3", "api"}, []any{"3", "api", "web-10", "web-2", "-"}},
		"what ties":  {[]any{"1Gi first", "1Gi second", "1024Mi third"}, []any{"1Gi first", "1Gi second", "1024Mi third"}},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, cell := range tt.want {
				want = append(want, fmt.Sprint(cell))
			}
			require.Equal(t, want, sortedCells(t, tt.cells...))
		})
	}
}

// TestTablesAreSortedAndPrintedWithoutHeaders by all commands alike.
func TestTablesAreSortedAndPrintedWithoutHeaders(t *testing.T) {
	file := write(t, t.TempDir(), "tiers.yaml", tiers())
	names := func(out string) (names []string) {
		for line := range strings.Lines(out) {
			if words := strings.Fields(line); len(words) > 1 && words[0] == "web" {
				names = append(names, words[1])
			}
		}
		return names
	}
	for args, want := range map[string][]string{
		"":                                {"second", "gold", "silver"},
		"--sort-by name":                  {"gold", "second", "silver"},
		"--sort-by Pods":                  {"second", "gold", "silver"},
		"--sort-by reason -o wide":        {"gold", "silver", "second"},
		"--sort-by NAME --no-headers":     {"gold", "second", "silver"},
		"--no-headers -l tier=gold":       {"gold"},
		"--sort-by cpu -l tier!=gold":     {"second", "silver"},
		"--sort-by=memory --no-headers=f": {"second", "gold", "silver"},
	} {
		out, _, err := run("", append(strings.Fields("list -f "+file), strings.Fields(args)...)...)
		require.NoError(t, err, args)
		require.Equal(t, want, names(out), args)
		if strings.HasSuffix(args, "--no-headers") {
			require.Len(t, strings.Split(strings.TrimSpace(out), "\n"), len(want), "there are only rows")
		}
	}
	for _, command := range []string{"recommend", "plan", "admit -o table", "validate"} {
		out, _, err := run("", append(strings.Fields(command), "-f", file, "--no-headers")...)
		if command == "validate" {
			require.ErrorContains(t, err, "unknown flag: --no-headers")
			continue
		}
		require.True(t, err == nil || errors.Is(err, errNo), "%s: %v", command, err)
		for line := range strings.Lines(out) {
			require.Regexp(t, `^web`, line, command)
		}
	}
	out, _, err := run("", "rules", "list", "--sort-by", "rule_set", "--no-headers")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	sets := regexp.MustCompile(`\S+@\S+`).FindAllString(out, -1)
	require.Len(t, sets, len(lines))
	require.True(t, slices.IsSorted(sets), out)
	require.Greater(t, len(lines), 20)
}

// TestAColumnThatThereIsNot is named with those that there are, and nothing is printed.
func TestAColumnThatThereIsNot(t *testing.T) {
	file := write(t, t.TempDir(), "tiers.yaml", tiers())
	out, _, err := run("", "list", "-f", file, "--sort-by", "memry")
	require.Empty(t, out)
	require.EqualError(t, err, "--sort-by: there is no column MEMRY; did you mean MEMORY? the columns are NAMESPACE, NAME, TARGET, MODE, PODS, CPU, MEMORY, NEXT, CLASS, WHY")
	_, _, err = run("", "list", "-f", file, "--sort-by", "name", "-o", "json")
	require.EqualError(t, err, "--sort-by and --no-headers are for tables, and --output is json: leave them out")
	_, _, err = run("", "plan", "-f", file, "--no-headers", "--explain")
	require.ErrorContains(t, err, "none of the others can be")
	_, _, err = run("", "list", "-f", file, "-o", "jsno")
	require.EqualError(t, err, `--output is "jsno"; did you mean json? use table, wide, name, json or yaml`)
}

// TestNamesAreThoseOfKubectl, one a line, for kubectl get -f - and xargs.
func TestNamesAreThoseOfKubectl(t *testing.T) {
	dir := t.TempDir()
	file, candidate := write(t, dir, "tiers.yaml", tiers()), write(t, dir, "candidate.yaml", strings.Replace(twoCores, "containerMaxAllowed.cpu: 2", "minReplicas: 9", 1))
	for command, want := range map[string]string{
		"list -l tier!=none":             "verticalpodautoscaler.autoscaling.k8s.io/gold\nverticalpodautoscaler.autoscaling.k8s.io/silver\n",
		"recommend -l tier=gold":         "verticalpodautoscaler.autoscaling.k8s.io/gold\n",
		"plan -l tier=gold":              "pod/gold-0\npod/gold-1\n",
		"rules diff --live " + candidate: "verticalpodautoscaler.autoscaling.k8s.io/gold\nverticalpodautoscaler.autoscaling.k8s.io/silver\n",
	} {
		out, _, err := run("", append(strings.Fields(command), "-f", file, "-o", "name")...)
		require.True(t, err == nil || errors.Is(err, errNo), "%s: %v", command, err)
		require.Equal(t, want, out, command)
	}
}
