package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	yamlv3 "go.yaml.in/yaml/v3"
)

// hostile colours, clears, goes back to the beginning of the line, turns text around, and ends in what is no character.
const (
	hostile     = "evil\x1b[31m\r\u009b2J\u202e\u2066\x07\x7f"
	hostileBits = hostile + "\xff\xe2\x80"
	hostileYAML = `"evil\e[31m\r\x9b2J\u202E\u2066\a\x7F"`
)

// hostileCluster has a hostile text in each place that a command may print.
var hostileCluster = strings.NewReplacer("EVIL", hostileYAML).Replace(`
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: web}, spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app, resources: {requests: {cpu: 100m, memory: 128Mi}}}, {name: EVIL}]}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: EVIL, namespace: web}, spec: {selector: {matchLabels: {app: EVIL}}, template: {metadata: {labels: {app: EVIL}}, spec: {containers: [{name: app}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: web, labels: {app: web}, annotations: {vpaObservedContainers: EVIL}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, controller: true}]},
 spec: {nodeName: EVIL, containers: [{name: app, resources: {requests: {cpu: 100m, memory: 128Mi}}}, {name: EVIL}]}, status: {phase: Running, startTime: '2026-01-31T11:00:00Z', reason: EVIL, conditions: [{type: PodResizePending, status: "True", reason: EVIL, message: EVIL}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: EVIL, namespace: web, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: EVIL, name: EVIL, controller: true}]}, spec: {nodeName: EVIL, containers: [{name: app}]}, status: {phase: EVIL}}
---
{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: web, namespace: web}, spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, updatePolicy: {updateMode: Recreate, minReplicas: 1},
 resourcePolicy: {containerPolicies: [{containerName: EVIL, mode: EVIL}]}},
 status: {conditions: [{type: EVIL, status: EVIL, reason: EVIL, message: EVIL}], recommendation: {containerRecommendations: [{containerName: app, lowerBound: {cpu: 400m, memory: 1Gi}, target: {cpu: 500m, memory: 1Gi}, upperBound: {cpu: 1, memory: 2Gi}}, {containerName: EVIL, target: {cpu: 500m}}]}}}
---
{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: lost, namespace: web}, spec: {targetRef: {apiVersion: EVIL, kind: EVIL, name: EVIL}, updatePolicy: {updateMode: EVIL}, recommenders: [{name: EVIL}]}}
---
{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: EVIL, namespace: EVIL}, spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: EVIL}, EVIL: EVIL}}
---
{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: EVIL}, spec: {mode: Audit, match: {namespaces: [EVIL]}, change: [{params: {estimate.marginFraction: 0.5}}]}}
---
{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: odd}, spec: {change: [{params: {EVIL: EVIL}}]}}
---
{apiVersion: EVIL, kind: EVIL, metadata: {name: EVIL, namespace: EVIL}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: EVIL, namespace: web}, spec: {limits: [{type: EVIL, max: {cpu: EVIL}}]}}
`)

const hostileTable = `apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleTest
metadata: {name: EVIL}
spec:
  point: vpa.update
  rows:
  - {name: EVIL, facts: {EVIL: EVIL}, want: {EVIL: EVIL}}
`

