package chart

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite testdata/golden; read the diff")

// release is what the cases are rendered for.
var release = Release{Name: "celvpa", Namespace: "celvpa-system"}

// cases are the values files of testdata/values by name.
func cases(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	out := map[string]map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		out[strings.TrimSuffix(filepath.Base(file), ".yaml")] = parse(t, string(text))
	}
	return out
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &values), text)
	return values
}

// render renders the chart for the release of the cases.
func render(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	files, err := tryRender(values)
	require.NoError(t, err)
	return files
}

var loadOnce = sync.OnceValues(Load)

func tryRender(values map[string]any) (map[string]string, error) {
	loaded, err := loadOnce()
	if err != nil {
		return nil, err
	}
	loaded.Metadata.Version, loaded.Metadata.AppVersion = "0.0.0", "v0.0.0" // a release changes no golden file
	return Render(loaded, release, values)
}

// TestTheChartRendersWhatIsRecorded compares what the default values render with testdata/golden/default.yaml, and what each other
// case changes of that with its .diff file. After a change of the chart, run
// go test -C conformance/chart -run TestTheChartRendersWhatIsRecorded -update, and read the diff.
func TestTheChartRendersWhatIsRecorded(t *testing.T) {
	usual := asText(render(t, nil))
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			golden, got := name+".yaml", usual
			if name != "default" {
				golden = name + ".diff"
				diff := difflib.UnifiedDiff{A: difflib.SplitLines(usual), B: difflib.SplitLines(asText(render(t, values))), Context: 2, FromFile: "default", ToFile: name}
				var err error
				got, err = difflib.GetUnifiedDiffString(diff)
				require.NoError(t, err)
			}
			golden = filepath.Join("testdata", "golden", golden)
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
	files, err := filepath.Glob("testdata/golden/*")
	require.NoError(t, err)
	require.Len(t, files, len(cases(t)), "a golden file without a case")
}

// asText joins what the templates render, without the CRDs, which are compared with those of crds/manifests, and without the
// content of dashboards, which is compared with deploy/monitoring.
func asText(files map[string]string) string {
	var out strings.Builder
	for _, file := range sorted(files) {
		text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(files[file]), "---\n"))
		if text == "" || file == "crds.yaml" || strings.HasSuffix(file, ".tpl") {
			continue
		}
		out.WriteString("# " + file + "\n" + dashboard.ReplaceAllString(text, "$1 …") + "\n---\n")
	}
	return out.String()
}

var dashboard = regexp.MustCompile(`(?m)^(  celvpa-[a-z]+\.json:) .*$`)

func sorted[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestHelmLintFindsNothing lints the chart with the values of each case, strictly.
func TestHelmLintFindsNothing(t *testing.T) {
	dir, err := Dir()
	require.NoError(t, err)
	for name, values := range cases(t) {
		lint := action.NewLint()
		lint.Strict, lint.Namespace = true, release.Namespace
		result := lint.Run([]string{dir}, values)
		require.Empty(t, result.Errors, name)
		for _, m := range result.Messages {
			require.Equal(t, "[INFO] Chart.yaml: icon is recommended", m.Error(), name) // celvpa has none
		}
	}
}
