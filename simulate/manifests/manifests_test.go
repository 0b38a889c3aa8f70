package manifests

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// read parses text as standard input.
func read(text string) (*Set, error) { return Read([]string{Stdin}, strings.NewReader(text)) }

// listed formats documents as "line apiVersion object".
func listed(s *Set) (out []string) {
	for i := range s.Documents {
		d := &s.Documents[i]
		out = append(out, strings.TrimPrefix(d.Source.String(), "standard input:")+" "+d.APIVersion+" "+d.String())
	}
	return out
}

const vpa = "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\n"

func TestDocumentsAreFoundWithTheirPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                          {text: ""},
		"separators and comments only":     {text: "---\n# a\n---\n\n---\nnull\n...\n"},
		"one":                              {text: vpa + "metadata: {name: shop, namespace: web}", want: []string{"1 autoscaling.k8s.io/v1 VerticalPodAutoscaler web/shop"}},
		"no namespace":                     {text: vpa + "metadata: {name: shop}", want: []string{"1 autoscaling.k8s.io/v1 VerticalPodAutoscaler default/shop"}},
		"a kind without namespace":         {text: "{apiVersion: v1, kind: Namespace, metadata: {name: a}}", want: []string{"1 v1 Namespace a"}},
		"a comment first":                  {text: "# about\n\n" + vpa + "metadata: {name: a}", want: []string{"3 autoscaling.k8s.io/v1 VerticalPodAutoscaler default/a"}},
		"two, with Windows line ends":      {text: "kind: Pod\r\napiVersion: v1\r\nmetadata: {name: a}\r\n---\r\nkind: Pod\r\napiVersion: v1\r\nmetadata: {name: b}\r\n", want: []string{"1 v1 Pod default/a", "5 v1 Pod default/b"}},
		"a comment on the separator":       {text: "--- # first\nkind: Pod\napiVersion: v1\nmetadata: {name: a}\n--- # second\nkind: Pod\napiVersion: v1\nmetadata: {name: b}\n", want: []string{"2 v1 Pod default/a", "6 v1 Pod default/b"}},
		"a document on the separator":      {text: "--- {kind: Pod, apiVersion: v1, metadata: {name: a}}\n", want: []string{"1 v1 Pod default/a"}},
		"an end mark between":              {text: "kind: Pod\napiVersion: v1\nmetadata: {name: a}\n...\nkind: Pod\napiVersion: v1\nmetadata: {name: b}\n", want: []string{"1 v1 Pod default/a", "5 v1 Pod default/b"}},
		"a mark at the start of the file":  {text: "\ufeffkind: Pod\napiVersion: v1\nmetadata: {name: a}\n", want: []string{"1 v1 Pod default/a"}},
		"a mark at the start of each file": {text: "\ufeffkind: Pod\napiVersion: v1\nmetadata: {name: a}\n---\r\n\ufeffkind: Pod\napiVersion: v1\nmetadata: {name: b}\n", want: []string{"1 v1 Pod default/a", "5 v1 Pod default/b"}},
		"dashes inside a text":             {text: "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata:\n  x: |\n    ---\n    y\n", want: []string{"1 v1 ConfigMap default/a"}},
		"JSON":                             {text: "\n{\n\t\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}\n", want: []string{"2 v1 Pod default/a"}},
		"JSON values in a row":             {text: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}` + "\n" + `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}`, want: []string{"1 v1 Pod default/a", "2 v1 Pod default/b"}},
		"JSON with an escape of JSON only": {text: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"x":"\ud83d\ude00\/"}}}`, want: []string{"1 v1 Pod default/a"}},
		"a list":                           {text: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- apiVersion: v1\n  kind: List\n  items:\n  - {apiVersion: v1, kind: Pod, metadata: {name: b}}\n", want: []string{"4 v1 Pod default/a", "10 v1 Pod default/b"}},
		"a list of a type":                 {text: "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscalerList\nitems:\n- metadata: {name: a}\n", want: []string{"4 autoscaling.k8s.io/v1 VerticalPodAutoscaler default/a"}},
		"an empty list":                    {text: "{apiVersion: v1, kind: List, items: []}"},
		"a list as JSON":                   {text: "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}}]}", want: []string{"2 v1 Pod default/a"}},
		"names to be made":                 {text: "kind: Pod\napiVersion: v1\nmetadata: {generateName: a-}\n---\nkind: Pod\napiVersion: v1\nmetadata: {generateName: a-}\n", want: []string{"1 v1 Pod default/a-", "5 v1 Pod default/a-"}},
		"one name in several namespaces":   {text: "kind: Pod\napiVersion: v1\nmetadata: {name: a}\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: a, namespace: b}\n", want: []string{"1 v1 Pod default/a", "5 v1 Pod b/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := read(tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.want, listed(set))
		})
	}
}

