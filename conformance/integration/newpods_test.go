package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// allGates are the gates that affect new pods.
const allGates = "--feature-gates=PodLevelResources=true,RequestToLimitRatio=true,CPUStartupBoost=true"

const pauseImage = "registry.k8s.io/pause:3.10"

// workload is the subject of tests of new pods: a ReplicaSet with 0 replicas, and a VPA with a
// recommendation that the test wrote. Its pods are created by dry run.
type workload struct {
	ns, name string
	owner    metav1.OwnerReference
}

// newWorkload creates a workload with a VPA in mode Initial. The rest of its spec and its
// recommendation are YAML; empty = no recommendation.
func newWorkload(t *testing.T, ns, name, spec, recommendation string) workload {
	t.Helper()
	w := newOwner(t, ns, name)
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &v.Spec), spec)
	v.Spec.TargetRef = crossVersion("apps/v1", "ReplicaSet", name)
	if v.Spec.UpdatePolicy == nil {
		v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: ptr.To(vpav1.UpdateModeInitial)}
	}
	create(t, v)
	recommend(t, v, recommendation)
	return w
}

// newOwner creates only the ReplicaSet.
func newOwner(t *testing.T, ns, name string) workload {
	t.Helper()
	labels := map[string]string{"app": name}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: appsv1.ReplicaSetSpec{
		Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: pauseImage}}}},
	}}
	create(t, rs)
	return workload{ns: ns, name: name, owner: *metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
}

// recommend writes a recommendation, given as YAML, like a recommender.
func recommend(t *testing.T, v *vpav1.VerticalPodAutoscaler, recommendation string) {
	t.Helper()
	if recommendation == "" {
		return
	}
	r := &vpav1.RecommendedPodResources{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(recommendation), r), recommendation)
	v.Status.Recommendation = r
	require.NoError(t, cluster.Status().Update(t.Context(), v))
}

// pod is a pod of the workload, with a spec given as YAML. Containers need no image.
func (w workload) pod(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &p.Spec), spec)
	return w.own(p)
}

// own adds the owner reference of the workload to a pod.
func (w workload) own(p *corev1.Pod) *corev1.Pod {
	p.Namespace, p.GenerateName = w.ns, w.name+"-"
	p.Labels = map[string]string{"app": w.name}
	p.OwnerReferences = []metav1.OwnerReference{w.owner}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			list[i].Image = pauseImage
		}
	}
	return p
}

// created is one of its pods as the API server returns it.
func (w workload) created(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	p := w.pod(t, spec)
	require.NoError(t, cluster.Create(t.Context(), p, client.DryRunAll))
	return p
}

// has compares requests and limits of a new pod, the pod level first, each written as "100m/200m
// 1Gi/2Gi": CPU, then memory, and - for unset values.
func has(t *testing.T, p *corev1.Pod, want ...string) {
	t.Helper()
	require.Equal(t, want, sizesOf(p), p.Annotations["vpaUpdates"])
}

// sizesOf is the text that has compares.
func sizesOf(p *corev1.Pod) (out []string) {
	if p.Spec.Resources != nil {
		out = append(out, "pod "+sizes(*p.Spec.Resources))
	}
	for i := range p.Spec.Containers {
		out = append(out, sizes(p.Spec.Containers[i].Resources))
	}
	return out
}

func sizes(r corev1.ResourceRequirements) string {
	of := func(name corev1.ResourceName) string {
		text := func(list corev1.ResourceList) string {
			if q, ok := list[name]; ok {
				return q.String()
			}
			return "-"
		}
		return text(r.Requests) + "/" + text(r.Limits)
	}
	return of("cpu") + " " + of("memory")
}

// updates is the vpaUpdates annotation without the name of the VPA.
func updates(p *corev1.Pod) string {
	_, text, _ := strings.Cut(p.Annotations["vpaUpdates"], ": ")
	return text
}

