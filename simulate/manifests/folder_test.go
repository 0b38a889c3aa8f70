package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	plainVPA    = "{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: web}, spec: {}}\n"
	notManifest = "not a manifest: it needs apiVersion and kind"
)

// repository writes files below a new folder.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return root
}

// TestARepositoryCanBeRead: files of its tools were hundreds of errors.
func TestARepositoryCanBeRead(t *testing.T) {
	for name, tt := range map[string]struct {
		files  map[string]string
		ignore []string
		kept   int
		left   string // of LeftOut
		errs   []string
	}{
		"files without objects": {files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\n", "values.yaml": "kind: 3\n", "list.yaml": "- 1\n", "broken.yaml": "a: [\n", "vpa.yaml": plainVPA},
			kept: 1, left: "files in folders left out: 4 hold no VerticalPodAutoscaler or workload (/Chart.yaml, /broken.yaml, /list.yaml, …); name a file with -f to see what is wrong with it"},
		"a template of a chart, and one of something else": {files: map[string]string{"c/Chart.yaml": "apiVersion: v2\nkind: Chart\n", "c/templates/a.yaml": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: \"{{ .Release.Name }}\"}}\n",
			"b.yaml": "{{- if .x }}\nkind: VerticalPodAutoscaler\n{{- end }}\n", "c/templates/plain.yaml": plainVPA, "vpa.yaml": plainVPA},
			kept: 3, left: "files in folders left out: 2 are templates, to be rendered first (/b.yaml, /c/templates/a.yaml); name a file with -f to see what is wrong with it"},
		"braces outside of templates": {files: map[string]string{"set.yaml": "{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, metadata: {name: a}, spec: {name: '{{path}}'}}\n"}, kept: 1},
		"patches of a kustomization": {files: map[string]string{"k/kustomization.yaml": "patches: [{path: p.yaml}, {patch: 'a: b'}]\npatchesStrategicMerge: [../s.yaml]\npatchesJson6902: [{path: j.json, target: {kind: VerticalPodAutoscaler}}]\n",
			"k/p.yaml": plainVPA, "s.yaml": "$patch: delete\n", "k/j.json": "[]", "k/vpa.yaml": plainVPA}, kept: 1,
			left: "files in folders left out: 1 holds no VerticalPodAutoscaler or workload (/k/kustomization.yaml); 3 are patches, which kustomize build applies (/k/j.json, /k/p.yaml, /s.yaml); name a file with -f to see what is wrong with it"},
		"hidden files and folders": {files: map[string]string{".a.yaml": "a: b\n", ".github/w.yaml": "a: b\n", "vpa.yaml": plainVPA}, kept: 1},
		"broken files with an object": {files: map[string]string{"vpa.yaml": "kind: VerticalPodAutoscaler\nmetadata: {\n", "w.yaml": "metadata: {name: web}\nkind: Deployment\n", "j.json": "{\"kind\": \"StatefulSet\", \"metadata\": {}}",
			"l.yaml": "apiVersion: v1\nkind: List\nitems:\n- kind: VerticalPodAutoscaler\n- {\n"},
			errs: []string{"/j.json:1: " + notManifest, "/l.yaml:", "/vpa.yaml:", "/w.yaml:1: " + notManifest}},
		"a manifest beside what is none": {files: map[string]string{"vpa.yaml": plainVPA + "---\na: b\n"}, kept: 1, errs: []string{"/vpa.yaml:3: " + notManifest}},
		"ignored": {files: map[string]string{"a.yaml": "a: b\n", "test/b.yaml": "a: b\n", "x/test/c.yaml": "a: b\n", "x/c-values.yaml": "a: b\n", "x/y/z.yaml": "a: b\n", "vpa.yaml": plainVPA, "x/vpa.yaml": plainVPA},
			ignore: []string{"test", "*-values.yaml", "/a.yaml", "x/**/z.yaml"}, kept: 2},
	} {
		t.Run(name, func(t *testing.T) {
			root := repository(t, tt.files)
			set, err := Files{Paths: []string{root}, Ignore: tt.ignore}.Read(nil)
			require.Len(t, set.Documents, tt.kept)
			require.Equal(t, tt.left, strings.ReplaceAll(set.LeftOut(), root, ""))
			if len(tt.errs) == 0 {
				require.NoError(t, err)
				return
			}
			lines := strings.Split(strings.ReplaceAll(err.Error(), root, ""), "\n")
			require.Len(t, lines, len(tt.errs), "%q", lines)
			for i, want := range tt.errs {
				require.Contains(t, lines[i], want)
			}
		})
	}
}

// TestANamedFileIsNeverLeftOut, even where its folder would do without it.
func TestANamedFileIsNeverLeftOut(t *testing.T) {
	root := repository(t, map[string]string{"kustomization.yaml": "patches: [{path: vpa.yaml}]\n", "vpa.yaml": plainVPA, "values.yaml": "a: b\n"})
	set, err := Files{Paths: []string{filepath.Join(root, "vpa.yaml"), filepath.Join(root, "values.yaml")}, Ignore: []string{"vpa.yaml"}}.Read(nil)
	require.ErrorContains(t, err, "values.yaml:1: "+notManifest)
	require.Len(t, set.Documents, 1)
	require.Empty(t, set.LeftOut())
}

func TestPatternsThatMatchNothingAreRefused(t *testing.T) {
	for _, wrong := range []string{"", "/", "./"} {
		require.ErrorContains(t, CheckPattern(wrong), "matches nothing", "%q", wrong)
	}
	require.NoError(t, CheckPattern("[a"))
}

func TestKindsWithoutScaleAreKnownFromTheirDefinition(t *testing.T) {
	set, err := Read([]string{Stdin}, strings.NewReader(`
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {group: example.com, names: {kind: Bare}, versions: [{name: v1, served: true}, {name: v0, served: false, subresources: {scale: {}}}]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: b}, spec: {group: example.com, names: {kind: Scaled}, versions: [{name: v1, served: true}, {name: v2, served: true, subresources: {scale: {specReplicasPath: .spec.replicas}}}]}}
`))
	require.NoError(t, err)
	for kind, want := range map[string][2]bool{
		"Bare.example.com": {false, true}, "Scaled.example.com": {true, true}, "Other.example.com": {false, false},
		"Pod": {false, true}, "Job.batch": {true, true}, "Service.serving.knative.dev": {false, false}, "Ingress.networking.k8s.io": {false, true}, "Cluster.cluster.x-k8s.io": {false, false}, "Rollout.apps": {false, false},
	} {
		has, known := set.HasScale(schema.ParseGroupKind(kind))
		require.Equal(t, want, [2]bool{has, known}, kind)
	}
}

func TestWorkloadsInOldVersionsAreNamedAndCount(t *testing.T) {
	set, err := Read([]string{Stdin}, strings.NewReader("{apiVersion: extensions/v1beta1, kind: Deployment, metadata: {name: web}}\n---\n{apiVersion: batch/v1beta1, kind: CronJob, metadata: {name: c}}\n"))
	require.NoError(t, err)
	found, err := set.Workloads()
	require.EqualError(t, err, "standard input:3: CronJob default/c has apiVersion batch/v1beta1; write batch/v1\nstandard input:1: Deployment default/web has apiVersion extensions/v1beta1; write apps/v1")
	require.Len(t, found, 2)
}

func TestScaledObjectsAreTheHPAsOfKEDA(t *testing.T) {
	set, err := Read([]string{Stdin}, strings.NewReader(`
{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: a}, spec: {scaleTargetRef: {name: web}, triggers: [{type: cpu, metricType: AverageValue, metadata: {containerName: app}}, {type: memory, metadata: {type: Utilization}}, {type: kafka}]}}
---
{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: b}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}, triggers: [{type: cron}]}}
`))
	require.NoError(t, err)
	hpas, err := set.HPAs()
	require.NoError(t, err)
	require.Len(t, hpas, 2)
	require.Equal(t, "Deployment web", hpas[0].Spec.ScaleTargetRef.Kind+" "+hpas[0].Spec.ScaleTargetRef.Name)
	require.Equal(t, "app", hpas[0].Spec.Metrics[0].ContainerResource.Container)
	require.EqualValues(t, "AverageValue", hpas[0].Spec.Metrics[0].ContainerResource.Target.Type)
	require.EqualValues(t, "memory", hpas[0].Spec.Metrics[1].Resource.Name)
	require.EqualValues(t, "Utilization", hpas[0].Spec.Metrics[1].Resource.Target.Type)
	require.Equal(t, "StatefulSet db", hpas[1].Spec.ScaleTargetRef.Kind+" "+hpas[1].Spec.ScaleTargetRef.Name)
	require.Len(t, hpas[1].Spec.Metrics, 1)
	require.Nil(t, hpas[1].Spec.Metrics[0].Resource)
}