// Good documents before and after the bad one are read.
// TestEveryDocumentIsReadWhateverTheEncoding: regression, the second document of such a file was lost,
// and the exit code was 0.
func TestEveryDocumentIsReadWhateverTheEncoding(t *testing.T) {
	const two = "kind: Pod\r\napiVersion: v1\r\nmetadata: {name: a, annotations: {x: \"\u00fc\U0001f600\"}}\r\n---\r\nkind: Pod\r\napiVersion: v1\r\nmetadata: {name: b}\r\n"
	utf16In := func(order binary.AppendByteOrder) string {
		var out []byte
		for _, unit := range utf16.Encode([]rune("\ufeff" + two)) {
			out = order.AppendUint16(out, unit)
		}
		return string(out)
	}
	for name, text := range map[string]string{
		"UTF-16, as Windows PowerShell writes it": utf16In(binary.LittleEndian),
		"UTF-16, high byte first":                 utf16In(binary.BigEndian),
		"line ends without a line feed":           strings.ReplaceAll(two, "\r\n", "\r"),
	} {
		t.Run(name, func(t *testing.T) {
			set, err := read(text)
			require.NoError(t, err)
			require.Equal(t, []string{"1 v1 Pod default/a", "5 v1 Pod default/b"}, listed(set))
			require.Contains(t, string(set.Documents[0].JSON), "\u00fc\U0001f600")
		})
	}
	_, err := read(strings.ReplaceAll(two, "\r\n", "\u2028"))
	require.EqualError(t, err, "standard input:4: another document begins here, and lines do not end as usual: save the file with line ends LF or CR LF")
	_, err = read("\xff\xfek") // cut short
	require.NoError(t, err)
}

