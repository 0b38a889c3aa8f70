package target

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1 "k8s.io/api/autoscaling/v1"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func controlledBy(apiVersion, kind, name string) metav1.OwnerReference {
	return owner(apiVersion, kind, name, ptr.To(true))
}

func TestTheTopmostControllerOfAPod(t *testing.T) {
	cronJob := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nightly"}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nightly-1", OwnerReferences: []metav1.OwnerReference{controlledBy("batch/v1", "CronJob", "nightly")}}}
	scalable := func(string) error { return nil }
	ofReplicaSet := []metav1.OwnerReference{controlledBy("apps/v1", "ReplicaSet", "web-1")}
	for _, tt := range []struct {
		name    string
		owners  []metav1.OwnerReference
		objects []client.Object
		scale   func(string) error
		top     string // empty = none
		err     string
	}{
		{name: "a pod that nobody owns has none"},
		{name: "an owner that does not say whether it controls the pod does not", owners: []metav1.OwnerReference{owner("apps/v1", "ReplicaSet", "web-1", nil)}},
		{name: "an owner that says it does not control the pod does not", owners: []metav1.OwnerReference{owner("apps/v1", "ReplicaSet", "web-1", ptr.To(false))}},
		{name: "a pod of a Node has none", owners: []metav1.OwnerReference{controlledBy("v1", "Node", "n")}},
		{name: "a ReplicaSet that nobody owns is the topmost", owners: []metav1.OwnerReference{controlledBy("apps/v1", "ReplicaSet", "lonely")},
			objects: []client.Object{&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lonely"}}}, top: "apps/v1.ReplicaSet/lonely"},
		{name: "the Deployment above a ReplicaSet is", owners: ofReplicaSet, objects: []client.Object{replicaSet("web-1", "web"), deployment("web")}, top: "apps/v1.Deployment/web"},
		{name: "the CronJob above a Job is", owners: []metav1.OwnerReference{controlledBy("batch/v1", "Job", "nightly-1")}, objects: []client.Object{job, cronJob}, top: "batch/v1.CronJob/nightly"},
		{name: "what cannot be scaled above a Deployment is not", owners: ofReplicaSet, top: "apps/v1.Deployment/web",
			objects: []client.Object{replicaSet("web-1", "web"), deployment("web", controlledBy("example.com/v1", "App", "shop"))}},
		{name: "what can be scaled above a Deployment is", owners: ofReplicaSet, scale: scalable, top: "example.com/v1.App/shop",
			objects: []client.Object{replicaSet("web-1", "web"), deployment("web", controlledBy("example.com/v1", "App", "shop"))}},
		{name: "a custom owner that can be scaled is", owners: []metav1.OwnerReference{controlledBy("example.com/v1", "Thing", "t")}, scale: scalable, top: "example.com/v1.Thing/t"},
		{name: "a custom owner that cannot is an error", owners: []metav1.OwnerReference{controlledBy("example.com/v1", "Thing", "t")}, err: "Thing ns/t does not exist or cannot be scaled"},
		{name: "of several controlling owners the last one counts", owners: []metav1.OwnerReference{
			controlledBy("apps/v1", "ReplicaSet", "web-1"), controlledBy("batch/v1", "Job", "nightly-1"), owner("v1", "Node", "n", nil)},
			objects: []client.Object{replicaSet("web-1", "web"), deployment("web"), job, cronJob}, top: "batch/v1.CronJob/nightly"},
		{name: "a ReplicaSet that is gone is an error", owners: ofReplicaSet, err: "finding the topmost controller of pod ns/p: ReplicaSet ns/web-1 does not exist"},
		{name: "owners in a circle are an error", owners: ofReplicaSet, err: "form a cycle",
			objects: []client.Object{replicaSet("web-1", "web"), deployment("web", controlledBy("apps/v1", "Deployment", "web"))}},
		{name: "a scale that cannot be read is an error", owners: []metav1.OwnerReference{controlledBy("example.com/v1", "Thing", "t")}, err: "conversion failed",
			scale: func(string) error { return errBroken }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := resolver(tt.scale, tt.objects...)
			for _, remembers := range []bool{false, true} {
				if remembers {
					r.Scales = newScaleAPI(nil, "v1").scales
					r.Scales.client = r.Client
				}
				top, err := r.Top(t.Context(), podOf(tt.owners...), nil)
				switch {
				case tt.err != "":
					require.ErrorContains(t, err, tt.err)
				case tt.top == "":
					require.NoError(t, err)
					require.Nil(t, top)
				default:
					require.NoError(t, err)
					require.Equal(t, tt.top, top.String())
				}
			}
		})
	}
}

