// Package slim drops the fields that celvpa does not read before objects go into a cache. Code that
// reads another field must add it here. A slim object is never written back: changes are patches of
// single fields.
package slim

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// ByObject configures a cache of pods, VerticalPodAutoscalers and the well-known controllers: slim,
// and returned without a copy, so callers must not change them. With targetOnly recommendations have
// nothing but the target: that is what admission applies.
func ByObject(targetOnly bool) map[client.Object]cache.ByObject {
	vpa := VPA
	if targetOnly {
		vpa = VPAWithTarget
	}
	kept := func(transform toolscache.TransformFunc) cache.ByObject {
		return cache.ByObject{Transform: transform, UnsafeDisableDeepCopy: ptr.To(true)}
	}
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                   kept(Pod),
		&corev1.Namespace{}:             kept(Metadata),
		&corev1.Node{}:                  kept(Node),
		&vpav1.VerticalPodAutoscaler{}:  kept(vpa),
		&appsv1.Deployment{}:            kept(Controller),
		&appsv1.DaemonSet{}:             kept(Controller),
		&appsv1.ReplicaSet{}:            kept(Controller),
		&appsv1.StatefulSet{}:           kept(Controller),
		&corev1.ReplicationController{}: kept(Controller),
		&batchv1.Job{}:                  kept(Controller),
		&batchv1.CronJob{}:              kept(Controller),
	}
}

// KeepTemplates makes a cache keep what the containers of pods have in the templates of their direct owners, too.
func KeepTemplates(kinds map[client.Object]cache.ByObject) {
	for object, by := range kinds {
		switch object.(type) {
		case *appsv1.DaemonSet, *appsv1.ReplicaSet, *appsv1.StatefulSet, *corev1.ReplicationController, *batchv1.Job:
			by.Transform = ControllerWithTemplate
			kinds[object] = by
		}
	}
}

// annotationLastApplied is kubectl's copy of the whole object.
const annotationLastApplied = corev1.LastAppliedConfigAnnotation

// VPA drops the annotations of tools from a VerticalPodAutoscaler. Anything else is returned as it
// is, such as the DeletedFinalStateUnknown of an informer. It implements client-go's TransformFunc.
func VPA(object any) (any, error) {
	if v, ok := object.(*vpav1.VerticalPodAutoscaler); ok {
		v.ManagedFields = nil
		delete(v.Annotations, annotationLastApplied)
		sharePolicies(v.Spec.ResourcePolicy)
		shareTargets(v.Status.Recommendation)
	}
	return object, nil
}

// sharePolicies keeps what many policies allow, such as the least and the most of a cluster, only once.
func sharePolicies(r *vpav1.PodResourcePolicy) {
	if r == nil {
		return
	}
	for i := range r.ContainerPolicies {
		p := &r.ContainerPolicies[i]
		p.MinAllowed, _ = oneOf(p.MinAllowed)
		p.MaxAllowed, _ = oneOf(p.MaxAllowed)
	}
}

// shareTargets keeps the uncapped target of a container only once where it is the target, as it
// usually is.
func shareTargets(r *vpav1.RecommendedPodResources) {
	if r == nil {
		return
	}
	for i := range r.ContainerRecommendations {
		c := &r.ContainerRecommendations[i]
		if equal(c.UncappedTarget, c.Target) {
			c.UncappedTarget = c.Target
		}
	}
}

// VPAWithTarget also drops the bounds and the uncapped target of recommendations: half of the
// memory that a VerticalPodAutoscaler takes.
func VPAWithTarget(object any) (any, error) {
	if v, ok := object.(*vpav1.VerticalPodAutoscaler); ok && v.Status.Recommendation != nil {
		all := v.Status.Recommendation
		for i := range all.ContainerRecommendations {
			c := &all.ContainerRecommendations[i]
			c.LowerBound, c.UpperBound, c.UncappedTarget = nil, nil, nil
		}
		if p := all.PodRecommendation; p != nil {
			p.LowerBound, p.UpperBound, p.UncappedTarget = nil, nil, nil
		}
	}
	return VPA(object)
}

