package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"

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
