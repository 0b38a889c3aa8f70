package chart

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// TestTheChartRefusesToRunBesideAnotherVPA: what it finds by lookup, in a cluster with these objects.
func TestTheChartRefusesToRunBesideAnotherVPA(t *testing.T) {
	deployment := func(namespace, name, image, more string) string {
		return "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: " + namespace + ", name: " + name + more + "}, spec: {replicas: 1, template: {spec: {containers: [{name: c, image: '" + image + "', args: [updater]}]}}}}\n"
	}
	webhook := func(configuration, webhook string) string {
		return "---\n{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: " + configuration + "}, webhooks: [{name: other.example}, {name: " + webhook + ", failurePolicy: Fail}]}\n"
	}
	of := func(namespace, service, policy, more string) string {
		return "---\n{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: vpa-webhook-config" + more + "}, webhooks: [{name: vpa.k8s.io, failurePolicy: " + policy + ", clientConfig: {service: {namespace: " + namespace + ", name: " + service + "}}}]}\n"
	}
	const ofThisRelease = ", labels: {app.kubernetes.io/component: updater}, annotations: {meta.helm.sh/release-name: celvpa, meta.helm.sh/release-namespace: celvpa-system}"
	upstreams := webhook("vpa-vertical-pod-autoscaler-webhook-config", "vpa.k8s.io")
	for name, c := range map[string]struct{ cluster, values, want string }{
		"nothing else":                  {"", "{}", ""},
		"upstream's updater":            {deployment("vpa", "u", "registry:5000/vpa-updater:1.8.1@sha256:0", ""), "{}", "Deployment vpa/u (vpa-updater) already runs a VPA updater"},
		"an updater that is not wanted": {deployment("vpa", "u", "vpa-updater:1.8.1", ""), "{updater: {enabled: false}}", ""},
		"the updater of this release":   {deployment("celvpa-system", "celvpa-updater", "celvpa", ofThisRelease), "{}", ""},
		"the updater of another celvpa": {deployment("other", "u", "celvpa", ", labels: {app.kubernetes.io/component: updater}"), "{}", "Deployment other/u (celvpa) already runs a VPA updater"},
		"the webhook of upstream's chart": {upstreams, "{}",
			"MutatingWebhookConfiguration vpa-vertical-pod-autoscaler-webhook-config already sends new pods to a VPA's webhook, with failure policy Fail"},
		"a webhook that stays":    {upstreams, "{admissionController: {enabled: false}}", ""},
		"a webhook that is meant": {upstreams, "{allowOtherVPA: true}", ""},
		"upstream's own webhook, which refuses pods when nothing answers": {of("kube-system", "vpa-webhook", "Fail", ""), "{}",
			"MutatingWebhookConfiguration vpa-webhook-config sends new pods to another VPA's webhook with failure policy Fail"},
		"the same by URL": {webhook("vpa-webhook-config", "vpa.k8s.io"), "{}",
			"delete it first (docs/migrate.md), with kubectl delete mutatingwebhookconfiguration vpa-webhook-config"},
		"the same, which stays":             {of("kube-system", "vpa-webhook", "Fail", ""), "{admissionController: {enabled: false}}", ""},
		"a webhook that is taken over":      {of("kube-system", "vpa-webhook", "Ignore", ""), "{}", ""},
		"a webhook of the plain manifests":  {of("celvpa-system", "celvpa-webhook", "Fail", ""), "{}", ""},
		"this release's, and a new Service": {of("celvpa-system", "old", "Fail", ofThisRelease), "{}", ""},
		"a webhook of something else":       {webhook("mesh", "mesh.example"), "{}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := beside(t, c.cluster, c.values)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// beside renders the chart with values for a cluster that has objects.
func beside(t *testing.T, cluster, values string) error {
	t.Helper()
	objects, err := harness.Decode([]byte(cluster))
	require.NoError(t, err)
	there := inCluster{}
	for _, o := range objects {
		there = append(there, o)
	}
	loaded, err := loadOnce()
	require.NoError(t, err)
	options := common.ReleaseOptions{Name: release.Name, Namespace: release.Namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(loaded, parse(t, values), options, nil)
	require.NoError(t, err)
	_, err = engine.RenderWithClientProvider(loaded, all, there)
	return err
}

// TestComponentsThatServeDifferentVPAsDoNotShareALease: one of them would never lead.
func TestComponentsThatServeDifferentVPAsDoNotShareALease(t *testing.T) {
	const frugal = "{allowOtherVPA: true, updater: {enabled: false}, admissionController: {enabled: false}, recommender: {extraArgs: [--recommender_name=frugal]}}"
	for name, c := range map[string]struct{ namespace, args, values, refused string }{
		"a second recommender": {"celvpa-system", "", frugal, "recommender would share the lease celvpa-system/vpa-recommender-lease with Deployment celvpa-system/other, which serves other VPAs"},
		"with a lease of its own": {"celvpa-system", "",
			"{allowOtherVPA: true, updater: {enabled: false}, admissionController: {enabled: false}, recommender: {leaderElection: {resourceName: frugal}, extraArgs: [--recommender-name=frugal]}}", ""},
		"in another namespace":                             {"celvpa", "", frugal, ""},
		"in another namespace, with its lease in this one": {"celvpa", "--leader-elect-resource-namespace=celvpa-system", frugal, "set recommender.leaderElection.resourceName to a name that no other has"},
		"without leader election": {"celvpa-system", "",
			"{allowOtherVPA: true, updater: {enabled: false}, admissionController: {enabled: false}, recommender: {replicas: 1, extraArgs: [--recommender-name=frugal]}}", ""},
		"one of the same name, which stands by": {"celvpa-system", "--recommender-name=frugal", frugal, ""},
		"one that serves another namespace":     {"celvpa-system", "--vpa-object-namespace=a", "{allowOtherVPA: true, vpaObjectNamespace: b}", "with Deployment celvpa-system/other"},
		"one that serves the same":              {"celvpa-system", "--vpa-object-namespace=a", "{allowOtherVPA: true, vpaObjectNamespace: a}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			args := "recommender, --leader-elect, --leader-elect-resource-name=vpa-recommender-lease, --leader-elect-resource-namespace=$(NAMESPACE)"
			if c.args != "" {
				args += ", " + c.args
			}
			err := beside(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: "+c.namespace+", name: other, labels: {app.kubernetes.io/component: recommender}}, "+
				"spec: {replicas: 2, template: {spec: {containers: [{name: c, image: celvpa, args: ["+args+"]}]}}}}", c.values)
			if c.refused == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.refused)
			}
		})
	}
}

