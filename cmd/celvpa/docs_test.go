package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/rules"
)

// TestTheExamplesOfTheDocsDoWhatTheyPrint goes through a page from top to bottom: it writes each YAML or CSV example to the
// file that its first line names, and runs each command of a console block, which must print what follows it. A block that
// names a shipped file behind its language, under rules/ or examples/, is an excerpt of that file. A diff block changes the
// shipped file of the same name.
func TestTheExamplesOfTheDocsDoWhatTheyPrint(t *testing.T) {
	for page, least := range map[string]int{
		"README": 2, "docs/quickstart": 2, "docs/rules": 4, "docs/validation": 2, "docs/recommend": 4, "docs/admit": 3,
		"docs/plan": 5, "docs/backtest": 3, "docs/cookbook": 3, "docs/tutorial": 6, "docs/explain": 1,
	} {
		t.Run(page, func(t *testing.T) { followsPage(t, "../../"+page+".md", least) })
	}
}

// TestEveryRecipeOfTheCookbook passes its table and lint, and is on the page.
func TestEveryRecipeOfTheCookbook(t *testing.T) {
	recipes, err := filepath.Glob("../../examples/cookbook/*.yaml")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/cookbook.md")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(recipes), 24)
	for _, file := range recipes {
		t.Run(filepath.Base(file), func(t *testing.T) {
			require.Contains(t, string(page), "```yaml examples/cookbook/"+filepath.Base(file)+"\n")
			text, err := celvpa(t, "rules", "new", strings.TrimSuffix(filepath.Base(file), ".yaml"))
			require.NoError(t, err)
			onDisk, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(onDisk), text)
			require.Regexp(t, `^# [A-Z].*\.\n`, text)
			out, err := celvpa(t, "rules", "lint", file)
			require.NoError(t, err)
			require.Equal(t, "nothing found\n", out)
			name := regexp.MustCompile(`kind: RuleTest\nmetadata: {name: ([\w-]+)}`).FindStringSubmatch(text)
			require.NotNil(t, name, "it has no table")
			out, err = celvpa(t, "test", "--rules-dir", file, "--run", "^"+name[1]+"/")
			require.NoError(t, err, out)
			require.Regexp(t, `^ok  [\w-]+  \d+ rows?\n`, out)
		})
	}
}

// TestRecipesThatChangeNumbersInABacktest replays the example under each of them, with the labels, annotations and nodes that they
// ask for. The others are for kinds, sizes, dates or many replicas that the example does not have.
func TestRecipesThatChangeNumbersInABacktest(t *testing.T) {
	written, err := os.ReadFile("../../examples/backtest/workloads.yaml")
	require.NoError(t, err)
	text := string(written)
	for old, with := range map[string]string{
		"kind: VerticalPodAutoscaler\nmetadata: {name: web, namespace: shop": ", labels: {size: by-nodes}, annotations: {example.com/factor: '1.5', example.com/heap: 1Gi, example.com/hold: incident}",
		"kind: Deployment\nmetadata: {name: web, namespace: shop":            ", annotations: {example.com/evict: never}",
		"metadata: {labels: {app: web}":                                      ", annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: 'false'}",
	} {
		require.Contains(t, text, old+"}")
		text = strings.Replace(text, old, old+with, 1)
	}
	text = strings.Replace(text, "labels: {app: web}, annotations", "labels: {app: web, example.com/never-evict: 'true'}, annotations", 1)
	text += "---\n{apiVersion: v1, kind: Namespace, metadata: {name: payments, labels: {environment: production}}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n"
	for i := range 1000 {
		text += fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: n%d}, status: {allocatable: {cpu: '64', memory: 100Gi}}}\n", i)
	}
	objects := filepath.Join(t.TempDir(), "workloads.yaml")
	require.NoError(t, os.WriteFile(objects, []byte(text), 0o600))

	args := []string{"backtest", "-f", objects, "--history", "../../examples/backtest/usage.csv.gz", "-o", "json"}
	changing := []string{"after-oom", "by-nodes", "daily", "double", "factor", "hold", "jvm", "label", "only-up", "oom-headroom", "owner-decides", "production", "quarter-of-limit",
		"safe-to-evict", "shrink-at-night", "steps", "window"}
	for _, recipe := range changing {
		args = append(args, "--rules", "../../examples/cookbook/"+recipe+".yaml")
	}
	out, err := celvpa(t, args...)
	require.NoError(t, err)
	var report backtest.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	fleets := map[string]string{}
	for _, p := range report.Policies {
		text, err := json.Marshal(p.Fleet)
		require.NoError(t, err)
		fleets[p.Name] = string(text)
	}
	for _, recipe := range changing {
		require.Contains(t, fleets, recipe)
		require.NotEqual(t, fleets["shipped"], fleets[recipe], recipe)
	}
}

