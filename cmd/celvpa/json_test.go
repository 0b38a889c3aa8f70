package main

import (
	"cmp"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// sharedShapes are types that several results have, by their name in docs/json.md.
var sharedShapes = map[string]any{
	"measures": backtest.Measures{}, "quantiles": backtest.Quantiles{}, "lines": backtest.Lines{}, "from and to": backtest.Change{},
	"planned pods": answers.PlannedPod{}, "changes": answers.Change{}, "capped": answers.Capped{}, "refusals": answers.Refusals{}, "decisions": answers.Decision{},
	"events": explain.Event{}, "rules": answers.Rules{}, "causes": vpareview.Cause{}, "cycle": simulate.Planned{}, "action": simulate.Action{},
	"amounts": simulate.Delta{},
}

// TestTheShapeOfJSONIsDocumented: docs/json.md names every field of every result and of every shared shape, and no other.
func TestTheShapeOfJSONIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/json.md")
	require.NoError(t, err)
	documented := map[string][]string{}
	for _, section := range regexp.MustCompile("(?m)^##+ (?:celvpa )?").Split(string(text), -1)[1:] {
		title, rows, _ := strings.Cut(section, "\n")
		for _, m := range regexp.MustCompile("(?m)^\\| (?:([a-z ]+) \\| )?(`[^|]+`) \\|").FindAllStringSubmatch(rows, -1) {
			about := cmp.Or(m[1], title)
			documented[about] = append(documented[about], strings.Split(strings.ReplaceAll(m[2], "`", ""), ", ")...)
		}
	}
	printed := map[string][]string{}
	for command, result := range map[string]any{
		"recommend": simulate.Recommendations{}, "admit": simulate.Admissions{}, "plan": simulate.Plan{}, "validate": simulate.Validation{},
		"test": testReport{}, "rules list": ruleList{}, "rules diff": ruleDiff{}, "rules diff --live": simulate.Impact{}, "rules lint": ruleProblems{},
		"version": buildInfo{}, "explain": explain.Report{}, "backtest": backtest.Report{}, "list": explain.List{}, "history": pastOf{},
	} {
		printed[command] = fieldsIn(reflect.TypeOf(result), "")
	}
	for name, shape := range sharedShapes {
		printed[name] = membersOf(reflect.TypeOf(shape), "")
	}
	for about, fields := range printed {
		require.ElementsMatch(t, fields, documented[about], about)
		delete(documented, about)
	}
	require.Empty(t, documented)
}

// fieldsIn are the fields of a result, with those of what it holds but shared shapes, steps and objects of Kubernetes.
func fieldsIn(of reflect.Type, at string) []string {
	shared := slices.ContainsFunc(slices.Collect(maps.Values(sharedShapes)), func(shape any) bool { return reflect.TypeOf(shape) == of })
	switch {
	case of.Kind() == reflect.Pointer:
		return fieldsIn(of.Elem(), at)
	case of.Kind() == reflect.Slice:
		return fieldsIn(of.Elem(), at+"[]")
	case shared || of.Kind() != reflect.Struct || !strings.HasPrefix(of.PkgPath(), "github.com/celvpa/celvpa/") && of.PkgPath() != "main" ||
		slices.Contains([]string{"Step", "VerticalPodAutoscaler"}, of.Name()):
		return []string{strings.TrimPrefix(at, ".")}
	}
	return membersOf(of, at)
}

// membersOf are the fields of a struct; see fieldsIn.
func membersOf(of reflect.Type, at string) []string {
	var out []string
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			out = append(out, fieldsIn(f.Type, at)...)
		case name != "" && name != "-":
			out = append(out, fieldsIn(f.Type, at+"."+name)...)
		}
	}
	return out
}

// TestRulesArePrintedAsJSON, and the answer is the one of the text.
func TestRulesArePrintedAsJSON(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "overlay.yaml", "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: o}\nspec: {description: More room., mode: Audit, change: [{params: {estimate.marginFraction: 0.2}}]}\n")
	out, err := celvpa(t, "rules", "list", "--rules-dir", dir, "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"overlays": [
    {
      "name": "o",
      "mode": "Audit",
      "priority": 0,
      "match": "all",
      "at": "`+file+`:3:18",
      "description": "More room."
    }
  ],`)
	require.Contains(t, out, `"point": "container.estimate",
      "ruleSet": "estimate@1.0.0",`)
	out, err = celvpa(t, "rules", "diff", "shipped", dir, "-o", "json")
	require.NoError(t, err)
	require.JSONEq(t, `{"changes":[{"about":"pipeline default@1.0.0","lines":[]},
		{"about":"overlay o (Audit, for all) on default@1.0.0 is new","lines":["estimate: param marginFraction 0.15 → 0.2"]}]}`, out)
	out, err = celvpa(t, "rules", "lint", dir, "-o", "json")
	require.NoError(t, err)
	require.JSONEq(t, `{"problems":[]}`, out)
	out, err = celvpa(t, "rules", "lint", write(t, dir, "broken.yaml", "kind: RuleSet\n"), "-o", "yaml")
	require.ErrorIs(t, err, errNo)
	require.Regexp(t, `^problems:\n- at: \S+broken\.yaml:1:1\n  message: apiVersion is ""; it must be .*\n  subject: RuleSet\n- at: `, out)
}