func TestWhatCannotBeReadCostsNothingElse(t *testing.T) {
	const first, last = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n", "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: z}\n"
	for name, tt := range map[string]struct{ text, want string }{
		"no YAML":                     {text: "a: b\nc: [\n", want: "standard input:6:1: not valid YAML: did not find expected node content"},
		"more than one root":          {text: "{a: b}\n{c: d}", want: "standard input:6:1: not valid YAML: did not find expected <document start>"},
		"a tab":                       {text: "kind:\n\t- a", want: "standard input:6:1: not valid YAML: found character that cannot start any token"},
		"a template":                  {text: "{{- if .Values.vpa }}\nkind: Pod\n{{- end }}", want: "standard input:5:1: not valid YAML: it is a template, with {{: render it first, as helm template does"},
		"a name to fill in":           {text: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}", want: "standard input:5: not a manifest: it is a template, with {{: render it first, as helm template does"},
		"a name in quotes to fill in": {text: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: '{{ .Release.Name }}'", want: "standard input:5: not a manifest: it is a template, with {{: render it first, as helm template does"},
		"a key that is a list":        {text: "apiVersion: v1\nkind: Pod\nmetadata: {[a]: b}", want: "standard input:5: not valid YAML: invalid map key"},
		"a key twice":                 {text: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n  name: c", want: `standard input:9:3: key "name" is already set on line 8; keep one of them`},
		"a key of JSON twice":         {text: "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\n\"kind\":\"Job\"}", want: `standard input:6:1: key "kind" is already set on line 5; keep one of them`},
		"a list at the root":          {text: "- a", want: "standard input:5: not an object: a manifest is a mapping with apiVersion and kind"},
		"a word at the root":          {text: "# x\nhello", want: "standard input:6: not an object"},
		"no kind":                     {text: "apiVersion: v1\nmetadata: {name: b}", want: "standard input:5: not a manifest: it needs apiVersion and kind"},
		"no apiVersion":               {text: "kind: Pod\nmetadata: {name: b}", want: "standard input:5: not a manifest: it needs apiVersion and kind"},
		"a name that is a list":       {text: "apiVersion: v1\nkind: Pod\nmetadata: {name: []}", want: "standard input:5: cannot read apiVersion, kind and metadata: "},
		"a name without quotes":       {text: "apiVersion: v1\nkind: Pod\nmetadata: {name: off}", want: "metadata.name is false, and must be a string; put quotes around it: YAML takes words such as n, no and off for true or false"},
		"JSON that breaks off":        {text: "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"z\"}}\n{\"a\":", want: "standard input:5: what follows cannot be read as JSON: unexpected EOF"},
		"JSON with a fault":           {text: "{\"apiVersion\": \"v1\",\n \"kind\": \"Pod\",,\n \"metadata\": {}}", want: "standard input:6:16: not valid JSON: invalid character ',' looking for beginning of object key string"},
		"a kind misspelled": {text: "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoScaler\nmetadata: {name: b}",
			want: "standard input:5: kind VerticalPodAutoScaler is not known in autoscaling.k8s.io; known: VerticalPodAutoscaler, VerticalPodAutoscalerCheckpoint"},
		"a kind of another group": {text: "apiVersion: autoscaling/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: b}",
			want: "standard input:5: a VerticalPodAutoscaler has apiVersion autoscaling/v1; write autoscaling.k8s.io/v1"},
		"an overlay of another group": {text: "apiVersion: celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: b}",
			want: "standard input:5: a RuleOverlay has apiVersion celvpa.dev/v1alpha1; write rules.celvpa.dev/v1alpha1"},
		"a plural": {text: "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlays\nmetadata: {name: b}",
			want: "standard input:5: kind RuleOverlays is not known in rules.celvpa.dev; known: RuleSet, Pipeline, RuleOverlay, RuleTest"},
		"a bad item of a list": {text: "apiVersion: v1\nkind: List\nitems:\n- 7\n- {apiVersion: v1, kind: Pod, metadata: {name: z}}", want: "standard input:8: cannot read apiVersion, kind and metadata: "},
	} {
		t.Run(name, func(t *testing.T) {
			end := last
			if strings.Contains(tt.text, "name: z") || strings.Contains(tt.text, `"name":"z"`) {
				end = ""
			}
			set, err := read(first + tt.text + end)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n", "one mistake is reported once")
			var names []string
			for _, d := range set.Documents {
				names = append(names, d.Name)
			}
			require.Equal(t, []string{"a", "z"}, names)
		})
	}
}

func TestDuplicateObjectsAreReported(t *testing.T) {
	set, err := read("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\n---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: a}\n")
	require.NoError(t, err)
	require.Len(t, set.Documents, 3)
	for _, kind := range []string{"", "Pod"} {
		require.EqualError(t, set.Twice(kind), "standard input:5: Pod default/a is already defined at standard input:1; keep one of them")
	}
	require.NoError(t, set.Twice("Node"))
}

func TestFilesAndFoldersAreReadInOrder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, object string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("{apiVersion: v1, kind: Pod, metadata: {name: "+object+"}}"), 0o600))
	}
	write("set/b.yml", "b")
	write("set/a.yaml", "a")
	write("set/inner/c.json", "c") // YAML by its content
	write("set/notes.txt", "not-read")
	write("set/..data_1/a.yaml", "not-read-either")
	write("elsewhere/d.yaml", "d")
	require.NoError(t, os.Symlink("../elsewhere/d.yaml", filepath.Join(dir, "set", "z.yaml")))
	require.NoError(t, os.Symlink("../elsewhere", filepath.Join(dir, "set", "folder.yaml")))
	require.NoError(t, os.Symlink("set", filepath.Join(dir, "link")))
	t.Chdir(dir)

	places := func(paths ...string) (out []string) {
		set, err := Read(paths, strings.NewReader("{apiVersion: v1, kind: Pod, metadata: {name: piped}}"))
		require.NoError(t, err)
		for _, d := range set.Documents {
			out = append(out, d.Source.String()+" "+d.Name)
		}
		return out
	}
	require.Equal(t, []string{"set/a.yaml:1 a", "set/b.yml:1 b", "set/inner/c.json:1 c", "set/z.yaml:1 d"}, places("set"))
	require.Equal(t, []string{"link/a.yaml:1 a", "link/b.yml:1 b", "link/inner/c.json:1 c", "link/z.yaml:1 d"}, places("link"), "as it was named")
	require.Equal(t, []string{"standard input:1 piped", "set/notes.txt:1 not-read", "set/b.yml:1 b"}, places("-", "set/notes.txt", "set/b.yml"))

	require.NoError(t, os.Mkdir("empty", 0o755))
	require.NoError(t, os.Symlink("nowhere", filepath.Join("elsewhere", "broken.yaml")))
	set, err := Read([]string{"empty", "missing", "-", "-", "elsewhere"}, strings.NewReader("{apiVersion: v1, kind: Pod, metadata: {name: piped}}"))
	require.EqualError(t, err, `empty holds no manifests: files named *.yaml, *.yml or *.json
cannot read missing: no such file or directory
standard input is named twice; it can be read once
cannot read elsewhere/broken.yaml: no such file or directory`)
	require.Len(t, set.Documents, 2, "the rest is there")
}

func TestScalarsAreReadAsKubectlReadsThem(t *testing.T) {
	set, err := read(vpa + "metadata: {name: a}\nspec: {updatePolicy: {updateMode: Off, minReplicas: 0x10}, unheardOf: 1.50}\n")
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"name":"a"},"spec":{"updatePolicy":{"updateMode":false,"minReplicas":16},"unheardOf":1.5}}`, string(set.Documents[0].JSON))
}

func TestTypedObjects(t *testing.T) {
	set, err := read(`
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: two}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web}}}
---
{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: one}, spec: {maxReplicas: 3, targetCPUUtilizationPercentage: 60, scaleTargetRef: {kind: Deployment, name: web}}}
---
{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: plain}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: web, labels: {a: b}}}
---
{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: web}, spec: {updatePolicy: {updateMode: Initial}}}
---
{apiVersion: autoscaling.k8s.io/v1beta2, kind: VerticalPodAutoscaler, metadata: {name: old}}
---
{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: good}, spec: {mode: Warn, change: [{disable: a}]}}
---
{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: bad}, spec: {mood: Warn, change: [{disable: a}]}}
`)
	require.NoError(t, err)
	hpas, err := set.HPAs()
	require.NoError(t, err)
	require.Len(t, hpas, 3)
	require.Equal(t, "default", hpas[0].Namespace)
	require.Equal(t, "web", hpas[1].Spec.ScaleTargetRef.Name)
	require.Equal(t, int32(60), *hpas[1].Spec.Metrics[0].Resource.Target.AverageUtilization)
	require.Equal(t, int32(80), *hpas[2].Spec.Metrics[0].Resource.Target.AverageUtilization)

	vpas, err := set.VPAs()
	require.EqualError(t, err, "standard input:12: VerticalPodAutoscaler default/old has apiVersion autoscaling.k8s.io/v1beta2; write autoscaling.k8s.io/v1")
	require.Len(t, vpas, 1)
	v, err := vpas[0].VPA()
	require.NoError(t, err)
	require.Equal(t, "default", v.Namespace)
	require.Equal(t, "Initial", string(*v.Spec.UpdatePolicy.UpdateMode))

	overlays, err := set.RuleOverlays()
	require.ErrorContains(t, err, `standard input:16: RuleOverlay bad cannot be read: unknown field "spec.mood"`)
	require.Len(t, overlays, 1)
	require.Equal(t, "Warn", overlays[0].Spec.Mode)
}
