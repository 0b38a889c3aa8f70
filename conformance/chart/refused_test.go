package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheSchemaSaysWhereATypoIs: what helm prints for values that the schema refuses.
func TestTheSchemaSaysWhereATypoIs(t *testing.T) {
	for values, want := range map[string]string{
		"recomender: {enabled: true}":                    "additional properties 'recomender' not allowed",
		"recommender: {replicaCount: 2}":                 "at '/recommender': additional properties 'replicaCount' not allowed",
		"updater: {podDisruptionBudget: {enable: true}}": "at '/updater/podDisruptionBudget': additional properties 'enable' not allowed",
		"updater: {replicas: two}":                       "at '/updater/replicas': got string, want integer",
		"recommender: {extraArgs: {v: 4}}":               "at '/recommender/extraArgs': got object, want array",
		"recommender: {extraArgs: [v=4]}":                "at '/recommender/extraArgs/0': 'v=4' does not match pattern '^--[a-z]'",
		"featureGates: {Inplace: true}":                  "at '/featureGates': additional properties 'Inplace' not allowed",
		"updater: {evictionRateLimit: -1}":               "at '/updater/evictionRateLimit': minimum: got -1, want 0",
		"logFormat: jsn":                                 "at '/logFormat': value must be one of 'text', 'json'",
		"image: {digest: sha256:abc}":                    "at '/image/digest': 'sha256:abc' does not match pattern",
		"updater: {leaderElection: {leaseDuration: 15}}": "at '/updater/leaderElection/leaseDuration': got number, want string",
		"rules: {mine: x}":                               "at '/rules': additional properties 'mine' not allowed",
		"overlays: [{name: a}]":                          "at '/overlays/0': missing property 'spec'",
		"admissionController: {mutatingWebhookConfiguration: {failurePolicy: fail}}": "at '/admissionController/mutatingWebhookConfiguration/failurePolicy': value must be one of 'Ignore', 'Fail'",
		"admissionController: {mutatingWebhookConfiguration: {timeoutSeconds: 31}}":  "at '/admissionController/mutatingWebhookConfiguration/timeoutSeconds': maximum: got 31, want 30",
	} {
		refused(t, values, want)
	}
}

