package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/harness"
)

// read returns a file of the repository.
func read(t *testing.T, path ...string) string {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	require.NoError(t, err)
	return string(text)
}

// TestWhatIsMadeFromTheChartIsUpToDate: run make manifests after a change.
func TestWhatIsMadeFromTheChartIsUpToDate(t *testing.T) {
	files, err := Generated()
	require.NoError(t, err)
	for path, want := range files {
		require.Equal(t, want, read(t, path), path)
	}
	root, err := harness.Root()
	require.NoError(t, err)
	for _, folder := range []string{"deploy/kustomize/base", "deploy/manifests"} {
		there, err := filepath.Glob(filepath.Join(root, folder, "*"))
		require.NoError(t, err)
		for _, file := range there {
			path, err := filepath.Rel(root, file)
			require.NoError(t, err)
			require.Contains(t, files, path, "nothing makes this file any more: delete it")
		}
	}
}

// TestTheKustomizeBaseHasThePlainManifests, with any namespace.
func TestTheKustomizeBaseHasThePlainManifests(t *testing.T) {
	root, err := harness.Root()
	require.NoError(t, err)
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "deploy", "kustomize", "base"))
	require.NoError(t, err)
	text, err := built.AsYaml()
	require.NoError(t, err)
	require.Equal(t, byName(t, read(t, "deploy", "manifests", "celvpa.yaml")), byName(t, string(text)))
	for name := range byName(t, string(text)) {
		require.NotContains(t, name, "helm")
	}
}

// TestUninstallingByLabelLeavesNothing but the namespace and the CRDs: docs/install.md deletes the rest by app.kubernetes.io/component.
func TestUninstallingByLabelLeavesNothing(t *testing.T) {
	for id, o := range byName(t, read(t, "deploy", "manifests", "celvpa.yaml")) {
		kept := o.GetKind() == "Namespace" || o.GetKind() == "CustomResourceDefinition"
		require.Equal(t, kept, o.GetLabels()["app.kubernetes.io/component"] == "", id)
	}
}

func byName(t *testing.T, text string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := harness.Decode([]byte(text))
	require.NoError(t, err)
	out := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		id := fmt.Sprintf("%s %s/%s", o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName())
		require.NotContains(t, out, id, "twice")
		out[id] = o
	}
	return out
}

// TestNamesOfServicesFit: the longest ones that the chart takes have at most 63 characters.
func TestNamesOfServicesFit(t *testing.T) {
	for _, values := range []string{
		"{fullnameOverride: a234567890123456789012345678901234, serviceMonitor: {enabled: true}}",
		"{fullnameOverride: a234567890123456789012345678901234567890, explain: {enabled: false}}",
		"{fullnameOverride: a234567890123456789012345678901234567890, admissionController: {enabled: false}, serviceMonitor: {enabled: true}}",
	} {
		objects, err := Objects(render(t, parse(t, values)))
		require.NoError(t, err)
		for _, o := range objects {
			require.True(t, o.GetKind() != "Service" || len(o.GetName()) <= 63, "%s: %s", values, o.GetName())
		}
	}
}

// TestTheNotesOfHelm3SayToDeleteTheWebhookFirst, because it deletes kinds last that it does not order; Helm 4 orders this one.
func TestTheNotesOfHelm3SayToDeleteTheWebhookFirst(t *testing.T) {
	loaded, err := loadOnce()
	require.NoError(t, err)
	for version, want := range map[string]bool{"v3.17.0": true, "v3.19.4+ga": true, "v4.0.0": false, "v4.3": false} {
		helm := *common.DefaultCapabilities
		helm.HelmVersion.Version = version
		values, err := util.ToRenderValues(loaded, nil, common.ReleaseOptions{Name: release.Name, Namespace: release.Namespace}, &helm)
		require.NoError(t, err)
		files, err := engine.Render(loaded, values)
		require.NoError(t, err)
		require.Equal(t, want, strings.Contains(files["celvpa/templates/NOTES.txt"], "kubectl delete mutatingwebhookconfiguration vpa-webhook-config"), version)
	}
}

