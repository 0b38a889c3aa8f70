package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

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