// limitRange creates a LimitRange with the items given as YAML.
func limitRange(t *testing.T, ns, name, items string) {
	t.Helper()
	l := decodedRange(t, name, items)
	l.Namespace = ns
	create(t, &l)
}

// decodedRange is a LimitRange with these items.
func decodedRange(t *testing.T, name, items string) (l corev1.LimitRange) {
	t.Helper()
	l.Name = name
	require.NoError(t, yaml.UnmarshalStrict([]byte(items), &l.Spec.Limits), items)
	return l
}

// seen waits until the webhook's caches have all objects that were created before: owners, VPAs
// with recommendations, LimitRanges. Each kind has one watch for all namespaces, so an object is
// not seen before older ones of its kind.
func seen(t *testing.T, ns string) {
	t.Helper()
	probe := namespace(t, ns+"-seen")
	limitRange(t, probe, "last", "[{type: Container, max: {cpu: 500m}}]")
	w := newWorkload(t, probe, "last", "", "containerRecommendations: [{containerName: a, target: {cpu: 1}}]")
	hang.Eventually(t, "the webhook to know of all objects in "+ns, func(ctx context.Context) (bool, error) {
		p := w.pod(t, "containers: [{name: a, resources: {requests: {cpu: 100m}, limits: {cpu: 100m}}}]")
		err := cluster.Create(ctx, p, client.DryRunAll)
		return err == nil && p.Spec.Containers[0].Resources.Requests.Cpu().Equal(resource.MustParse("500m")), err
	})
}

// noneLeft deletes the VPAs of namespaces.
func noneLeft(t *testing.T, prefix string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var list corev1.NamespaceList
	require.NoError(t, cluster.List(ctx, &list))
	for i := range list.Items {
		if ns := list.Items[i].Name; strings.HasPrefix(ns, prefix) {
			require.NoError(t, cluster.DeleteAllOf(ctx, &vpav1.VerticalPodAutoscaler{}, client.InNamespace(ns)))
		}
	}
}

// Running pods with pod-level resources in a namespace that got a LimitRange of type Container
// later (AEP-7571).

// containerDefaults is such a LimitRange.
const containerDefaults = "[{type: Container, default: {cpu: 150m, memory: 256Mi}}]"

// nobodyIsEvictedWhoWouldBeRefused: the replacement pods would be refused.
func nobodyIsEvictedWhoWouldBeRefused(t *testing.T) {
	ns := namespace(t, "up-refused")
	before := deployed(t, ns, "web", 2, ofItsOwn)
	empty := deployed(t, ns, "empty", 2, "{resources: {}, containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}]}")
	limitRange(t, ns, "defaults", containerDefaults)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: Recreate}", moreForBoth)
	watchedOver(t, ns, "empty", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	leave(t, ns, "empty", empty) // an empty stanza is none
	u.cycles(3)
	for _, p := range same(t, ns, "web", before) {
		has(t, &p, hasOfItsOwn...)
	}
	require.Zero(t, u.requests.of("eviction", "web"))
	require.Equal(t, 2, u.counted("celvpa_updater_pods", `rule="eviction/admission-refuses"`))
}