func TestWhichVPAsHaveAPodOfTheirTopmostController(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "web"}
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for _, tt := range []struct {
		name   string
		owner  client.Object // default a Deployment
		kind   string
		change func(*vpav1.VerticalPodAutoscaler, *corev1.Pod)
		yes    bool
		why    string
	}{
		{name: "its target, and the labels match", yes: true},
		{name: "its target in another version", change: func(v *vpav1.VerticalPodAutoscaler, _ *corev1.Pod) { v.Spec.TargetRef.APIVersion = "apps/v1beta1" }, yes: true},
		{name: "its target in another group", change: func(v *vpav1.VerticalPodAutoscaler, _ *corev1.Pod) { v.Spec.TargetRef.APIVersion = "extensions/v1" }, yes: true},
		{name: "its target without an apiVersion", change: func(v *vpav1.VerticalPodAutoscaler, _ *corev1.Pod) { v.Spec.TargetRef.APIVersion = "" }, yes: true},
		{name: "the labels do not match", change: func(_ *vpav1.VerticalPodAutoscaler, p *corev1.Pod) { p.Labels["app"] = "other" }},
		{name: "the pod has no labels", change: func(_ *vpav1.VerticalPodAutoscaler, p *corev1.Pod) { p.Labels = nil }},
		{name: "more labels do no harm", change: func(_ *vpav1.VerticalPodAutoscaler, p *corev1.Pod) { p.Labels["tier"] = "back" }, yes: true},
		{name: "a VPA of another namespace", change: func(v *vpav1.VerticalPodAutoscaler, _ *corev1.Pod) { v.Namespace = "elsewhere" }},
		{name: "another name", change: func(v *vpav1.VerticalPodAutoscaler, _ *corev1.Pod) { v.Spec.TargetRef.Name = "other" }},
		{name: "another kind", change: func(v *vpav1.VerticalPodAutoscaler, _ *corev1.Pod) { v.Spec.TargetRef.Kind = "StatefulSet" }},
		{name: "no target", change: func(v *vpav1.VerticalPodAutoscaler, _ *corev1.Pod) { v.Spec.TargetRef = nil }},
		{name: "a ReplicationController", kind: "ReplicationController", yes: true,
			owner: &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: app.MatchLabels}}},
		{name: "a CronJob by the labels of its template", kind: "CronJob", yes: true, owner: &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app.MatchLabels}}}}}}},
		{name: "a CronJob without labels has no pods", kind: "CronJob", owner: &batchv1.CronJob{ObjectMeta: meta}},
		{name: "a Job without a selector has no pods", kind: "Job", owner: &batchv1.Job{ObjectMeta: meta}},
		{name: "a StatefulSet whose selector is empty has them all", kind: "StatefulSet", yes: true,
			owner: &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{}}}},
		{name: "a selector with expressions that match", kind: "DaemonSet", yes: true, owner: &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "db"}}}}}}},
		{name: "a selector with expressions that do not", kind: "DaemonSet", owner: &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"web"}}}}}}},
		{name: "a selector that is none", kind: "DaemonSet", why: "the selector of ns/web", owner: &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.owner == nil {
				tt.owner, tt.kind = deployment("web"), "Deployment"
			}
			r := resolver(nil, tt.owner)
			pod, v := podOf(controlledBy("any/v1", tt.kind, "web")), vpaFor("v", "web", 0)
			v.Spec.TargetRef.Kind = tt.kind
			top, err := r.Top(t.Context(), pod, nil)
			require.NoError(t, err)
			if tt.change != nil {
				tt.change(v, pod)
			}
			yes, why := top.Selects(t.Context(), v, pod)
			if tt.why != "" {
				require.NotNil(t, why)
				require.Contains(t, why.Message, tt.why)
			} else {
				require.Nil(t, why)
			}
			require.Equal(t, tt.yes, yes)
			// Who has time to wait comes to the same end.
			patient, err := r.Topmost(t.Context(), pod)
			require.NoError(t, err)
			require.Equal(t, top.Key, patient.Key)
			yes, _ = patient.Selects(t.Context(), v, pod)
			require.Equal(t, tt.yes, yes)
		})
	}
}