// TestValuesThatContradictEachOtherAreRefused, with what to do.
func TestValuesThatContradictEachOtherAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"{recommender: {enabled: false}, updater: {enabled: false}, admissionController: {enabled: false}}":                   "are all disabled: enable at least one",
		"{vpaObjectNamespace: a, ignoredVpaObjectNamespaces: [b]}":                                                            "vpaObjectNamespace and ignoredVpaObjectNamespaces exclude each other: set one",
		"{rulesConfigMap: a, rules: {a.yaml: b}}":                                                                             "rulesConfigMap replaces rules and overlays",
		"{podMonitor: {enabled: true}, serviceMonitor: {enabled: true}}":                                                      "podMonitor and serviceMonitor are both enabled",
		"{explain: {port: 8943}}":                                                                                             "explain.port is 8943, which celvpa's metrics or its webhook use already: choose another",
		"{updater: {serviceAccount: {create: false}}}":                                                                        "set updater.serviceAccount.name to the ServiceAccount to use",
		"{updater: {leaderElection: {enabled: false}}}":                                                                       "updater.leaderElection.enabled is false with 2 replicas, which would all act at once: enable it, or set updater.replicas to 1",
		"{updater: {podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}}}":                                              "updater.podDisruptionBudget has both minAvailable and maxUnavailable: set one",
		"{updater: {podDisruptionBudget: {minAvailable: 2}}}":                                                                 "updater.podDisruptionBudget.minAvailable is 2 of 2 replicas, so no node with such a pod could be drained",
		"{updater: {podDisruptionBudget: {minAvailable: 100%}}}":                                                              "updater.podDisruptionBudget.minAvailable is 100% of 2 replicas",
		"{admissionController: {certManager: {enabled: true}, tls: {secretName: a}}}":                                         "admissionController.certManager.enabled and admissionController.tls.secretName exclude each other: set one",
		"{admissionController: {certManager: {enabled: true, createSelfSignedIssuer: {enabled: false}}}}":                     "set admissionController.certManager.issuerRef.name to an issuer of yours",
		"{admissionController: {certManager: {enabled: true, renewBefore: 16h30m}}}":                                          "renewBefore is 16h30m, less than a tenth of duration 168h, so alert CelvpaCertificateExpiresSoon would fire before each renewal",
		"{admissionController: {certManager: {enabled: true, duration: 2160h, renewBefore: 215h59m59s}}}":                     "leave renewBefore out for a third of duration",
		"{admissionController: {mutatingWebhookConfiguration: {objectSelector: {matchLabels: {a: b}}}}}":                      "need admissionController.registerWebhook: false",
		"{admissionController: {registerWebhook: false}}":                                                                     "so API servers must learn the webhook's CA elsewhere: enable admissionController.certManager, or set admissionController.tls.secretName",
		"{admissionController: {registerWebhook: false, tls: {secretName: a}}}":                                               "so API servers must learn the webhook's CA elsewhere",
		"{vpaObjectNamespace: celvpa-system, admissionController: {mutatingWebhookConfiguration: {failurePolicy: Fail}}}":     `vpaObjectNamespace is the namespace of the release, "celvpa-system", and the failure policy is Fail`,
		"{updater: {replicas: 1, extraArgs: [--leader-elect]}}":                                                               "updater.extraArgs has --leader-elect, which the rest of the chart would contradict: set updater.leaderElection.enabled",
		"{updater: {extraArgs: [--leader-elect=false]}}":                                                                      "set updater.leaderElection.enabled",
		"{recommender: {extraArgs: [--leader_elect_resource_name=a]}}":                                                        "set recommender.leaderElection.resourceName",
		"{recommender: {extraArgs: [--v=2, --leader-elect-resource-namespace=a]}}":                                            "set recommender.leaderElection.resourceNamespace",
		"{admissionController: {extraArgs: [--status-lease-name=a]}}":                                                         "admissionController.extraArgs has --status-lease-name, which the rest of the chart would contradict: leave it out",
		"{admissionController: {extraArgs: [--webhook-failure-policy-fail]}}":                                                 "set admissionController.mutatingWebhookConfiguration.failurePolicy",
		"{admissionController: {extraArgs: [--register-webhook=false]}}":                                                      "set admissionController.registerWebhook",
		"{admissionController: {extraArgs: ['--port=8443']}}":                                                                 "set admissionController.port",
		"{recommender: {extraArgs: ['--address=:8080']}}":                                                                     "recommender.extraArgs has --address, which the rest of the chart would contradict: leave it out",
		"{recommender: {extraArgs: ['--explain-address=:80']}}":                                                               "set explain.port",
		"{updater: {extraArgs: [--vpa-object-namespace=a]}}":                                                                  "set vpaObjectNamespace",
		"{admissionController: {certManager: {enabled: true, privateKey: {algorithm: RSA, size: 256}}}}":                      "admissionController.certManager.privateKey.size is 256, and cert-manager takes RSA keys of 2048 or more",
		"{updater: {podDisruptionBudget: {minAvailable: 51%}}}":                                                               "updater.podDisruptionBudget.minAvailable is 51% of 2 replicas",
		"{updater: {replicas: 1, podDisruptionBudget: {minAvailable: 50%}}}":                                                  "updater.podDisruptionBudget.minAvailable is 50% of 1 replicas",
		"{updater: {podDisruptionBudget: {maxUnavailable: 0}}}":                                                               "updater.podDisruptionBudget.maxUnavailable is 0, so no node with such a pod could be drained",
		"{updater: {podDisruptionBudget: {maxUnavailable: 0%}}}":                                                              "updater.podDisruptionBudget.maxUnavailable is 0%",
		"{admissionController: {replicas: 0, mutatingWebhookConfiguration: {failurePolicy: Fail}}}":                           "admissionController.replicas is 0 and the failure policy is Fail, so API servers would refuse pods for good",
		"{admissionController: {port: 8944}}":                                                                                 "admissionController.port is 8944, at which the admission controller serves metrics",
		"{fullnameOverride: a2345678901234567890123456789012345}":                                                             "the names of this release begin with a2345678901234567890123456789012345, 35 characters, so Services of the admission controller would have more than the 63",
		"{fullnameOverride: a2345678901234567890123456789012345, explain: {enabled: false}, serviceMonitor: {enabled: true}}": "set fullnameOverride to a name of at most 34",
	} {
		refused(t, values, want)
	}
}

func refused(t *testing.T, values, want string) {
	t.Helper()
	_, err := tryRender(parse(t, values))
	require.ErrorContains(t, err, want, values)
}
