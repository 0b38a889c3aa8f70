package simulate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/faults"
)

// Stage is what a replay of usage begins with: the objects of the manifests, and the pods that the
// usage is of. Nothing on it has a recommendation yet.
type Stage struct {
	VPAs        []*vpav1.VerticalPodAutoscaler // without status, in the order of the manifests
	Workloads   []*StagedWorkload              // those that have pods, by namespace, name and kind
	LimitRanges map[string][]corev1.LimitRange // by namespace
	Objects     facts.Objects
	Budgets     []policyv1.PodDisruptionBudget // by namespace and name
	Resolver    *target.Resolver               // of targets and of the owners of staged pods
	// Selects reports whether results are about a VPA; nil = they are about all workloads, with a VPA or without.
	Selects func(*vpav1.VerticalPodAutoscaler) bool
}

// StagedWorkload is a workload whose pods have usage.
type StagedWorkload struct {
	Namespace, Name, Kind string
	Template              corev1.PodTemplateSpec // without containers where the manifests lack the workload
	Pods                  []StagedPod            // by name
}

// StagedPod is a pod that the usage is of.
type StagedPod struct {
	ID model.PodID
	// First is the pod as it was written, or as the template makes it. Next is what its workload
	// makes in its place once it is evicted. Neither has been through admission, nor has a status;
	// both name their owner and the containers that the usage has and they lacked.
	First, Next *corev1.Pod
}

// String returns e.g. Deployment web/shop.
func (w *StagedWorkload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// Stage sets the stage for a replay of usage, whose series are sorted by pod and container. The
// error lists what cannot be used; notes name guesses, and what is left out.
func (c *Cluster) Stage(usage []Seen) (*Stage, error) {
	w, unusable := c.world()
	p, unread := w.place(usage, time.Time{})
	budgets, unreadBudgets := c.budgets()
	out := &Stage{Budgets: budgets, LimitRanges: w.ranges, Objects: c.set}
	if c.selection != nil {
		out.Selects = c.Selects
	}
	for _, v := range w.vpas {
		object := v.Object.DeepCopy()
		object.Status = vpav1.VerticalPodAutoscalerStatus{}
		out.VPAs = append(out.VPAs, object)
	}
	c.stageWorkloads(out, p, usage)
	known := p.known()
	for _, w := range p.workloads {
		if made, makes := w.Makes(); makes {
			known = append(known, made)
		}
	}
	out.Resolver = &target.Resolver{Client: c.set.Client(known)}
	return out, faults.Join(unusable, unread, unreadBudgets)
}

// stageWorkloads stages the workloads with usage. Pods of one that another makes are the other's.
func (c *Cluster) stageWorkloads(out *Stage, p *placement, usage []Seen) {
	containers := map[model.PodID][]string{}
	for _, of := range usage {
		containers[of.Pod] = append(containers[of.Pod], of.Container)
	}
	staged := map[*placed]*StagedWorkload{}
	var idle []string
	for _, w := range p.workloads {
		top := p.top(w)
		for _, pod := range w.stagedPods(p, top, containers) {
			s := staged[top]
			if s == nil {
				s = &StagedWorkload{Namespace: top.Namespace, Name: top.Name, Kind: top.Kind, Template: top.Template}
				staged[top] = s
				out.Workloads = append(out.Workloads, s)
			}
			s.Pods = append(s.Pods, pod)
		}
	}
	for _, w := range p.workloads {
		if p.top(w) == w && staged[w] == nil {
			idle = append(idle, w.String())
		}
	}
	if len(idle) > 0 {
		slices.Sort(idle)
		c.note("ignored %s without usage in the history: %s", Counted(len(idle), "workload"), Few(idle))
	}
	for _, s := range out.Workloads {
		slices.SortFunc(s.Pods, func(a, b StagedPod) int { return strings.Compare(a.ID.Name, b.ID.Name) })
	}
	slices.SortFunc(out.Workloads, func(a, b *StagedWorkload) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
}

// top is the workload that makes another, or itself.
func (p *placement) top(w *placed) *placed {
	for range p.workloads {
		owner := target.ControllerOf(w.OwnerReferences())
		if owner == nil || w.Object == nil {
			return w
		}
		above := p.made(w.Namespace, owner.Kind, owner.Name)
		if above == nil {
			return w
		}
		w = above
	}
	return w
}

// stagedPods are the pods of a workload that have usage.
func (w *placed) stagedPods(p *placement, top *placed, containers map[model.PodID][]string) (out []StagedPod) {
	next := func(id model.PodID, like *corev1.Pod) *corev1.Pod {
		from := top
		if len(from.Template.Spec.Containers) == 0 {
			from = w
		}
		pod := &corev1.Pod{Spec: *from.Template.Spec.DeepCopy()}
		pod.Labels, pod.Annotations = from.Template.Labels, from.Template.Annotations
		if len(pod.Spec.Containers) == 0 && like != nil {
			pod.Spec, pod.Labels, pod.Annotations = *like.Spec.DeepCopy(), like.Labels, nil
		}
		return staged(pod, id, top.PodOwner(), containers[id])
	}
	for _, pod := range w.manifests {
		id := model.PodID{Namespace: pod.Namespace, Name: pod.Name}
		if len(containers[id]) == 0 {
			continue
		}
		first := &corev1.Pod{Spec: *pod.Spec.DeepCopy()}
		first.Labels, first.Annotations = pod.Labels, pod.Annotations
		out = append(out, StagedPod{ID: id, First: staged(first, id, top.PodOwner(), nil), Next: next(id, pod)})
	}
	for _, seen := range w.inUsage {
		pod := next(seen.id, nil)
		out = append(out, StagedPod{ID: seen.id, First: pod, Next: pod})
	}
	return out
}

// staged completes a pod with its name, its owner and extra containers.
func staged(pod *corev1.Pod, id model.PodID, owner metav1.OwnerReference, containers []string) *corev1.Pod {
	pod.Namespace, pod.Name = id.Namespace, id.Name
	pod.OwnerReferences = []metav1.OwnerReference{owner}
	pod.Spec.NodeName = ""
	for _, name := range containers {
		if !hasContainer(&pod.Spec, name) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
		}
	}
	return pod
}