// TestNoCommandLetsATextAtTheTerminal: every command, each of its formats, with hostile texts in all that it reads. Formats for
// programs can be read, and lose nothing.
func TestNoCommandLetsATextAtTheTerminal(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	evil := strings.NewReplacer("EVIL", hostileYAML)
	cluster := file(hostile+"/cluster.yaml", hostileCluster)
	broken := file(hostile+"/broken.yaml", "a: ["+hostileBits)
	usage := file(hostile+"/usage.csv", hour("web-1", "app")+hour(hostile, "app")+hour("web-1", hostile)+hostileBits+"\n"+
		"1767225600,web,p,app,"+hostileBits+",1\n1767225600,web,p,app,cpu,"+hostileBits+"\n")
	answer := file("usage.json", `{"status":"success","warnings":["`+strings.ReplaceAll(strings.ReplaceAll(hostileBits, "\x1b", `\u001b`), "\r", `\r`)+`"],"data":{"resultType":"matrix","result":[{"metric":{"__name__":"evil\u001b[31m","namespace":"web","pod":"p","container":"app"},"values":[[5,"1"]]}]}}`)
	table := file(hostile+"/table.yaml", evil.Replace(hostileTable))
	rules := filepath.Dir(file("rules/"+"overlay.yaml", evil.Replace("apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: late, description: EVIL}\nspec: {mode: Audit, match: {namespaces: [EVIL]}, change: [{params: {estimate.marginFraction: 0.5}}]}\n")))
	caps := ownRules(t, "container-caps.yaml", "Keep recommendations", "evil \u202e\u2066 Keep recommendations")
	wrong := filepath.Dir(file(hostile+"rules/wrong.yaml", evil.Replace("apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: EVIL, version: EVIL}\nspec: {point: EVIL}\n")))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, hostileBits, http.StatusBadRequest) }))
	t.Cleanup(server.Close)
	forms := func(list string, args ...string) (out [][]string) {
		for _, form := range strings.Fields(list) {
			out = append(out, append(args[:len(args):len(args)], "-o", form))
		}
		return out
	}
	var all [][]string
	for _, some := range [][][]string{
		forms("table wide json yaml", "list", "-f", cluster, "-f", broken),
		forms("table wide json yaml html", "explain", "web", "-n", "web", "-f", cluster, "-f", broken),
		forms("table wide", "explain", "pod/"+hostile, "-n", "web", "-f", cluster, "--usage", usage),
		forms("table wide json yaml", "recommend", "-f", cluster, "--usage", usage, "--usage", answer),
		forms("table wide json yaml", "plan", "-f", cluster, "--explain"),
		forms("table wide json yaml patch", "admit", "-f", cluster, "--explain"),
		forms("table json yaml junit github", "validate", "-f", cluster, "-f", broken),
		forms("table wide json yaml csv html", "backtest", "-f", cluster, "--history", usage),
		forms("table", "backtest", "-f", cluster, "--history", server.URL),
		forms("table yaml github", "rules", "lint", wrong, rules),
		forms("wide yaml", "rules", "list", "--rules-dir", rules),
		forms("table", "rules", "diff", "shipped", rules),
		forms("table json", "rules", "diff", "shipped", rules, "--vpa", cluster),
		forms("table", "rules", "diff", "shipped", rules, "--tests", table),
		forms("table json yaml junit github", "test", table),
		{
			{"rules", "show", "container-caps", "--rules-dir", caps}, {"rules", "show", "late", "--rules-dir", rules}, {"rules", "show", hostile},
			{"rules", "render", "--rules-dir", caps}, {"rules", "render", "--rules-dir", caps, "--vpa", cluster}, {"rules", "render", "--rules-dir", wrong},
			{"rules", "checks", "--rules-dir", wrong}, {"crd", "--rules-dir", wrong}, {hostile}, {"help", hostile}, {"list", hostile}, {"list", "-o", hostile},
			{"list", "-f", filepath.Join(dir, hostileBits)}, {"recommend", "-f", cluster, "--usage", filepath.Join(dir, hostile)}, {"explain", hostile, "-f", cluster},
		},
	} {
		all = append(all, some...)
	}
	for _, args := range all {
		t.Run(strings.ToValidUTF8(strings.Join(args, " "), ""), func(t *testing.T) {
			var out, stderr bytes.Buffer
			root := rootCommand(compileOnce)
			root.SetArgs(args)
			err := runCommand(root, &out, &stderr)
			if err != nil && !errors.Is(err, errNo) {
				printErrors(root.ErrOrStderr(), err)
			}
			for _, text := range []string{out.String(), stderr.String()} {
				require.True(t, utf8.ValidString(text))
				require.Equal(t, -1, strings.IndexFunc(text, acts), "%q", text[max(0, strings.IndexFunc(text, acts)-100):])
			}
			require.Contains(t, out.String()+stderr.String(), "evil", "hostile texts are printed, and not left out")
			switch form := args[len(args)-1]; {
			case out.Len() == 0: // it could not run
			case form == "json":
				require.True(t, json.Valid(out.Bytes()), "%s", out.String())
			case form == "junit":
				require.NoError(t, xml.Unmarshal(out.Bytes(), new(junitSuites)))
			case form == "yaml" || args[0] == "crd" || len(args) > 1 && args[1] == "render":
				for decoder := yamlv3.NewDecoder(&out); err == nil; {
					if err = decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
						require.NoError(t, err)
					}
				}
			}
		})
	}
}

// TestFormatsForProgramsLoseNothing: what a terminal would act on is escaped there.
func TestFormatsForProgramsLoseNothing(t *testing.T) {
	want := map[string]any{hostile: []any{hostile, "a \u00ad\u200d\U000e0001 b\nc\t\u0085", true}}
	got := map[string]any{}
	text, err := asJSON(want, "  ")
	require.NoError(t, err)
	require.False(t, bytes.ContainsFunc(text, acts), "%q", text)
	require.NoError(t, json.Unmarshal(text, &got), "%s", text)
	require.Equal(t, want, got)
	clear(got)
	text, err = asYAML(want)
	require.NoError(t, err)
	require.False(t, bytes.ContainsFunc(text, acts), "%q", text)
	require.NoError(t, yamlv3.Unmarshal(text, &got), "%s", text)
	require.Equal(t, want, got)
}

// TestVisibleTextIsNotCutBetweenWrites, not within a character either.
func TestVisibleTextIsNotCutBetweenWrites(t *testing.T) {
	const text = "a→b\u202e\U000e0001é\x1b"
	for cut := range len(text) {
		var out bytes.Buffer
		w := &visibleWriter{to: &out}
		for _, part := range []string{text[:cut], text[cut:], "\xe2\x86"} {
			n, err := io.WriteString(w, part)
			require.NoError(t, err)
			require.Equal(t, len(part), n)
		}
		require.NoError(t, w.end())
		require.Equal(t, "a→b\ufffd\ufffdé\ufffd\ufffd\ufffd", out.String())
	}
}

// TestCommandsPrintInOnePlace: only where a command begins, and where progress is shown on a terminal, is an output named that takes
// controls.
func TestCommandsPrintInOnePlace(t *testing.T) {
	direct := regexp.MustCompile(`\bos\.Std(out|err)\b|\bfmt\.Print(f|ln)?\(`)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found := map[string]int{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if n := len(direct.FindAll(text, -1)); n > 0 {
			found[name] = n
		}
	}
	require.Equal(t, map[string]int{"main.go": 2}, found)
}
