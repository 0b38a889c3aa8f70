package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestARepositoryValidates: the files of its tools were errors, hundreds in a real one.
func TestARepositoryValidates(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"base/kustomization.yaml":    "resources: [vpa.yaml]\n",
		"base/vpa.yaml":              plain,
		"chart/Chart.yaml":           "apiVersion: v2\nname: web\n",
		"chart/values.yaml":          "replicas: 2\n",
		"chart/templates/vpa.yaml":   "{{- if .Values.vpa }}\napiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\n{{- end }}\n",
		"overlay/kustomization.yaml": "resources: [../base]\npatches: [{path: patch.yaml, target: {kind: VerticalPodAutoscaler}}]\n",
		"overlay/patch.yaml":         "- {op: replace, path: /spec/updatePolicy/updateMode, value: Initial}\n",
		".github/workflows/ci.yaml":  "on: [push]\n",
		".hidden.yaml":               "a: b\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		write(t, ".", name, text)
	}
	const left = "celvpa: files in folders left out: 4 hold no VerticalPodAutoscaler or workload (base/kustomization.yaml, chart/Chart.yaml, chart/values.yaml, …); " +
		"1 is a template, to be rendered first (chart/templates/vpa.yaml); 1 is a patch, which kustomize build applies (overlay/patch.yaml); name a file with -f to see what is wrong with it\n"
	const allowed = "default/plain: allowed (base/vpa.yaml:1)\n"
	for args, want := range map[string]string{
		"-f .":                                  left + allowed,
		"-f . -o github":                        left,
		"-f . --ignore chart/ --ignore overlay": "celvpa: files in folders left out: 1 holds no VerticalPodAutoscaler or workload (base/kustomization.yaml); name a file with -f to see what is wrong with it\n" + allowed,
	} {
		out, err := celvpa(t, append([]string{"validate"}, strings.Fields(args)...)...)
		require.NoError(t, err, args)
		require.Equal(t, want, out, args)
	}
	_, err := celvpa(t, "validate", "-f", ".", "--ignore", "/")
	require.EqualError(t, err, `--ignore: pattern "/" matches nothing: write the name of a file or folder, such as charts or *-values.yaml`)

	_, err = celvpa(t, "validate", "-f", ".", "--ignore", "**", "--ignore", "x")
	require.ErrorContains(t, err, ". holds no manifests beside what --ignore **, x leaves out")

	// What is named is an error, and each error an annotation.
	write(t, ".", "base/vpa.yaml", plain+"---\nkind: VerticalPodAutoscaler\n")
	out, err := celvpa(t, "validate", "-f", "base", "-f", "chart/values.yaml", "-f", "missing.yaml", "-o", "github")
	require.Error(t, err)
	require.Equal(t, `celvpa: files in folders left out: 1 holds no VerticalPodAutoscaler or workload (base/kustomization.yaml); name a file with -f to see what is wrong with it
::error title=unreadable,file=base/vpa.yaml,line=6::not a manifest: it needs apiVersion and kind
::error title=unreadable,file=chart/values.yaml,line=1::not a manifest: it needs apiVersion and kind
::error title=unreadable::cannot read missing.yaml: no such file or directory
`, out)
}