// A VPA may name a kind of another group by the same name: its own target's selector decides then.
func TestACustomTargetIsReadAsTheVPANamesIt(t *testing.T) {
	api := newScaleAPI(func(asked string) any {
		return map[string]string{"v1 t": "app=web", "v2 t": "app=other"}[asked]
	}, "v1", "v2")
	r := &Resolver{Client: api.Client, Scales: api.scales}
	pod := podOf(controlledBy("example.com/v1", "Thing", "t"))
	top, err := r.Top(t.Context(), pod, nil)
	require.NoError(t, err)
	for version, want := range map[string]bool{"v1": true, "v2": false} {
		v := vpaFor("v", "t", 0)
		v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "example.com/" + version, Kind: "Thing", Name: "t"}
		yes, why := top.Selects(t.Context(), v, pod)
		require.Nil(t, why)
		require.Equal(t, want, yes, version)
	}
}

// Pods of workflows and the like have owners of their own, which no VPA is about.
func TestCustomOwnerWithoutAVPAIsNotLookedUp(t *testing.T) {
	api := newScaleAPI(always(errGone), "v1")
	r := &Resolver{Client: api.Client, Scales: api.scales}
	var asked []string
	no := func(chain []Key) bool {
		asked = nil
		for _, k := range chain {
			asked = append(asked, k.Kind+"/"+k.Name)
		}
		return false
	}
	top, err := r.Top(t.Context(), podOf(controlledBy("example.com/v1", "Thing", "t")), no)
	require.NoError(t, err)
	require.Nil(t, top)
	require.Equal(t, []string{"Thing/t"}, asked)

	r.Client = resolver(nil, replicaSet("web-1", "web"), deployment("web", controlledBy("example.com/v1", "Thing", "t"))).Client
	top, err = r.Top(t.Context(), podOf(controlledBy("apps/v1", "ReplicaSet", "web-1")), no)
	require.NoError(t, err)
	require.Nil(t, top)
	require.Equal(t, []string{"ReplicaSet/web-1", "Deployment/web", "Thing/t"}, asked)
	require.Zero(t, api.reads())
	require.Empty(t, api.scales.entries, "nothing is remembered of them")

	api.look(t, thing("t"), asOwner)
	top, err = r.Top(t.Context(), podOf(controlledBy("apps/v1", "ReplicaSet", "web-1")), no)
	require.NoError(t, err)
	require.Equal(t, "web", top.Name, "what is known anyway need not be asked for")
}

// The cache hears of a new ReplicaSet at about the same time as the controller that makes its pods.
func TestOwnerMissingFromTheCacheIsWaitedFor(t *testing.T) {
	api := newScaleAPI(nil, "v1")
	r := resolver(nil, deployment("web"))
	r.Scales = api.scales
	of := controlledBy("apps/v1", "ReplicaSet", "web-1")
	of.UID = "1"
	type outcome struct {
		top *Top
		err error
	}
	ask := func(of metav1.OwnerReference) chan outcome {
		out := make(chan outcome, 1)
		go func() {
			top, err := r.Top(t.Context(), podOf(of), nil)
			out <- outcome{top, err}
		}()
		return out
	}
	first := ask(of)
	hang.Until(t, api.clock.HasWaiters)
	require.NoError(t, r.Client.Create(t.Context(), replicaSet("web-1", "web")))
	api.clock.Step(lateTry)
	got := <-first
	require.NoError(t, got.err)
	require.Equal(t, "apps/v1.Deployment/web", got.top.String())

	of.Name, of.UID = "never", "2"
	second := ask(of)
	hang.Until(t, api.clock.HasWaiters)
	api.clock.Step(lateFor)
	require.ErrorContains(t, (<-second).err, "ReplicaSet ns/never does not exist")

	of.APIVersion, of.Kind, of.UID = "apps.example.com/v1", "StatefulSet", "3"
	require.ErrorContains(t, (<-ask(of)).err, "StatefulSet ns/never does not exist", "another one's StatefulSet is in no cache")
}
