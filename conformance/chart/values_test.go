package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celvpa/celvpa/controllers/facts"
)

// leaves lists the values of values.yaml that are not themselves maps of values.
func leaves(values map[string]any, path ...string) (out [][]string) {
	for _, key := range sorted(values) {
		at := append(append([]string{}, path...), key)
		inner, isMap := values[key].(map[string]any)
		open := len(inner) == 0 || freeForm[strings.Join(at, ".")] || key == "resources"
		if isMap && !open {
			out = append(out, leaves(inner, at...)...)
		} else {
			out = append(out, at)
		}
	}
	return out
}

// freeForm are the values that are objects of Kubernetes, and as such a single value.
var freeForm = map[string]bool{"podSecurityContext": true, "containerSecurityContext": true}

func defaults(t *testing.T) map[string]any {
	t.Helper()
	dir, err := Dir()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	require.NoError(t, err)
	return parse(t, string(text))
}

// TestEveryValueChangesWhatIsRendered takes each value out of each case that sets it: at least once that must change something.
func TestEveryValueChangesWhatIsRendered(t *testing.T) {
	matters := map[string]bool{}
	for _, values := range cases(t) {
		whole := render(t, values)
		for _, path := range leaves(defaults(t)) {
			if _, set, _ := unstructured.NestedFieldNoCopy(values, path...); !set || matters[strings.Join(path, ".")] {
				continue
			}
			without := runtime.DeepCopyJSON(jsonValues(t, values))
			unstructured.RemoveNestedField(without, path...)
			rest, err := tryRender(without)
			// Without it, values may contradict each other: then it matters, too.
			matters[strings.Join(path, ".")] = err != nil || !maps.Equal(whole, rest)
		}
	}
	for _, path := range leaves(defaults(t)) {
		name := strings.Join(path, ".")
		require.True(t, matters[name], "no case of testdata/values sets %s so that anything changes", name)
	}
}

func jsonValues(t *testing.T, values map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(values)
	require.NoError(t, err)
	out := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// TestTheSchemaHasTheValuesOfTheChart, no more and no fewer, and the feature gates that celvpa has.
func TestTheSchemaHasTheValuesOfTheChart(t *testing.T) {
	dir, err := Dir()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "values.schema.json"))
	require.NoError(t, err)
	schema := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &schema))
	definitions := schema["$defs"].(map[string]any)
	var properties func(node map[string]any, path ...string) []string
	properties = func(node map[string]any, path ...string) (out []string) {
		if ref, ok := node["$ref"].(string); ok {
			node = definitions[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		}
		inner, ok := node["properties"].(map[string]any)
		name := strings.Join(path, ".")
		if !ok || name == "featureGates" || strings.HasSuffix(name, "r.image") { // of a component
			return []string{name}
		}
		require.Equal(t, false, node["additionalProperties"], "%s takes any value", name)
		for _, key := range sorted(inner) {
			out = append(out, properties(inner[key].(map[string]any), append(append([]string{}, path...), key)...)...)
		}
		return out
	}
	var want []string
	for _, path := range leaves(defaults(t)) {
		want = append(want, strings.Join(path, "."))
	}
	require.ElementsMatch(t, append(want, "global"), properties(schema))
	gates, _, _ := unstructured.NestedMap(schema, "properties", "featureGates", "properties")
	require.ElementsMatch(t, sorted(facts.Gates), sorted(gates))
}

// valuesOf are the keys of components in the values, by their names.
var valuesOf = map[string]string{"recommender": "recommender", "updater": "updater", "admission-controller": "admissionController"}

// argsOf are the arguments that the chart gives the components, by their names.
func argsOf(t *testing.T, files map[string]string) map[string][]string {
	t.Helper()
	objects, err := Objects(map[string]string{"deployments.yaml": files["deployments.yaml"]})
	require.NoError(t, err)
	out := map[string][]string{}
	for _, o := range objects {
		d := &appsv1.Deployment{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d))
		c := d.Spec.Template.Spec.Containers[0]
		out[c.Name] = c.Args
	}
	return out
}

// withArg adds to the extraArgs of a component.
func withArg(t *testing.T, values map[string]any, component, arg string) map[string]any {
	t.Helper()
	values = jsonValues(t, values)
	of, _ := values[valuesOf[component]].(map[string]any)
	if of == nil {
		of = map[string]any{}
		values[valuesOf[component]] = of
	}
	args, _ := of["extraArgs"].([]any)
	of["extraArgs"] = append(args, arg)
	return values
}

// replaceable are the flags that the chart sets, and on whose values nothing else of it depends.
var replaceable = []string{
	"v", "logging-format", "feature-gates", "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period",
	"eviction-rate-limit", "eviction-rate-burst", "first-cycle-evictions", "updater-interval", "reload-cert",
	"use-external-metrics", "external-metrics-cpu-metric", "kube-api-qps", // extraArgs of the cases
}

