package manifests

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/celvpa/celvpa/engine/faults"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
)

// NewPod is a pod to be created, from the manifests or from a workload's template.
type NewPod struct {
	// Pod is what a controller submits, without status. Name is empty if GenerateName is set.
	Pod *corev1.Pod
	// Object is the pod as written, completed if it comes from a template.
	Object map[string]any
	From   *Workload // workload whose template it is from; nil = written as a pod
	Source Place
}

// Key returns namespace/name, or namespace/generateName.
func (p *NewPod) Key() string { return p.Pod.Namespace + "/" + cmp.Or(p.Pod.Name, p.Pod.GenerateName) }

// String names the pod, e.g. web/shop- of Deployment web/shop.
func (p *NewPod) String() string {
	if p.From == nil {
		return "pod " + p.Key()
	}
	return "pod " + p.Key() + " of " + p.From.String()
}

// NewPods returns the pods as if created now, and one of each workload's template, sorted by
// namespace, name and kind of workload. The first duplicate wins.
func (s *Set) NewPods(workloads []Workload) ([]NewPod, error) {
	documents, err := s.Of(podKind, "v1")
	errs := []error{err}
	var out []NewPod
	seen := map[string]bool{}
	for i := range documents {
		d := &documents[i]
		if !d.generated && seen[d.Key()] {
			continue
		}
		seen[d.Key()] = true
		pod, err := d.newPod()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, pod)
	}
	for i := range workloads {
		if w := &workloads[i]; w.written != nil {
			pod, found, err := w.newPod()
			errs = append(errs, err)
			if found && err == nil {
				out = append(out, pod)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b NewPod) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Key(), b.Key()), cmp.Compare(a.kind(), b.kind()))
	})
	return out, faults.Join(errs...)
}

func (p *NewPod) kind() string {
	if p.From == nil {
		return ""
	}
	return p.From.Kind
}

func (d *Document) newPod() (NewPod, error) {
	out := NewPod{Pod: &corev1.Pod{}, Source: d.Source}
	if err := d.decode(out.Pod); err != nil {
		return out, err
	}
	if err := kjson.Unmarshal(d.JSON, &out.Object); err != nil {
		return out, fmt.Errorf("%s: %s cannot be read: %w", d.Source, d, err)
	}
	out.Pod.Namespace, out.Pod.Status = d.Namespace, corev1.PodStatus{}
	return out, nil
}

// newPod makes a pod of the template; found is false without one.
func (w *Workload) newPod() (out NewPod, found bool, err error) {
	d := w.written
	var object map[string]any
	if err := kjson.Unmarshal(d.JSON, &object); err != nil {
		return out, false, fmt.Errorf("%s: %s cannot be read: %w", d.Source, d, err)
	}
	path := []string{"spec", "template"}
	if w.GroupKind == cronJobKind {
		path = []string{"spec", "jobTemplate", "spec", "template"}
	}
	template := mapAt(object, path...)
	if mapAt(template, "spec") == nil || (w.Object == nil && len(w.Template.Spec.Containers) == 0) { // custom kinds may have another kind of template
		return out, false, nil
	}
	metadata := maps.Clone(mapAt(template, "metadata"))
	if metadata == nil {
		metadata = map[string]any{}
	}
	for _, own := range []string{"name", "generateName", "namespace", "creationTimestamp"} {
		delete(metadata, own) // ignored in templates
	}
	if written := mapAt(object, "metadata")["namespace"]; written != nil {
		metadata["namespace"] = written
	}
	metadata["generateName"] = w.Name + "-"
	if set, is := w.Object.(*appsv1.StatefulSet); is {
		delete(metadata, "generateName")
		metadata["name"] = fmt.Sprintf("%s-%d", w.Name, ptr.Deref(set.Spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start)
	}
	if len(w.Template.Labels) > 0 { // a Job has more labels than written
		labels := map[string]any{}
		for name, value := range w.Template.Labels {
			labels[name] = value
		}
		metadata["labels"] = labels
	}
	out = NewPod{From: w, Source: d.Source, Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"],
	}}
	out.Pod = &corev1.Pod{Spec: *w.Template.Spec.DeepCopy()}
	out.Pod.ObjectMeta = metav1.ObjectMeta{Namespace: w.Namespace, Labels: w.Template.Labels, Annotations: maps.Clone(w.Template.Annotations)}
	out.Pod.Name, _ = metadata["name"].(string)
	out.Pod.GenerateName, _ = metadata["generateName"].(string)
	out.Pod.OwnerReferences = []metav1.OwnerReference{w.PodOwner()}
	return out, true, nil
}

// PodOwner is the owner of a workload's pods: itself, or what Makes returns.
func (w *Workload) PodOwner() metav1.OwnerReference {
	made, makes := w.Makes()
	if !makes {
		return w.reference()
	}
	return metav1.OwnerReference{APIVersion: apiVersionOf(made.GroupKind), Kind: made.Kind, Name: made.Name, Controller: ptr.To(true)}
}

func (w *Workload) reference() metav1.OwnerReference {
	version := apiVersionOf(w.GroupKind)
	if w.written != nil {
		version = w.written.APIVersion
	}
	return metav1.OwnerReference{APIVersion: version, Kind: w.Kind, Name: w.Name, Controller: ptr.To(true)}
}

func apiVersionOf(kind schema.GroupKind) string {
	return kind.WithVersion("v1").GroupVersion().String()
}

// unnamed replaces the generated end of a name; no real name contains it.
const unnamed = "-%"

var (
	cronJobKind = schema.GroupKind{Group: "batch", Kind: "CronJob"}
	between     = map[schema.GroupKind]schema.GroupKind{
		{Group: "apps", Kind: "Deployment"}: {Group: "apps", Kind: "ReplicaSet"},
		cronJobKind:                         {Group: "batch", Kind: "Job"},
	}
)

// Makers are the kinds of workloads that make others, which own their pods.
var Makers = []string{"CronJob", "Deployment"}

// Makes returns what stands between a workload and its pods, a Deployment's ReplicaSet or a
// CronJob's Job, under a name that no object has. makes is false for workloads that own their pods.
func (w *Workload) Makes() (made Workload, makes bool) {
	kind, makes := between[w.GroupKind]
	if !makes {
		return Workload{}, false
	}
	return w.between(kind, w.Name+unnamed), true
}

// MakesNamed is Makes with a given name; makes is also false if name or kind do not match.
func (w *Workload) MakesNamed(kind, name string) (made Workload, makes bool) {
	of, makes := between[w.GroupKind]
	if !makes || of.Kind != kind || !w.wouldName(name) {
		return Workload{}, false
	}
	return w.between(of, name), true
}

func (w *Workload) between(kind schema.GroupKind, name string) Workload {
	for _, known := range workloadKinds {
		if known.GroupKind == kind {
			object := known.make()
			object.SetNamespace(w.Namespace)
			object.SetName(name)
			object.SetOwnerReferences([]metav1.OwnerReference{w.reference()})
			switch o := object.(type) {
			case *appsv1.ReplicaSet:
				o.Spec.Template.Spec = w.Template.Spec
			case *batchv1.Job:
				o.Spec.Template.Spec = w.Template.Spec
			}
			return newWorkload(kind, object)
		}
	}
	return Workload{} // only known kinds make anything
}

func mapAt(object map[string]any, path ...string) map[string]any {
	for _, key := range path {
		object, _ = object[key].(map[string]any)
	}
	return object
}