// containersThatShareAreGivenNoDefaults: API servers would apply them to a resize, so the updater
// sends none. If no container lacks a value, the pod is resized, even beyond that default.
func containersThatShareAreGivenNoDefaults(t *testing.T) {
	ns := namespace(t, "up-share")
	shares := deployed(t, ns, "shares", 2, ofItsOwn)
	complete := deployed(t, ns, "complete", 2, "{resources: {requests: {cpu: 300m, memory: 300Mi}, limits: {cpu: 600m, memory: 600Mi}}, "+
		"containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m, memory: 200Mi}}}]}")
	limitRange(t, ns, "defaults", containerDefaults)
	for _, app := range []string{"shares", "complete"} {
		watchedOver(t, ns, app, "updatePolicy: {updateMode: InPlaceOrRecreate}", moreForBoth)
	}
	u := startUpdater(t, ns)
	become(t, ns, "complete", 2, "pod 600m/1200m 600Mi/1200Mi", "400m/800m 400Mi/800Mi")
	u.cycles(2)
	same(t, ns, "complete", complete)
	for _, p := range same(t, ns, "shares", shares) {
		has(t, &p, hasOfItsOwn...)
	}
	require.Zero(t, u.requests.of("resize", "shares")+u.requests.of("eviction", "shares")+u.requests.of("eviction", "complete"))
	require.Equal(t, 2, u.counted("celvpa_updater_pods", `rule="resize/limit-range-defaults"`))

	// The reason: the API server applies the defaults to any resize.
	for _, p := range shares {
		raised := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/resources/requests/memory","value":"400Mi"}]`))
		require.NoError(t, cluster.SubResource("resize").Patch(t.Context(), &p, raised, client.DryRunAll))
		has(t, &p, "pod 300m/600m 400Mi/600Mi", "100m/200m 100Mi/200Mi", "150m/150m 256Mi/256Mi")
		break
	}
}

// annotationsDescribeTheResize, and no longer say what admission set.
func annotationsDescribeTheResize(t *testing.T) {
	ns := namespace(t, "up-annotated")
	before := deployed(t, ns, "web", 2, ofItsOwn)
	for _, p := range before {
		admitted := `{"metadata":{"annotations":{"vpaUpdates":"Pod resources updated by old: pod: memory capped to fit Max in pod LimitRange, memory request","vpaObservedContainers":"a, b","others":"x"}}}`
		require.NoError(t, cluster.Patch(t.Context(), &p, client.RawPatch(types.MergePatchType, []byte(admitted))))
	}
	watchedOver(t, ns, "web", "{updatePolicy: {updateMode: InPlaceOrRecreate}, resourcePolicy: {podPolicies: {maxAllowed: {memory: 500Mi}}}}", moreForBoth)
	u := startUpdater(t, ns)
	become(t, ns, "web", 2, "pod 600m/1200m 500Mi/1000Mi", "400m/800m 400Mi/800Mi", "-/- -/-")
	u.cycles(2)
	for _, p := range same(t, ns, "web", before) {
		hang.Eventually(t, "the mark of the resize", func(ctx context.Context) (bool, error) { // tried again where it came too late for its cycle
			err := cluster.Get(ctx, keyOf(&p), &p)
			return p.Annotations["vpaInPlaceUpdated"] == "true", err
		})
		require.Equal(t, map[string]string{
			"vpaUpdates":            "Pod resources updated by web: pod: memory capped to maxAllowed, cpu request, memory request, cpu limit, memory limit; container 0: cpu request, memory request, cpu limit, memory limit",
			"vpaInPlaceUpdated":     "true",
			"vpaObservedContainers": "a, b",
			"others":                "x",
		}, p.Annotations)
	}
}