// TestTheCRDsOfTheChartAreTheShippedOnes, besides helm's labels and the annotation that keeps them.
func TestTheCRDsOfTheChartAreTheShippedOnes(t *testing.T) {
	root, err := harness.Root()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(root, "crds", "manifests", "*.yaml"))
	require.NoError(t, err)
	shipped := ""
	for _, file := range files {
		text := read(t, "crds", "manifests", filepath.Base(file))
		require.Equal(t, text, read(t, "deploy", "chart", "celvpa", "files", "crds", filepath.Base(file)), "run make generate")
		shipped += "---\n" + text
	}
	for keep, annotation := range map[bool]string{true: "keep", false: ""} {
		rendered := byName(t, render(t, map[string]any{"crds": map[string]any{"keep": keep}})["crds.yaml"])
		for id, want := range byName(t, shipped) {
			got := rendered[id]
			require.NotNil(t, got, id)
			require.Equal(t, annotation, got.GetAnnotations()["helm.sh/resource-policy"], id)
			require.Equal(t, "Helm", got.GetLabels()["app.kubernetes.io/managed-by"], id)
			unstructured.RemoveNestedField(got.Object, "metadata", "annotations", "helm.sh/resource-policy")
			got.SetLabels(want.GetLabels())
			require.Equal(t, want, got, id)
		}
	}
	require.Empty(t, strings.TrimSpace(render(t, map[string]any{"crds": map[string]any{"enabled": false}})["crds.yaml"]))
}

// TestTheChartHasTheVersionOfTheProgram, by which it finds its image.
func TestTheChartHasTheVersionOfTheProgram(t *testing.T) {
	loaded, err := Load()
	require.NoError(t, err)
	version := strings.TrimSpace(read(t, "cmd", "celvpa", "version.txt"))
	require.Equal(t, version, loaded.AppVersion())
	require.Equal(t, strings.TrimPrefix(version, "v"), loaded.Metadata.Version)
}

// TestTheRolesOfTheChartAreThoseOfTheDocs: deploy/chart/celvpa/files/rbac is the source of both.
func TestTheRolesOfTheChartAreThoseOfTheDocs(t *testing.T) {
	for file, page := range map[string]string{
		"recommender": "recommender", "leader-election": "recommender", "updater": "updater", "updater-lease": "updater",
		"admission-controller": "admission", "admission-controller-lease": "admission",
		"admission-controller-probe": "admission",
	} {
		rules := read(t, "deploy", "chart", "celvpa", "files", "rbac", file+".yaml")
		require.Contains(t, read(t, "docs", page+".md"), "\nrules:\n"+rules, "docs/%s.md and files/rbac/%s.yaml differ", page, file)
	}
}

// TestTheValuesForSecureMetrics set the flag of each component, and add what finds the port and what opens it.
func TestTheValuesForSecureMetrics(t *testing.T) {
	values := parse(t, read(t, "deploy", "monitoring", "secure-metrics-values.yaml"))
	objects, err := Objects(render(t, values))
	require.NoError(t, err)
	flags, added := 0, []string{}
	for _, o := range objects {
		text, err := o.MarshalJSON()
		require.NoError(t, err)
		flags += strings.Count(string(text), `"--secure-metrics-address=:8443"`)
		if o.GetName() == "celvpa-secure-metrics" {
			added = append(added, o.GetKind())
		}
	}
	require.Equal(t, 3, flags)
	require.ElementsMatch(t, []string{"Service", "ServiceMonitor", "NetworkPolicy"}, added)
	values["serviceMonitor"] = map[string]any{"enabled": true}
	_, err = tryRender(values)
	require.ErrorContains(t, err, "secure-metrics-address", "beside a monitor of the other port")
}