// TestFlagsOfTheChartAreRefusedOrReplaceable: extraArgs come last, so a flag that the chart sets would win over the values.
func TestFlagsOfTheChartAreRefusedOrReplaceable(t *testing.T) {
	seen := map[string]bool{}
	all := cases(t)
	for _, name := range sorted(all) {
		for component, args := range argsOf(t, render(t, all[name])) {
			for _, arg := range args[1:] {
				flag, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
				if seen[component+flag] {
					continue
				}
				seen[component+flag] = true
				_, err := tryRender(withArg(t, all[name], component, "--"+flag+"=other"))
				if slices.Contains(replaceable, flag) {
					require.NoError(t, err, "%s: %s", name, flag)
				} else {
					require.ErrorContains(t, err, ".extraArgs has --"+flag+", which the rest of the chart would contradict: ", "%s of %s", flag, component)
				}
			}
		}
	}
	require.True(t, seen["admission-controllerwebhook-probe-interval"] && seen["admission-controllertls-cert-file"] && seen["updaterrules-dir"])
}

// TestFlagsThatMoreDependsOnAreRefused, with what to do.
func TestFlagsThatMoreDependsOnAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"{updater: {extraArgs: [--ignored-vpa-object-namespaces=a]}}":                                                            "set ignoredVpaObjectNamespaces",
		"{recommender: {extraArgs: [--rules-dir=/mine]}, rulesConfigMap: a}":                                                     "recommender.extraArgs has --rules-dir, which the rest of the chart would contradict: leave it out",
		"{recommender: {extraArgs: ['--secure-metrics-address=:8443']}, podMonitor: {enabled: true}}":                            "set podMonitor.enabled and serviceMonitor.enabled to false",
		"{recommender: {extraArgs: ['--secure-metrics-address=:8443']}, serviceMonitor: {enabled: true}}":                        "set podMonitor.enabled and serviceMonitor.enabled to false",
		"{updater: {extraArgs: [--admission-controller-status-lease-name=a]}}":                                                   "updater.extraArgs has --admission-controller-status-lease-name, which the rest of the chart would contradict: leave it out",
		"{updater: {extraArgs: [--admission-controller-status-lease-namespace=a]}}":                                              "--admission-controller-status-lease-namespace, which the rest of the chart would contradict: leave it out",
		"{admissionController: {extraArgs: [--webhook-service=other]}}":                                                          "admissionController.extraArgs has --webhook-service, which the rest of the chart would contradict: set admissionController.service.name",
		"{admissionController: {extraArgs: [--webhook_service=other]}}":                                                          "set admissionController.service.name",
		"{admissionController: {extraArgs: [--shutdown-delay-duration=1m]}}":                                                     "set admissionController.shutdownDelaySeconds",
		"{admissionController: {extraArgs: [--webhook-timeout-seconds=9]}}":                                                      "set admissionController.mutatingWebhookConfiguration.timeoutSeconds",
		"{admissionController: {extraArgs: [--webhook-probe-interval=1m], mutatingWebhookConfiguration: {failurePolicy: Fail}}}": "--webhook-probe-interval, which the rest of the chart would contradict: leave it out",
		"{admissionController: {extraArgs: [--tls-cert-file=/a], tls: {secretName: a}}}":                                         "set admissionController.tls.certKey",
		"{admissionController: {extraArgs: [--tls-private-key=/a], tls: {secretName: a}}}":                                       "set admissionController.tls.keyKey",
		"{admissionController: {extraArgs: [--client-ca-file=/a], tls: {secretName: a}}}":                                        "set admissionController.tls.caKey",
		"{admissionController: {extraArgs: [--tls-cert-file=/a], certManager: {enabled: true}}}":                                 "--tls-cert-file, which the rest of the chart would contradict: leave it out",
		"{admissionController: {extraArgs: [--register-by-url], certManager: {enabled: true}}}":                                  "--register-by-url, which the rest of the chart would contradict: leave it out",
	} {
		refused(t, values, want)
	}
}

// TestFlagsThatContradictNothingAreGiven, last, because other values leave room for them.
func TestFlagsThatContradictNothingAreGiven(t *testing.T) {
	for _, c := range []struct{ component, arg, values string }{
		{"recommender", "--rules-dir=/mine", "{}"},
		{"recommender", "--secure-metrics-address=:8443", "{}"},
		{"updater", "--admission-controller-status-lease-namespace=kube-system", "{admissionController: {enabled: false}}"},
		{"admission-controller", "--tls-cert-file=/mine/tls.crt", "{}"},
		{"admission-controller", "--register-by-url", "{}"},
		{"admission-controller", "--webhook-probe-interval=1m", "{}"},
	} {
		args := argsOf(t, render(t, withArg(t, parse(t, c.values), c.component, c.arg)))[c.component]
		require.Equal(t, c.arg, args[len(args)-1])
	}
}

