// Package integration runs celvpa against a real Kubernetes control plane and asserts on what the API server holds
// afterwards. It brings up a lab of its own; with -short it prints why it does not run.
package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Shared by all tests: one lab, and one celvpa for those that serve.
var (
	cluster    *harness.Cluster
	kubeconfig string
	program    string
	celvpa     *harness.Celvpa

	usageOfPods   *harness.Annotated
	metricsServer map[string]any // the Service of the lab's metrics-server, whose place usageOfPods takes
)

// labName is the lab of these tests; parallel runs need different names.
func labName() string {
	if name := os.Getenv("LAB_NAME"); name != "" {
		return name
	}
	return "integration"
}

func TestMain(m *testing.M) {
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	if testing.Short() {
		fmt.Println("integration: not run with -short, because it needs a lab; use make test-lab")
		os.Exit(0)
	}
	harness.AtLeastParallel(12)
	code, err := withLab(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = 1
	}
	os.Exit(code)
}

func withLab(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if program, err = harness.Build(ctx); err != nil {
		return 1, err
	}
	lab, err := harness.Fresh(ctx, labName(), os.Stdout)
	if err != nil {
		return 1, err
	}
	kubeconfig = lab.Kubeconfig
	defer func() {
		if celvpa != nil {
			_ = celvpa.Stop()
		}
		if downErr := lab.Down(ctx, os.Stdout); downErr != nil {
			fmt.Fprintln(os.Stderr, "integration:", downErr)
		}
	}()
	if cluster, err = harness.Connect(kubeconfig); err != nil {
		return 1, err
	}
	// Only before the CRDs are installed can a test see what celvpa reports without them.
	if withoutCRDs = runToEnd("run", "--kubeconfig="+kubeconfig); withoutCRDs.err != nil {
		return 1, withoutCRDs.err
	}
	if err := cluster.InstallCRDs(ctx, false); err != nil {
		return 1, err
	}
	if usageOfPods, err = cluster.NewAnnotated(ctx); err != nil {
		return 1, err
	}
	api := &unstructured.Unstructured{}
	api.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	if err := cluster.Get(ctx, client.ObjectKey{Name: "v1beta1.metrics.k8s.io"}, api); err != nil {
		return 1, err
	}
	if metricsServer, _, err = unstructured.NestedMap(api.Object, "spec", "service"); err != nil {
		return 1, err
	}
	if err := cluster.ServeUsage(ctx, usageOfPods.Usage); err != nil {
		return 1, err
	}
	if code = m.Run(); code != 0 && celvpa != nil {
		fmt.Fprintln(os.Stderr, "integration: the log of the shared celvpa is", celvpa.LogFile)
	}
	return code, nil
}

// leading are flags of a process that leads until it is stopped, and then gives the lead back: a busy machine costs it no lead.
var leading = []string{"--leader-elect=true", "--leader-elect-lease-duration=10m", "--leader-elect-renew-deadline=5m"}

// serve runs the shared celvpa, unless it does already, until a test stops it.
func serve(t *testing.T) {
	t.Helper()
	if celvpa != nil && celvpa.Alive() == nil {
		return
	}
	require.NoError(t, startCelvpa(t.Context(), t.Name()+".log"))
}

// startCelvpa starts `celvpa run` with short intervals and leader election, for namespaces that
// begin with "it-". Its log goes to a file of that name in bin/integration.
func startCelvpa(ctx context.Context, log string) error {
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	if err != nil {
		return err
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	interval, err := harness.Pace(ctx, kubeconfig, 4*time.Second)
	if err != nil {
		return err
	}
	args = append(append(leading, args...), "run", "--kubeconfig="+kubeconfig, "--recommender-interval=2s", "--updater-interval="+interval.String(),
		"--admission-controller-status-lease-timeout=10m", "--leader-elect-resource-name=celvpa-integration", "--ignored-vpa-object-namespaces="+strings.Join(append(ownRecommender, "it-ignored", "it-live"), ","))
	celvpa, err = harness.Start(program, address, filepath.Join(root, "bin", "integration", log), args, nil)
	if err != nil {
		return err
	}
	return celvpa.WaitReady(ctx)
}

func crossVersion(apiVersion, kind, name string) *autoscalingv1.CrossVersionObjectReference {
	return &autoscalingv1.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: name}
}

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }

func containsText(s, part string) bool { return strings.Contains(s, part) }