func TestThePipelinesOfTheNumbersPass(t *testing.T) {
	out, err := celvpa(t, "rules", "lint", "../../rules/pipelines")
	require.NoError(t, err, out)
	out, err = celvpa(t, "test", "--rules-dir", "../../rules/pipelines", "--run", "^(recent-peak|calm)", "--coverage")
	require.Error(t, err, "the rows are about recent-peak and calm, and reach only a part of other rule sets")
	require.Contains(t, out, "3 tables, 19 rows, 0 failed")
	require.Regexp(t, `100%  recent-peak@1\.0\.0 `, out)
	require.Regexp(t, `100%  calm@1\.0\.0 `, out)
	out, err = celvpa(t, "backtest", "-f", "../../examples/backtest/workloads.yaml", "--history", "../../examples/backtest/usage.csv.gz", "--pipelines", "follow,careful")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^follow +2\.`, out, "two of the three workloads are evicted, and grow sooner than they shrink")
	require.Regexp(t, `(?m)^careful +2\.`, out)
	_, err = celvpa(t, "backtest", "-f", "../../examples/backtest/workloads.yaml", "--history", "../../examples/backtest/usage.csv.gz", "--pipelines", "folow")
	require.ErrorContains(t, err, `--pipelines: no pipeline "folow"; loaded: default@1.0.0`)
}

func TestLintNamesWhereAnOverlayShouldInsert(t *testing.T) {
	late := func(where, entry string) string {
		file := filepath.Join(t.TempDir(), "late.yaml")
		text := "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: late}\nspec:\n  change:\n  - {" + where + ", " + entry + "}\n"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		out, _ := celvpa(t, "rules", "lint", file)
		return out
	}
	stage := `stage: {name: late, each: [bound, resource], rules: [{name: more, when: resource in now, set: {"now[resource]": "scale(now[resource], 1.5)"}}]}`
	require.Contains(t, late("after: container-caps", stage), "late runs after container-caps, whose work it may undo; insert it before container-caps to change what is recommended")
	require.Equal(t, "nothing found\n", late("before: container-caps", stage))
	require.Equal(t, "nothing found\n", late("after: rounding", stage))
	decision := "decision: {name: late, when: pod.ready, do: Wait, class: Waiting, reason: Later}"
	require.Contains(t, late("after: update/budget-spent", decision), "insert it before eligibility to hold or skip any pod, or before update to hold or skip pods that would be changed")
	require.Equal(t, "nothing found\n", late("before: update", decision))
}

func TestARecipeThatDoesNotExist(t *testing.T) {
	_, err := celvpa(t, "rules", "new", "windw")
	require.ErrorContains(t, err, `there is no recipe "windw"; did you mean window? there are after-deploy, after-oom, batch, `)
}

// followsPage goes through a page, which has at least so many commands.
func followsPage(t *testing.T, path string, least int) {
	t.Helper()
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	examples, err := filepath.Abs("../../examples")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Symlink(examples, "examples"))
	ran := 0
	for _, block := range fences(string(page)) {
		language, name, _ := strings.Cut(block.language, " ")
		if strings.HasPrefix(name, "rules/") || strings.HasPrefix(name, "examples/") {
			requireShipped(t, name, block.text)
			continue
		}
		switch language {
		case "json": // has no comments: the file's name stands behind the language
			require.NoError(t, os.WriteFile(name, []byte(block.text), 0o600))
		case "yaml", "csv":
			name, ok := strings.CutPrefix(strings.SplitN(block.text, "\n", 2)[0], "# ")
			require.True(t, ok && strings.HasSuffix(name, "."+language), "the first line of an example names its file: %s", block.text)
			require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
			require.NoError(t, os.WriteFile(name, []byte(block.text), 0o600))
		case "diff":
			writeChanged(t, name, block.text)
		case "console":
			for line := range strings.Lines(block.text) {
				require.LessOrEqual(t, utf8.RuneCountInString(line), 101, "wider than 100 columns: %s", line)
			}
			text := strings.ReplaceAll(block.text, " \\\n   ", "") // a command goes on in the next line
			for _, session := range strings.Split("\n"+text, "\n$ celvpa ")[1:] {
				command, want, _ := strings.Cut(session, "\n")
				requirePrints(t, command, want)
				ran++
			}
		}
	}
	require.GreaterOrEqual(t, ran, least, "the page has lost its examples")
}

type fence struct{ language, text string }

// fences lists the fenced blocks of a Markdown page.
func fences(page string) []fence {
	var out []fence
	parts := strings.Split("\n"+page, "\n```")
	for i := 1; i+1 < len(parts); i += 2 {
		language, text, _ := strings.Cut(parts[i], "\n")
		out = append(out, fence{language, text})
	}
	return out
}

