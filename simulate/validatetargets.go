package simulate

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// targets are the workloads of the manifests, as targets of VPAs.
type targets struct {
	set *manifests.Set
	// Several of one name are of several clusters, or a patch and what it changes.
	byName map[target.Key][]*manifests.Workload
}

// targets notes the workloads that cannot be read: they are not what validation is about.
func (c *Cluster) targets() *targets {
	t := &targets{set: c.set, byName: map[target.Key][]*manifests.Workload{}}
	workloads, unread := c.set.Workloads()
	for i := range workloads {
		w := &workloads[i]
		t.byName[keyOf(w)] = append(t.byName[keyOf(w)], w)
	}
	for _, err := range faults.List(unread) {
		if _, old := err.(*manifests.OldVersion); !old { // a rule says so where it is a target
			c.note("%v; what depends on it is not checked", err)
		}
	}
	return t
}

// of is what the manifests say of a VPA's target.
func (t *targets) of(v *vpav1.VerticalPodAutoscaler) (out facts.Target) {
	of := target.Of(v)
	gv, err := schema.ParseGroupVersion(of.APIVersion)
	kind, wellKnown := manifests.WellKnown(of.Kind)
	if of.Kind == "" || of.Name == "" || err != nil {
		return out
	}
	if !wellKnown {
		kind = schema.GroupKind{Group: gv.Group, Kind: of.Kind}
	}
	if has, known := t.set.HasScale(kind); known {
		out.Scales = &has
	}
	same := t.byName[of.Unversioned()]
	if !wellKnown {
		if custom, found, err := t.set.Custom(kind, of.Namespace, of.Name); found && err == nil {
			same = []*manifests.Workload{&custom}
		}
	}
	if len(same) == 0 {
		out.Elsewhere = t.set.Namespaces(kind, of.Name, of.Namespace)
		return out
	}
	labelled, selects, templated, whole := false, false, false, false
	for _, w := range same {
		if version := w.APIVersion(); out.APIVersion == "" || version != w.CurrentVersion() {
			out.APIVersion = version
		}
		if limit := backoffLimit(w); limit != nil && (out.BackoffLimit == nil || *limit < *out.BackoffLimit) {
			out.BackoffLimit = limit
		}
		t.setOwner(&out, w)
		containers := w.Template.Spec.Containers
		partial := isPartial(w)
		if len(containers) > 0 && w.Object != nil && !partial {
			templated = true
			labelled = labelled || len(w.Template.Labels) > 0
		}
		selects = selects || !partial
		if len(containers) > 0 && !slices.ContainsFunc(containers, func(c corev1.Container) bool { return c.Image == "" }) {
			whole = true // a patch seldom names all images
		}
		out.Containers = union(out.Containers, w.Template.Spec.Containers)
		out.InitContainers = union(out.InitContainers, w.Template.Spec.InitContainers)
	}
	out.Unlabelled = templated && !labelled
	out.Unselected = whole && !selects
	return out
}

// setOwner is about the first owner that controls one of the same workloads.
func (t *targets) setOwner(out *facts.Target, w *manifests.Workload) {
	owner := target.ControllerOf(w.OwnerReferences())
	if owner == nil || out.Owner != "" || owner.Kind == "Node" {
		return
	}
	out.Owner = owner.Kind + " " + owner.Name
	if custom, kind := manifests.CustomOwner(w.OwnerReferences()); custom == nil {
		out.OwnerScales = ptr.To(true)
	} else if scalable, known := t.set.HasScale(kind); known {
		out.OwnerScales = &scalable
	}
}

func union(names []string, list []corev1.Container) []string {
	for i := range list {
		if !slices.Contains(names, list[i].Name) {
			names = append(names, list[i].Name)
		}
	}
	return names
}

func backoffLimit(w *manifests.Workload) *int32 {
	switch o := w.Object.(type) {
	case *batchv1.Job:
		return o.Spec.BackoffLimit
	case *batchv1.CronJob:
		return o.Spec.JobTemplate.Spec.BackoffLimit
	}
	return nil
}

// isPartial: API servers require a selector of these, so that one without is a patch, or a mistake.
func isPartial(w *manifests.Workload) bool {
	switch o := w.Object.(type) {
	case *appsv1.Deployment:
		return o.Spec.Selector == nil
	case *appsv1.DaemonSet:
		return o.Spec.Selector == nil
	case *appsv1.ReplicaSet:
		return o.Spec.Selector == nil
	case *appsv1.StatefulSet:
		return o.Spec.Selector == nil
	}
	return false
}