// Metadata keeps the name, the labels and the annotations, as Annotations does, of an object of which only metadata is read. It
// implements client-go's TransformFunc.
func Metadata(object any) (any, error) {
	if o, ok := object.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			Name: o.Name, Namespace: o.Namespace, ResourceVersion: o.ResourceVersion, Labels: o.Labels, Annotations: Annotations(o.Annotations),
		}}, nil
	}
	return object, nil
}

// Node keeps the name of a node, and its allocatable CPU and memory. It implements client-go's TransformFunc.
func Node(object any) (any, error) {
	o, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Name, ResourceVersion: o.ResourceVersion}}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := o.Status.Allocatable[name]; ok {
			if kept.Status.Allocatable == nil {
				kept.Status.Allocatable = corev1.ResourceList{}
			}
			kept.Status.Allocatable[name] = q
		}
	}
	return kept, nil
}

// Controller keeps the identity of a well-known controller, its owners, its selector and what says
// how many pods it wants and that it cannot create them; of a CronJob the labels of its pods; see Metadata where only that is read. Anything else
// is returned as it is, such as the DeletedFinalStateUnknown of an informer. It implements client-go's TransformFunc.
func Controller(object any) (any, error) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return &appsv1.Deployment{ObjectMeta: identity(&o.ObjectMeta), Spec: appsv1.DeploymentSpec{Replicas: o.Spec.Replicas, Selector: o.Spec.Selector}}, nil
	case *appsv1.DaemonSet:
		return &appsv1.DaemonSet{ObjectMeta: identity(&o.ObjectMeta), Spec: appsv1.DaemonSetSpec{Selector: o.Spec.Selector},
			Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: o.Status.DesiredNumberScheduled}}, nil
	case *appsv1.ReplicaSet:
		return &appsv1.ReplicaSet{ObjectMeta: identity(&o.ObjectMeta), Spec: appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, Selector: o.Spec.Selector},
			Status: appsv1.ReplicaSetStatus{Conditions: only(o.Status.Conditions, func(c *appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })}}, nil
	case *appsv1.StatefulSet:
		return &appsv1.StatefulSet{ObjectMeta: identity(&o.ObjectMeta), Spec: appsv1.StatefulSetSpec{Replicas: o.Spec.Replicas, Selector: o.Spec.Selector}}, nil
	case *corev1.ReplicationController:
		return &corev1.ReplicationController{ObjectMeta: identity(&o.ObjectMeta),
			Spec: corev1.ReplicationControllerSpec{Replicas: o.Spec.Replicas, Selector: o.Spec.Selector},
			Status: corev1.ReplicationControllerStatus{Conditions: only(o.Status.Conditions, func(c *corev1.ReplicationControllerCondition) bool {
				return c.Type == corev1.ReplicationControllerReplicaFailure
			})}}, nil
	case *batchv1.Job:
		return &batchv1.Job{ObjectMeta: identity(&o.ObjectMeta), Spec: batchv1.JobSpec{Selector: o.Spec.Selector}}, nil
	case *batchv1.CronJob:
		out := &batchv1.CronJob{ObjectMeta: identity(&o.ObjectMeta)}
		out.Spec.JobTemplate.Spec.Template.Labels = o.Spec.JobTemplate.Spec.Template.Labels
		return out, nil
	}
	return Metadata(object)
}

// ControllerWithTemplate is Controller, and keeps name and resources of the containers in the pod template of a direct owner of
// pods.
func ControllerWithTemplate(object any) (any, error) {
	out, err := Controller(object)
	from := target.OwnTemplate(object)
	if from == nil {
		return out, err
	}
	kept := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: containers(from.Spec.Containers).list}}
	if rc, is := out.(*corev1.ReplicationController); is {
		rc.Spec.Template = &kept
	} else {
		*target.PodTemplate(out) = kept
	}
	return out, err
}

// only keeps some conditions; most controllers have none of them.
func only[C any](list []C, keep func(*C) bool) (kept []C) {
	for i := range list {
		if keep(&list[i]) {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// identity keeps what names an object and its owners.
func identity(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, OwnerReferences: oneOfOwners(m.OwnerReferences),
	}
}