// TestEveryCombinationOfSwitchesRendersValidObjects: no field is unknown, no name is used twice, and each pod has what it refers to.
func TestEveryCombinationOfSwitchesRendersValidObjects(t *testing.T) {
	switches := []string{
		"recommender: {enabled: false}", "updater: {enabled: false}", "admissionController: {enabled: false}",
		"{recommender: {replicas: 1}, updater: {replicas: 1}, rules: {a.yaml: x}}", "{rbac: {create: false}, networkPolicy: {enabled: true}}",
		"vpaObjectNamespace: shop", "admissionController: {mutatingWebhookConfiguration: {failurePolicy: Fail}}",
		"admissionController: {registerWebhook: false, certManager: {enabled: true}}",
	}
	seen := map[string]bool{}
	for combination := range 1 << len(switches) {
		values := map[string]any{}
		for i, on := range switches {
			if combination&(1<<i) != 0 {
				merge(values, parse(t, on))
			}
		}
		if combination&7 == 7 {
			continue // all disabled, which is refused
		}
		objects, err := Objects(render(t, values))
		require.NoError(t, err, values)
		names := map[string]bool{}
		for _, o := range objects {
			names[o.GetKind()+" "+o.GetName()] = true
		}
		require.Len(t, names, len(objects), "%v", values)
		for _, o := range objects {
			text, err := o.MarshalJSON()
			require.NoError(t, err)
			if !seen[string(text)] {
				seen[string(text)] = true
				strict(t, o, text)
			}
			if o.GetKind() != "Deployment" {
				continue
			}
			d := &appsv1.Deployment{}
			require.NoError(t, scheme.Scheme.Convert(o, d, nil))
			require.True(t, names["ServiceAccount "+d.Spec.Template.Spec.ServiceAccountName])
			for _, v := range d.Spec.Template.Spec.Volumes {
				require.True(t, v.ConfigMap == nil || names["ConfigMap "+v.ConfigMap.Name])
			}
		}
	}
	require.Greater(t, len(seen), 50)
}

// strict refuses fields that the type does not have, as API servers do when they are asked to.
func strict(t *testing.T, o *unstructured.Unstructured, text []byte) {
	t.Helper()
	typed, err := scheme.Scheme.New(o.GroupVersionKind())
	if err != nil {
		return // cert-manager's kinds and CRDs
	}
	require.NoError(t, yaml.UnmarshalStrict(text, typed), string(text))
}

func merge(into, from map[string]any) {
	for key, value := range from {
		inner, isMap := value.(map[string]any)
		if there, ok := into[key].(map[string]any); ok && isMap {
			merge(there, inner)
		} else {
			into[key] = value
		}
	}
}

// TestTheChartHasTheAlertsAndDashboardsOfDeployMonitoring: run make generate after a change.
func TestTheChartHasTheAlertsAndDashboardsOfDeployMonitoring(t *testing.T) {
	enabled := map[string]any{"enabled": true}
	rendered := byName(t, render(t, map[string]any{"prometheusRule": enabled, "dashboards": enabled})["alertsanddashboards.yaml"])

	rule := rendered["PrometheusRule.monitoring.coreos.com celvpa-system/celvpa"]
	require.NotNil(t, rule)
	want := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "deploy", "monitoring", "prometheusrule.yaml")), &want.Object))
	require.Equal(t, want.Object["spec"], rule.Object["spec"])

	root, err := harness.Root()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(root, "deploy", "monitoring", "dashboards", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(file)
		object := rendered["ConfigMap celvpa-system/celvpa-dashboard-"+strings.TrimSuffix(name, ".json")]
		require.NotNil(t, object, name)
		require.Equal(t, map[string]any{"celvpa-" + name: read(t, "deploy", "monitoring", "dashboards", name)}, object.Object["data"])
		require.Equal(t, "1", object.GetLabels()["grafana_dashboard"])
	}
	require.Len(t, rendered, 1+len(files))
}
