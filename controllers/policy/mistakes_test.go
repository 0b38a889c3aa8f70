package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
)

// TestFirstMistakesNameTheWayOut: what people write in their first rules, and what they should have written.
func TestFirstMistakesNameTheWayOut(t *testing.T) {
	const overlays = "overlays match objects by match.namespaces, match.workloadSelector and match.vpaSelector"
	mistakes := []struct{ rule, want string }{
		{`set: {now.memory: now.memory * 1.5}`, "operator * does not take (int, double); write scale(now.memory, 1.5)"},
		{`set: {now.cpu: 1.5 * (now.cpu + cpu('1'))}`, "operator * does not take (double, int); write scale(now.cpu + cpu(\"1\"), 1.5)"},
		{`set: {now.cpu: now.cpu / 2.0}`, "operator / does not take (int, double); write scale(now.cpu, 1.0 / 2.0)"},
		{`set: {now.cpu: 0.5}`, "the expression gives double, the field holds int (cpu); write cpu('500m')"},
		{`set: {now.memory: "'4Gi'"}`, "the expression gives string, the field holds int (memory); write mem('4Gi')"},
		{`set: {now.memory: double(now.memory) * 1.5}`, "the field holds int (memory); scale(amount, 1.5) is an amount times a fraction"},
		{`set: {now.cpu: "now.?cpu"}`, "the field holds int (cpu); an optional may hold no value: add .orValue(…)"},
		{`set: {now.cpu: "now.cpu + '100m'"}`, "operator + does not take (int, string); amounts are whole numbers, written as literals such as cpu('250m')"},
		{`set: {now.cpu: "min(now.cpu, 0.5)"}`, "there is min(int, int) -> int, min(double, double) -> double"},
		{`set: {now.cpu: "if (has(now.cpu)) 3 else 4"}`, `"if" is a word that CEL reserves; write condition ? value : other`},
		{`when: now.cpu > 1.5`, "operator > does not take (int, double); amounts are whole numbers, written as literals such as cpu('250m')"},
		{`when: "hour(0, timeZone('Mars')) > 1"`, `"Mars" is not a time zone of the IANA database, such as Europe/Berlin or UTC`},
		{`when: "inWindow(0, timeWindow('22:00-22:00'))"`, `"22:00-22:00" is not a time window: "22:00-22:00" ends as it begins, so it never opens; write days of the week`},
		{`when: "clock > time('2026-12-24T00:00:00Z')"`, "undeclared reference to 'clock': the time is a fact of some points, which functions read; docs/points.md has both"},
		{`when: "time('Christmas') > time('2026-12-24T00:00:00Z')"`, `"Christmas" is not a time such as 2026-12-24T18:00:00Z`},
		{`when: "now.cpu > time('2026-12-24T00:00:00Z')"`, "time"},
		{`when: namespace == 'shop'`, `"namespace" is a word that CEL reserves: docs/points.md lists the namespaces, labels and annotations that rules see at each point; ` + overlays},
		{`when: "labels['tier'] == 'gold'"`, "undeclared reference to 'labels': docs/points.md lists the namespaces, labels and annotations that rules see at each point; " + overlays},
		{`when: metadata.labels.tier == 'gold'`, "undeclared reference to 'metadata': docs/points.md lists the namespaces, labels and annotations that rules see at each point; " + overlays},
		{`when: pod.metadata.namespace == 'shop'`, "undeclared reference to 'pod': docs/points.md lists the namespaces, labels and annotations that rules see at each point; " + overlays},
		{`when: policy.labels.tier == 'gold'`, "undefined field 'labels': docs/points.md lists the namespaces, labels and annotations that rules see at each point; " + overlays},
		{`when: has(now.cpu) and has(now.memory)`, `syntax error: "and" is not an operator; write && for and, || for or, ! for not`},
		{`when: not has(now.cpu)`, `syntax error: "not" is not an operator; write && for and, || for or, ! for not`},
	}
	overlay := "{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: first}, spec: {change: [{after: container-caps, stage: {name: s, each: bound, rules: [\n"
	for i, m := range mistakes {
		overlay += fmt.Sprintf("{name: r%d, note: seen, %s},\n", i, m.rule)
	}
	file := filepath.Join(t.TempDir(), "o.yaml")
	require.NoError(t, os.WriteFile(file, []byte(overlay+"]}}]}}\n"), 0o600))
	_, err := Load(Options{Path: file, Points: []string{facts.ContainerRecommend}})
	for i, m := range mistakes {
		require.Regexp(t, fmt.Sprintf(`rule r%d, [^:]*: %s`, i, ".*"+regexp.QuoteMeta(m.want)), err.Error())
		require.Equal(t, 1, strings.Count(err.Error(), fmt.Sprintf(", rule r%d, ", i)), "%s: one fault: %v", m.rule, err)
	}
}

// TestFactsThatMayBeUnknownAreAskedForFirst, or lint says so.
func TestFactsThatMayBeUnknownAreAskedForFirst(t *testing.T) {
	const fails = "nodes.count fails where nothing is known of nodes, and the rule is skipped; write has(nodes.count) && …"
	for when, want := range map[string]string{
		"nodes.count > 3": fails,
		"has(workload.labels.a) && nodes.count > 3":       fails,
		"nodes.largest.cpu > cpu('3')":                    strings.ReplaceAll(fails, "nodes.count", "nodes.largest"),
		"has(nodes.count) && nodes.count > 3":             "",
		"has(nodes.largest.cpu) && nodes.count > 3":       "",
		"nodes.?count.orValue(0) > 3":                     "",
		"workload.labels[?'a'].orValue('') == 'x'":        "",
		"has(now.cpu) && now.cpu > policy.maxAllowed.cpu": "",
	} {
		file := filepath.Join(t.TempDir(), "o.yaml")
		require.NoError(t, os.WriteFile(file, []byte(`{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: o}, spec: {change: [
{before: container-caps, stage: {name: s, each: bound, when: "`+when+`", rules: [{name: r, when: has(now.cpu), set: {now.cpu: cpu('1')}}]}}]}}
`), 0o600))
		book, err := Load(Options{Path: file, Points: []string{facts.ContainerRecommend}})
		require.NoError(t, err, when)
		var got []string
		for _, f := range book.Findings() {
			got = append(got, f.Message)
		}
		require.Equal(t, want, strings.Join(got, "\n"), when)
	}
}