// invalidVPAsAreRefused: the webhook names the field, the rule and the fix.
func invalidVPAsAreRefused(t *testing.T) {
	ns := namespace(t, "it-invalid")
	v := vpa(ns, "web", vpav1.UpdateModeInPlace)
	v.Spec.UpdatePolicy.MinReplicas = ptr.To[int32](0)
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{
		ContainerName: "app",
		MinAllowed:    corev1.ResourceList{"cpu": resource.MustParse("2")},
		MaxAllowed:    corev1.ResourceList{"cpu": resource.MustParse("1500m")},
	}}}
	err := cluster.Create(t.Context(), v)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	status := apierrors.APIStatus(nil)
	require.ErrorAs(t, err, &status)
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, cause.Field)
	}
	require.ElementsMatch(t, []string{
		"spec.updatePolicy.updateMode", "spec.updatePolicy.minReplicas", "spec.resourcePolicy.containerPolicies[0].maxAllowed[cpu]",
	}, fields)
	for _, text := range []string{"--feature-gates=InPlace=true, or use InPlaceOrRecreate (rule vpa-gates/in-place)", "minReplicas must be greater than 0", "maxAllowed.cpu 1500m is below minAllowed.cpu 2"} {
		require.ErrorContains(t, err, text)
	}

	valid := vpa(ns, "web", vpav1.UpdateModeOff)
	require.NoError(t, cluster.Create(t.Context(), valid))
	valid.Spec.UpdatePolicy.MinReplicas = ptr.To[int32](-1)
	require.True(t, apierrors.IsInvalid(cluster.Update(t.Context(), valid)), "updates are validated too")
}

// whatGetsInTheWayIsWarnedAbout: other objects with the same target in the webhook's cache. Missing
// fields get their defaults.
func whatGetsInTheWayIsWarnedAbout(t *testing.T) {
	ns := namespace(t, "it-beside")
	create(t, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 3},
	})
	create(t, object(ns, "first", `updatePolicy: {updateMode: Initial}`))
	create(t, object(ns, "silent", `updatePolicy: {updateMode: "Off"}`))
	ear := newListener(t)
	second := object(ns, "second", "")
	want := []string{
		"spec.targetRef: HorizontalPodAutoscaler web scales the same target on cpu, so the two work against each other; remove cpu from controlledResources, or scale on another metric or averageValue (rule vpa-neighbours/hpa-scales-on)",
		"spec.targetRef: VerticalPodAutoscaler first has the same target; only the oldest changes the pods (rule vpa-neighbours/other-vpa)",
	}
	hang.Eventually(t, "the webhook to know of all three", func(ctx context.Context) (bool, error) {
		err := ear.Create(ctx, second.DeepCopy(), client.DryRunAll)
		return slices.Equal(ear.warnings(), want), err
	})
	create(t, second)
	mode, _, err := unstructured.NestedString(second.Object, "spec", "updatePolicy", "updateMode")
	require.NoError(t, err)
	require.Equal(t, "Recreate", mode)
}

// aTargetThatDoesNotExistIsReported, and other VPAs are served.
func aTargetThatDoesNotExistIsReported(t *testing.T) {
	ns := namespace(t, "it-missing")
	create(t, vpa(ns, "nobody", vpav1.UpdateModeOff))
	owned := vpa(ns, "owned", vpav1.UpdateModeOff)
	create(t, steady(ns, "web", 1))
	running(t, ns, 1)
	for _, p := range pods(t, ns) {
		owned.Spec.TargetRef = crossVersion("apps/v1", "ReplicaSet", p.OwnerReferences[0].Name)
	}
	unknown := vpa(ns, "unknown", vpav1.UpdateModeOff)
	unknown.Spec.TargetRef = crossVersion("elsewhere.example.com/v1", "Stranger", "web")
	create(t, owned, unknown)
	says := func(name, message string) {
		hang.Eventually(t, "condition ConfigUnsupported on "+name, func(ctx context.Context) (bool, error) {
			var v vpav1.VerticalPodAutoscaler
			if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &v); err != nil {
				return false, err
			}
			c := condition(&v, vpav1.ConfigUnsupported)
			provided := condition(&v, vpav1.RecommendationProvided)
			none := condition(&v, vpav1.NoPodsMatched)
			return c != nil && c.Status == corev1.ConditionTrue && containsText(c.Message, message) &&
				provided != nil && provided.Status == corev1.ConditionFalse && provided.Reason == "NoPodsMatched" &&
				none != nil && none.Status == corev1.ConditionTrue, nil
		})
	}
	says("nobody", "Cannot read targetRef. Reason: Deployment it-missing/nobody does not exist")
	says("unknown", "Cannot read targetRef. Reason: Stranger it-missing/web does not exist")
	says("owned", "has a parent controller but it should point to a topmost well-known or scalable controller")
}

// ignoredNamespacesAreNotServed: VPAs there get no recommendation and no validation.
func ignoredNamespacesAreNotServed(t *testing.T) {
	ns := namespace(t, "it-ignored")
	ignored := vpa(ns, "web", vpav1.UpdateModeOff)
	ignored.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{
		ContainerName: "app", MinAllowed: corev1.ResourceList{"cpu": resource.MustParse("0.1m")}, // invalid where the webhook looks
	}}}
	create(t, ignored)
	served := namespace(t, "it-served")
	create(t, vpa(served, "web", vpav1.UpdateModeOff))
	hang.Eventually(t, "a status on the served VPA", func(ctx context.Context) (bool, error) {
		var v vpav1.VerticalPodAutoscaler
		err := cluster.Get(ctx, client.ObjectKey{Namespace: served, Name: "web"}, &v)
		return len(v.Status.Conditions) > 0, err
	})
	var v vpav1.VerticalPodAutoscaler
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(ignored), &v))
	require.Empty(t, v.Status.Conditions)
}