// requirePrints runs a command, or several that read what the one before prints. In what they should print … stands for any text, and alone on a line for any lines.
func requirePrints(t *testing.T, command, want string) {
	t.Helper()
	var seen, between bytes.Buffer
	commands := strings.Split(command, " | celvpa ")
	for i, command := range commands {
		root := rootCommand(compileOnce)
		root.SetIn(bytes.NewReader(bytes.Clone(between.Bytes())))
		between.Reset()
		root.SetOut(&between)
		if i == len(commands)-1 {
			root.SetOut(&seen)
		}
		root.SetErr(&seen)
		root.SetArgs(words(command))
		if err := root.Execute(); err != nil && !errors.Is(err, errNo) {
			fmt.Fprintln(&seen, "celvpa:", err)
		}
	}
	out := seen.String()
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "\n…\n", "\n(?:.*\n)*")
	pattern = strings.TrimPrefix(pattern, "…\n")
	if strings.HasPrefix(want, "…\n") {
		pattern = "(?:.*\n)*" + pattern
	}
	if rest, open := strings.CutSuffix(pattern, "\n…"); open {
		pattern = rest + "(?:\n.*)*"
	}
	pattern = strings.ReplaceAll(pattern, "…", ".*")
	require.Regexp(t, "^"+pattern+"$", strings.TrimSpace(out), "celvpa %s", command)
}

// words splits a command as a shell does, which keeps together what is quoted.
func words(command string) (out []string) {
	for _, word := range regexp.MustCompile(`(?:'[^']*'|[^\s'])+`).FindAllString(command, -1) {
		out = append(out, strings.ReplaceAll(word, "'", ""))
	}
	return out
}

// TestTheReferencesAreWhatTheProgramPrints: run make generate after a change.
func TestTheReferencesAreWhatTheProgramPrints(t *testing.T) {
	for _, command := range [][]string{{"rules", "points"}, {"rules", "checks"}, {"reference", "api"}, {"reference", "flags"}, {"reference", "metrics"}} {
		name := command[1]
		page, err := os.ReadFile("../../docs/" + name + ".md")
		require.NoError(t, err)
		out, err := celvpa(t, command...)
		require.NoError(t, err)
		require.Equal(t, string(page), out, name)
	}
}

// TestTheQuickstartSaysWhereRulesAre checks the places in what make run prints, which only a lab can print.
func TestTheQuickstartSaysWhereRulesAre(t *testing.T) {
	page, err := os.ReadFile("../../docs/quickstart.md")
	require.NoError(t, err)
	places := regexp.MustCompile(`rule ([\w/-]+) \(rules/([\w.-]+):(\d+):`).FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, places)
	for _, m := range places {
		shipped, err := rules.FS.ReadFile(m[2])
		require.NoError(t, err)
		line, err := strconv.Atoi(m[3])
		require.NoError(t, err)
		require.Equal(t, "- name: "+path.Base(m[1]), strings.TrimSpace(strings.Split(string(shipped), "\n")[line-1]), m[0])
	}
}

// TestTheQuickstartShowsHowFaultyRulesAreRefused breaks two shipped files as the quickstart has them.
func TestTheQuickstartShowsHowFaultyRulesAreRefused(t *testing.T) {
	page, err := os.ReadFile("../../docs/quickstart.md")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("broken", 0o755))
	for file, change := range map[string][2]string{
		"requests.yaml":    {`"recommended[resource]"`, `"recomended[resource]"`},
		"update-mode.yaml": {"do: Apply", "do: Aply"},
	} {
		shipped, err := rules.FS.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(shipped), change[0])
		write(t, "broken", file, strings.Replace(string(shipped), change[0], change[1], 1))
	}
	_, err = celvpa(t, "run", "--rules-dir", "broken")
	require.Error(t, err)
	_, shown, found := strings.Cut(string(page), "$ celvpa run --rules-dir broken\n")
	require.True(t, found)
	shown, _, _ = strings.Cut(shown, "\n```")
	require.Regexp(t, "^"+strings.ReplaceAll(regexp.QuoteMeta(shown), "…", ".*")+"$", "celvpa: "+err.Error())
}

// requireShipped finds an excerpt in a shipped rule file, or in an example of the working folder, line by line as it stands there; … alone on a line stands for any lines.
func requireShipped(t *testing.T, name, excerpt string) {
	t.Helper()
	shipped, err := os.ReadFile(name)
	if file, isRule := strings.CutPrefix(name, "rules/"); isRule {
		shipped, err = rules.FS.ReadFile(file)
	}
	require.NoError(t, err)
	rest := "\n" + string(shipped)
	for _, part := range strings.Split("\n"+excerpt+"\n", "\n…\n") {
		part = "\n" + strings.Trim(part, "\n") + "\n"
		_, after, found := strings.Cut(rest, part)
		require.True(t, found, "%s has no such lines in this order:%s", name, part)
		rest = "\n" + after
	}
}

// writeChanged writes the shipped rule file of the same name with the lines of a diff replaced.
func writeChanged(t *testing.T, name, diff string) {
	t.Helper()
	shipped, err := rules.FS.ReadFile(filepath.Base(name))
	require.NoError(t, err)
	var from, to string
	for _, line := range strings.Split(diff, "\n") {
		if text, ok := strings.CutPrefix(line, "-"); ok {
			from += text + "\n"
		}
		if text, ok := strings.CutPrefix(line, "+"); ok {
			to += text + "\n"
		}
	}
	require.Equal(t, 1, strings.Count(string(shipped), from), "%s has these lines once:%s", name, from)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(strings.Replace(string(shipped), from, to, 1)), 0o600))
}
