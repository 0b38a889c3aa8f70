package manifests

import (
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/poddefaults"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine/faults"
)

var (
	podKind        = schema.GroupKind{Kind: "Pod"}
	limitRangeKind = schema.GroupKind{Kind: "LimitRange"}
)

// workloadKinds are Kubernetes' own controllers of pods, in version v1.
var workloadKinds = []struct {
	schema.GroupKind
	make func() client.Object
}{
	{schema.GroupKind{Group: "batch", Kind: "CronJob"}, func() client.Object { return &batchv1.CronJob{} }},
	{schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, func() client.Object { return &appsv1.DaemonSet{} }},
	{schema.GroupKind{Group: "apps", Kind: "Deployment"}, func() client.Object { return &appsv1.Deployment{} }},
	{schema.GroupKind{Group: "batch", Kind: "Job"}, func() client.Object { return &batchv1.Job{} }},
	{schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, func() client.Object { return &appsv1.ReplicaSet{} }},
	{schema.GroupKind{Kind: "ReplicationController"}, func() client.Object { return &corev1.ReplicationController{} }},
	{schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, func() client.Object { return &appsv1.StatefulSet{} }},
}

// Workload is a controller of pods.
type Workload struct {
	schema.GroupKind
	Namespace string
	Name      string
	// Object is typed, with its selector defaulted as by an API server; nil for custom kinds.
	Object   client.Object
	Selector string                  // without Object, in a scale's form; empty = unknown
	Owners   []metav1.OwnerReference // without Object
	Replicas *int32                  // without Object; nil = unknown
	Template corev1.PodTemplateSpec  // empty if unknown

	created metav1.Time // without Object; zero = unknown
	written *Document   // nil = not in the manifests
}

// String returns e.g. Deployment web/shop.
func (w *Workload) String() string { return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name) }

// Uncounted says why the manifests do not determine the number of pods; empty if they do.
func (w *Workload) Uncounted() string {
	if w.written == nil {
		return "is not in the manifests"
	}
	switch o := w.Object.(type) {
	case nil:
		if w.Replicas == nil {
			return "has no spec.replicas"
		}
	case *appsv1.DaemonSet:
		if o.Status.DesiredNumberScheduled == 0 {
			return "has no status.desiredNumberScheduled"
		}
	}
	return ""
}

// OwnerReferences are those of its manifest.
func (w *Workload) OwnerReferences() []metav1.OwnerReference {
	if w.Object == nil {
		return w.Owners
	}
	return w.Object.GetOwnerReferences()
}

// APIVersion is that of its manifest; empty without one.
func (w *Workload) APIVersion() string {
	if w.written == nil {
		return ""
	}
	return w.written.APIVersion
}

// CurrentVersion is the apiVersion of its kind, for one of Kubernetes' own.
func (w *Workload) CurrentVersion() string { return apiVersionOf(w.GroupKind) }

// OldVersion is the error about a workload in an apiVersion that API servers no longer serve.
type OldVersion struct{ text string }

// Error names the apiVersion to write.
func (o *OldVersion) Error() string { return o.text }

// Workloads returns the CronJobs, DaemonSets, Deployments, Jobs, ReplicaSets,
// ReplicationControllers and StatefulSets, in that order, with omitted selectors defaulted. Those in
// an old apiVersion are errors, and returned all the same.
func (s *Set) Workloads() ([]Workload, error) {
	var out []Workload
	var errs []error
	for _, kind := range workloadKinds {
		var documents []Document
		for i := range s.Documents {
			d := &s.Documents[i]
			if d.Kind != kind.Kind || d.Group() != kind.Group && d.Group() != "extensions" {
				continue
			}
			documents = append(documents, *d)
			if current := kind.WithVersion("v1").GroupVersion().String(); d.APIVersion != current {
				errs = append(errs, &OldVersion{fmt.Sprintf("%s: %s has apiVersion %s; write %s", d.Source, d, d.APIVersion, current)})
			}
		}
		found, unread := decodeAll(documents, func(d *Document) (Workload, error) {
			object := kind.make()
			err := d.decode(object)
			object.SetNamespace(d.Namespace)
			object.SetName(d.Name)
			w := newWorkload(kind.GroupKind, object)
			w.written = d
			return w, err
		})
		out, errs = append(out, found...), append(errs, unread)
	}
	return out, faults.Join(errs...)
}

func newWorkload(kind schema.GroupKind, object client.Object) Workload {
	w := Workload{GroupKind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Object: object}
	if template := target.PodTemplate(object); template != nil {
		w.Template = *template
	}
	switch o := object.(type) {
	case *corev1.ReplicationController:
		if len(o.Spec.Selector) == 0 {
			o.Spec.Selector = w.Template.Labels
		}
	case *batchv1.Job:
		if o.Spec.Selector == nil {
			w.ownLabel()
			o.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: w.Template.Labels[batchv1.ControllerUidLabel]}}
		}
	}
	return w
}

// ownLabel adds the label by which a Job selects its pods, with its name in place of the UID.
func (w *Workload) ownLabel() {
	uid := string(w.Object.GetUID())
	if uid == "" {
		uid = w.Name
	}
	all := maps.Clone(w.Template.Labels)
	if all == nil {
		all = map[string]string{}
	}
	all[batchv1.JobNameLabel], all[batchv1.ControllerUidLabel] = w.Name, uid
	w.Template.Labels = all
}

// Pods returns the pods as running ones, with API server defaults.
func (s *Set) Pods() ([]corev1.Pod, error) {
	return decoded(s, podKind, func(pod *corev1.Pod, d *Document) {
		pod.Namespace, pod.Name = d.Namespace, d.Name
		poddefaults.Running(pod)
	})
}

// LimitRanges returns the LimitRanges with API server defaults. The first duplicate wins.
func (s *Set) LimitRanges() ([]corev1.LimitRange, error) {
	return decoded(s, limitRangeKind, func(r *corev1.LimitRange, d *Document) {
		r.Namespace = d.Namespace
		poddefaults.LimitRange(r)
	})
}

// WellKnown reports whether Kubernetes itself has a kind of workload, by kind alone as for VPA
// targets, and returns its group.
func WellKnown(kind string) (schema.GroupKind, bool) {
	for _, known := range workloadKinds {
		if known.Kind == kind {
			return known.GroupKind, true
		}
	}
	return schema.GroupKind{}, false
}

// StandIn is a workload missing from the manifests, with pods of these labels.
func StandIn(kind schema.GroupKind, namespace, name string, set map[string]string) (Workload, error) {
	w := Workload{GroupKind: kind, Namespace: namespace, Name: name}
	for _, known := range workloadKinds {
		if known.GroupKind != kind {
			continue
		}
		template := map[string]any{"metadata": map[string]any{"labels": set}}
		var selector any = map[string]any{"matchLabels": set}
		if kind.Kind == "ReplicationController" {
			selector = set
		}
		text, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"namespace": namespace, "name": name},
			"spec":     map[string]any{"selector": selector, "template": template, "jobTemplate": map[string]any{"spec": map[string]any{"template": template}}},
		})
		object := known.make()
		if err == nil {
			err = json.Unmarshal(text, object)
		}
		if err != nil {
			return w, fmt.Errorf("standing in for %s: %w", &w, err)
		}
		return newWorkload(kind, object), nil
	}
	w.Selector = labels.Set(set).String()
	w.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: set}}
	return w, nil
}