// limitRangesAreKept: the worked examples 1 to 7 (UPSTREAM.md §3.8), and pods that LimitRanger refuses
// as upstream would change them. It judges the patched pods.
func limitRangesAreKept(t *testing.T) {
	examples := []struct {
		name, items, pod, recommendation string
		want                             []string
		updates                          string
	}{
		{"a container's limit is at the maximum", "[{type: Container, max: {cpu: 300m, memory: 1Gi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}}]",
			"[{containerName: a, target: {cpu: 250m, memory: 200Mi}}]",
			[]string{"200m/300m 200Mi/400Mi"}, "container 0: cpu capped to fit Max in container LimitRange, cpu request, memory request, cpu limit, memory limit"},
		{"a container's request is at the minimum", "[{type: Container, min: {cpu: 50m, memory: 250Mi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}}]",
			"[{containerName: a, target: {cpu: 250m, memory: 100Mi}}]",
			[]string{"250m/375m 250Mi/500Mi"}, "container 0: memory capped to fit Min in container LimitRange, cpu request, memory request, cpu limit, memory limit"},
		{"limits of a pod are at the maximum", "[{type: Pod, max: {cpu: 600m, memory: 1Gi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}}, {name: b, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}}]",
			"[{containerName: a, target: {cpu: 250m, memory: 200Mi}}, {containerName: b, target: {cpu: 250m, memory: 200Mi}}]",
			[]string{"200m/300m 200Mi/400Mi", "200m/300m 200Mi/400Mi"}, "container 0: cpu capped to fit Max in pod LimitRange, cpu request, memory request, cpu limit, memory limit; container 1: cpu capped to fit Max in pod LimitRange, cpu request, memory request, cpu limit, memory limit"},
		{"requests of a pod are at the minimum", "[{type: Pod, min: {cpu: 100m, memory: 500Mi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}}, {name: b, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}}]",
			"[{containerName: a, target: {cpu: 120m, memory: 100Mi}}, {containerName: b, target: {cpu: 120m, memory: 100Mi}}]",
			[]string{"120m/180m 250Mi/500Mi", "120m/180m 250Mi/500Mi"}, ""},
		{"a container without a recommendation gives, too", "[{type: Pod, max: {cpu: 400m, memory: 1Gi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 100m, memory: 100Mi}}}, {name: b, resources: {requests: {cpu: 400m, memory: 600Mi}, limits: {cpu: 400m, memory: 600Mi}}}]",
			"[{containerName: a, target: {cpu: 400m, memory: 600Mi}}]",
			[]string{"200m/200m 512Mi/512Mi", "200m/200m 512Mi/512Mi"}, ""},
		{"CPU is rounded up to a minimum", "[{type: Pod, min: {cpu: 150m}}]",
			"[{name: a, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: b, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: c, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}]",
			"[{containerName: a, target: {cpu: 4m}}, {containerName: b, target: {cpu: 21m}}, {containerName: c, target: {cpu: 90m}}]",
			[]string{"6m/6m -/-", "28m/28m -/-", "118m/118m -/-"}, ""},
		{"and so is memory, with limits or without", "[{type: Pod, min: {memory: 400Mi}}]",
			"[{name: a, resources: {requests: {memory: 300Mi}}}, {name: b, resources: {requests: {memory: 200Mi}}}]",
			"[{containerName: a, target: {memory: 100Mi}}, {containerName: b, target: {memory: 50Mi}}]",
			[]string{"-/- 279620267/-", "-/- 139810134/-"}, ""},
		{"requests are at the maximum where few containers have limits", "[{type: Pod, max: {memory: 440Mi}}]",
			"[{name: a, resources: {requests: {memory: 100Mi}}}, {name: b, resources: {requests: {memory: 100Mi}, limits: {memory: 100Mi}}}]",
			"[{containerName: a, target: {memory: 500Mi}}, {containerName: b, target: {memory: 50Mi}}]",
			[]string{"-/- 400Mi/-", "-/- 40Mi/40Mi"}, ""},
		{"and down to a maximum", "[{type: Pod, max: {cpu: 80m}}]",
			"[{name: a, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: b, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: c, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}]",
			"[{containerName: a, target: {cpu: 4m}}, {containerName: b, target: {cpu: 21m}}, {containerName: c, target: {cpu: 90m}}]",
			[]string{"2m/2m -/-", "14m/14m -/-", "62m/62m -/-"}, ""},
	}
	workloads := make([]workload, len(examples))
	for i, e := range examples {
		ns := namespace(t, fmt.Sprintf("np-range-%d", i+1))
		limitRange(t, ns, "range", e.items)
		workloads[i] = newWorkload(t, ns, "w", "", "containerRecommendations: "+e.recommendation)
	}
	seen(t, "np-range")
	for i, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			p := workloads[i].created(t, "containers: "+e.pod)
			has(t, p, e.want...)
			if e.updates != "" {
				require.Equal(t, e.updates, updates(p))
			}
		})
	}
}
