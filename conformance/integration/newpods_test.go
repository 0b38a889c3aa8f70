package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