// inCluster are the objects that lookup finds.
type inCluster []runtime.Object

func (o inCluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	client := fake.NewSimpleDynamicClient(scheme.Scheme, o...)
	switch kind {
	case "Deployment":
		return client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}), true, nil
	default:
		return client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}), false, nil
	}
}

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

// TestTheUpdatersAccountChangesLittleOfAPod: the permission to patch annotations of pods is one to change their image, too.
func TestTheUpdatersAccountChangesLittleOfAPod(t *testing.T) {
	needsLab(t)
	s := newShell(t)
	s.cleanUp(t)
	s.run(t, "helm install celvpa deploy/chart/celvpa -n celvpa-system --create-namespace --take-ownership --force-conflicts")
	updater, err := harness.ConnectWith(lab.Kubeconfig, func(c *rest.Config) { c.Impersonate.UserName = "system:serviceaccount:celvpa-system:celvpa-updater" })
	require.NoError(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", GenerateName: "restricted-", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"mine": "1", "vpaUpdates": "old"},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m")}}}}
	require.NoError(t, cluster.Create(t.Context(), pod))
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.WithoutCancel(t.Context()), pod)) })
	patch := func(body string, options ...client.PatchOption) error {
		err := updater.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(body)), options...)
		if err != nil {
			require.True(t, apierrors.IsForbidden(err), err)
			require.ErrorContains(t, err, "the updater of celvpa may change the resources of a pod")
		}
		return err
	}
	hang.Eventually(t, "the policy to be in force", func(context.Context) (bool, error) {
		return patch(`{"metadata": {"annotations": {"new": "1"}}}`, client.DryRunAll) != nil, nil
	})
	for _, body := range []string{
		`{"spec": {"containers": [{"name": "web", "image": "registry.k8s.io/pause:3.9"}]}}`,
		`{"spec": {"activeDeadlineSeconds": 1}}`,
		`{"metadata": {"labels": {"app": null}}}`,
		`{"metadata": {"labels": {"new": "1"}}}`,
		`{"metadata": {"finalizers": ["example.com/mine"]}}`,
		`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "1"}]}}`,
		`{"metadata": {"annotations": {"mine": "2"}}}`,
		`{"metadata": {"annotations": {"mine": null}}}`,
		`{"metadata": {"annotations": {"new": "1", "vpaUpdates": "new"}}}`,
	} {
		require.Error(t, patch(body), body)
	}
	require.NoError(t, patch(`{"metadata": {"annotations": {"vpaUpdates": null, "vpaInPlaceUpdated": "true", "vpaCpuStartupBoost/web": "{}"}}}`))
	resize := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "10m"}}}]}}`))
	require.NoError(t, updater.SubResource("resize").Patch(t.Context(), pod.DeepCopy(), resize))
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	require.Equal(t, "10m", pod.Spec.Containers[0].Resources.Requests.Cpu().String())
	require.Equal(t, "true", pod.Annotations["vpaInPlaceUpdated"])
	require.Equal(t, "{}", pod.Annotations["vpaCpuStartupBoost/web"])
	require.Equal(t, "1", pod.Annotations["mine"])
	require.NotContains(t, pod.Annotations, "vpaUpdates")
	pod.Labels["new"] = "1"
	require.NoError(t, cluster.Update(t.Context(), pod), "others are not its concern")
}
