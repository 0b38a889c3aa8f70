package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestTheDemo in an empty folder, without a cluster.
func TestTheDemo(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("KUBECONFIG", "/nowhere")
	out, notes, err := run("", "demo")
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Less(t, strings.Count(out, "\n"), 12*24, "screens")
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
	}
	for _, essential := range []string{
		`pay +cash +cash +93m +77m\.\.2198m +776Mi +774Mi\.\.1\.71Gi\n`,
		`cash +memory +675Mi +774Mi +776Mi +1\.71Gi +estimate/bounds/add-safety-margin\n`,
		`name: add-safety-margin\nset:\n`,
		`pay/cash-0 .*requests\.memory +1Gi → 776Mi +requests/recommended/request\n`,
		`shop/auth-0 +Skip +eligibility/too-few-replicas\nshop/web-0 +InPlace +update/resize\nshop/web-1 +Wait +update/budget-spent\n`,
		`\neligibility/too-few-replicas: The workload has 1 live pod, fewer than\s+minReplicas \(2, set by --min-replicas\)\n`,
		`\nupdate/resize: Its requests are outside the recommended range\nupdate/budget-spent: With those of this cycle, 1 of 2 replicas are disrupted`,
		`blocked: the workload has 1 live pod(?s:.*)Misconfigured: eligibility/too-few-replicas, pod auth-0\n  until it has 2 live pods`,
		`\$ celvpa rules lint \S+\nnothing found\n`,
		`1 table, 1 row, 0 failed\n`,
		`  estimate: param marginFraction 0\.15 → 0\.3\n`,
		`   Without it, the target of cash is 93m and 776Mi\.(?s:.*)pay +cash +cash +105m .* 877Mi `,
		`shipped +3\.49 .* 1 +14 .*\n(?s:.*)production +3\.52 .* 0 +15 `, // OOM kills, which the text has, as the difference of cores, and evictions
		`\n\nThe report is celvpa-demo/backtest\.html: open it in a browser\.\n$`,
	} {
		require.Regexp(t, essential, out)
	}
	page, err := os.ReadFile("celvpa-demo/backtest.html")
	require.NoError(t, err)
	require.Contains(t, string(page), `"name":"production"`)
	require.NotRegexp(t, `(?i)<(link|img|iframe|script[^>]* src)\b|@import|url\(`, string(page), "it loads something")
	requireSameAnswers(t, out)

	t.Chdir(t.TempDir())
	again, _, err := run("", "demo")
	require.NoError(t, err)
	require.Equal(t, out, again)
	_, _, err = run("", "demo", "fast")
	require.ErrorContains(t, err, `unknown command "fast" for "celvpa demo"`)
}

// requireSameAnswers runs each command that the demo has printed by itself.
func requireSameAnswers(t *testing.T, out string) {
	t.Helper()
	commands := regexp.MustCompile(`(?m)^\$ celvpa ((?:.*\\\n)*.*)\n`).FindAllStringSubmatch(out, -1)
	require.Len(t, commands, 15)
	for _, command := range commands {
		line, file, _ := strings.Cut(strings.ReplaceAll(command[1], "\\\n", ""), " > ")
		line, filters, _ := strings.Cut(line, " | ")
		answer, _, err := run("", strings.Fields(line)...)
		require.NoError(t, err, line)
		if file != "" {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, answer, string(text), file)
			continue
		}
		answer = filtered(t, answer, filters)
		require.Contains(t, out, command[0]+answer+"\n", line)
	}
}

// filtered is what head and cut make of a text.
func filtered(t *testing.T, text, filters string) string {
	t.Helper()
	if filters == "" {
		return text
	}
	filter := exec.Command("sh", "-c", filters)
	filter.Stdin = strings.NewReader(text)
	out, err := filter.Output()
	require.NoError(t, err, filters)
	return string(out)
}

// TestTheDemoLeavesFilesAlone, also those that it wrote: they may have been changed.
func TestTheDemoLeavesFilesAlone(t *testing.T) {
	for _, name := range []string{"notes.txt", "cluster/pods.yaml", "vpas.yaml"} {
		dir := t.TempDir()
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
		out, err := celvpa(t, "demo", "--dir", dir)
		require.EqualError(t, err, dir+" holds files, which may have been changed since an earlier demo: remove it, or name a new folder with --dir")
		require.Empty(t, out)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "mine", string(text))
		require.NoFileExists(t, filepath.Join(dir, "usage.csv.gz"))
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := celvpa(t, "demo", "--dir", file)
	require.ErrorContains(t, err, "not a directory")
}

func TestTheDemoPrintsCommandsAsOneTypesThem(t *testing.T) {
	d := &demo{dir: "my demo", cmd: &cobra.Command{Use: "celvpa", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl vpa"}}}
	require.Equal(t, "$ kubectl vpa plan -f 'my demo'/cluster \\\n    -o wide\n", d.typed("$ celvpa plan -f celvpa-demo/cluster \\    -o wide\n"))
	d.dir = "it's"
	require.Equal(t, `see 'it'\''s'/backtest.html`, d.typed("see celvpa-demo/backtest.html"))
}