// TestUnderscoresOfFlagsAreDashes, where the chart looks for flags.
func TestUnderscoresOfFlagsAreDashes(t *testing.T) {
	require.Contains(t, render(t, withArg(t, map[string]any{}, "recommender", "--use_external_metrics"))["rbac.yaml"], "external.metrics.k8s.io")
	require.Contains(t, argsOf(t, render(t, withArg(t, map[string]any{}, "updater", "--updater_interval=30s")))["admission-controller"], "--updater_interval=30s")
}

// TestNamesThatYAMLTakesForNumbersOrBooleansStayTexts: API servers refuse a label, a name or a namespace that is not a text.
func TestNamesThatYAMLTakesForNumbersOrBooleansStayTexts(t *testing.T) {
	const word = "word" // in each place for a name, and in no other one
	all := `nameOverride: word
prometheusRule: {enabled: true}
serviceMonitor: {enabled: true}
dashboards: {enabled: true}
networkPolicy: {enabled: true}
recommender: {priorityClassName: word, serviceAccount: {name: word}, leaderElection: {resourceNamespace: word, resourceName: word}}
`
	for _, more := range []string{
		"{fullnameOverride: celvpa, vpaObjectNamespace: word, rulesConfigMap: word, admissionController: {tls: {secretName: word, caKey: word, certKey: word, keyKey: word}}}",
		"{fullnameOverride: celvpa, ignoredVpaObjectNamespaces: [word], rules: {a.yaml: x}, admissionController: {certManager: {enabled: true, createSelfSignedIssuer: {enabled: false}, issuerRef: {name: word}}}}",
		"{fullnameOverride: word, admissionController: {registerWebhook: false, certManager: {enabled: true}, service: {name: word}}}",
	} {
		values := parse(t, all)
		merge(values, parse(t, more))
		text, err := json.Marshal(values)
		require.NoError(t, err)
		for _, name := range []string{"123", "1e3", "0o17", "2026-01-01", "true", "no", "null"} {
			if values["fullnameOverride"] == word && name[0] <= '9' {
				continue // no name of a Service by the schema of the chart
			}
			require.Equal(t, strings.ReplaceAll(objectsOf(t, word, string(text)), word, name), objectsOf(t, name, strings.ReplaceAll(string(text), word, name)), "%s: %s", name, more)
		}
	}
}

// objectsOf renders a release in a namespace of the same name, without the CRDs, as JSON.
func objectsOf(t *testing.T, name, values string) string {
	t.Helper()
	loaded, err := loadOnce()
	require.NoError(t, err)
	files, err := Render(loaded, Release{Name: name, Namespace: name}, parse(t, values))
	require.NoError(t, err)
	objects, err := Objects(files)
	require.NoError(t, err)
	var out strings.Builder
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			continue
		}
		text, err := o.MarshalJSON()
		require.NoError(t, err)
		out.Write(text)
	}
	return out.String()
}

// TestNamesThatServicesCannotHaveAreRefused before anything is installed.
func TestNamesThatServicesCannotHaveAreRefused(t *testing.T) {
	loaded, err := loadOnce()
	require.NoError(t, err)
	try := func(name, values, kubernetes string) error {
		cluster := common.DefaultCapabilities.Copy()
		cluster.KubeVersion = common.KubeVersion{Version: kubernetes}
		all, err := util.ToRenderValues(loaded, parse(t, values), common.ReleaseOptions{Name: name, Namespace: "celvpa-system", IsInstall: true}, cluster)
		require.NoError(t, err)
		_, err = engine.Render(loaded, all)
		return err
	}
	for name, c := range map[string]struct{ values, kubernetes string }{
		"123":      {"{}", "v1.35.2"},
		"prod.vpa": {"{explain: {enabled: false}}", "v1.37.1"},
		"1-celvpa": {"{explain: {enabled: false}, admissionController: {enabled: false}, serviceMonitor: {enabled: true}}", "v1.34.0"},
	} {
		err := try(name, c.values, c.kubernetes)
		require.ErrorContains(t, err, "the names of this release begin with "+name, name)
		require.ErrorContains(t, err, "set fullnameOverride, for example to celvpa", name)
		require.NoError(t, try(name, "fullnameOverride: celvpa", c.kubernetes), name)
	}
	require.NoError(t, try("123", "{}", "v1.36.0-gke.1"))
	require.NoError(t, try("123", "{explain: {enabled: false}, admissionController: {service: {name: webhook}}}", "v1.35.2"), "no Service has a name of the release's")
}
