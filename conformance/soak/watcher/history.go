package watcher

import (
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// App is the label that ties a pod to its workload: a Deployment of that name, which VPAs name as their target.
const App = "app"

// key is a name in a namespace.
type key = types.NamespacedName

// History is what the objects of the cluster were like over time.
type History struct {
	mu     sync.Mutex
	pods   lines[key, pod]
	sets   lines[key, set]
	vpas   lines[key, vpa]
	ranges lines[key, bounds] // LimitRanges of containers
	pdbs   lines[key, pdb]
	of     map[key]map[key]bool // pods by their ReplicaSet, those of the past as well
}

// NewHistory is one that knows nothing yet.
func NewHistory() *History {
	return &History{pods: lines[key, pod]{}, sets: lines[key, set]{}, vpas: lines[key, vpa]{}, ranges: lines[key, bounds]{}, pdbs: lines[key, pdb]{},
		of: map[key]map[key]bool{}}
}

// pod is what matters of a pod. Terminating pods do not exist.
type pod struct {
	uid              types.UID
	set              key
	app              string
	started, ready   bool
	boosted, updated bool           // by admission: with a startup boost; with recommended resources
	requests         map[string]int // by container and resource, as "app/cpu"; of the pod itself as "/cpu". Milli-cores, bytes
}

// set is what matters of a ReplicaSet.
type set struct{ replicas int }

// vpa is what matters of a VerticalPodAutoscaler.
type vpa struct {
	app         string
	mode        vpav1.UpdateMode
	minReplicas *int
	boosts      bool
	bounds      map[string]bounds // by container, * = others, empty = of the pod
}

// pdb is what matters of a PodDisruptionBudget.
type pdb struct {
	app          string
	minAvailable int
}

// bounds are the least and the greatest requests, by resource.
type bounds struct{ min, max map[string]int }

// Saw takes note of an object that was created or changed, or seen again.
func (h *History) Saw(at time.Time, object client.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := client.ObjectKeyFromObject(object)
	switch o := object.(type) {
	case *corev1.Pod:
		h.sawPod(at, k, o)
	case *appsv1.ReplicaSet:
		h.sets.set(k, at, &set{int(ptr.Deref(o.Spec.Replicas, 1))})
	case *vpav1.VerticalPodAutoscaler:
		h.vpas.set(k, at, vpaOf(o))
	case *policyv1.PodDisruptionBudget:
		h.pdbs.set(k, at, &pdb{app: o.Spec.Selector.MatchLabels[App], minAvailable: o.Spec.MinAvailable.IntValue()})
	case *corev1.LimitRange:
		for _, l := range o.Spec.Limits {
			if l.Type == corev1.LimitTypeContainer {
				h.ranges.set(k, at, &bounds{amounts(l.Min), amounts(l.Max)})
			}
		}
	}
}

// Gone takes note of an object that was deleted.
func (h *History) Gone(at time.Time, object client.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := client.ObjectKeyFromObject(object)
	switch object.(type) {
	case *corev1.Pod:
		h.pods.set(k, at, nil)
	case *appsv1.ReplicaSet:
		h.sets.set(k, at, nil)
	case *vpav1.VerticalPodAutoscaler:
		h.vpas.set(k, at, nil)
	case *policyv1.PodDisruptionBudget:
		h.pdbs.set(k, at, nil)
	case *corev1.LimitRange:
		h.ranges.set(k, at, nil)
	}
}

func (h *History) sawPod(at time.Time, k key, o *corev1.Pod) {
	owner := client.ObjectKey{Namespace: o.Namespace}
	for _, ref := range o.OwnerReferences {
		if ptr.Deref(ref.Controller, false) {
			owner.Name = ref.Name
		}
	}
	if o.DeletionTimestamp != nil || o.Status.Phase == corev1.PodFailed || o.Status.Phase == corev1.PodSucceeded {
		h.pods.set(k, at, nil)
		return
	}
	if h.of[owner] == nil {
		h.of[owner] = map[key]bool{}
	}
	h.of[owner][k] = true
	h.pods.set(k, at, podOf(o, owner))
}

func podOf(o *corev1.Pod, owner key) *pod {
	p := &pod{uid: o.UID, set: owner, app: o.Labels[App], started: o.Status.Phase == corev1.PodRunning, requests: map[string]int{}}
	for _, c := range o.Status.Conditions {
		p.ready = p.ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	for name := range o.Annotations {
		p.boosted = p.boosted || strings.HasPrefix(name, "vpaCpuStartupBoost/")
	}
	p.updated = o.Annotations["vpaUpdates"] != ""
	for _, c := range o.Spec.Containers {
		p.ask(c.Name, c.Resources.Requests)
	}
	if o.Spec.Resources != nil {
		p.ask("", o.Spec.Resources.Requests)
	}
	return p
}

func (p *pod) ask(container string, requests corev1.ResourceList) {
	for resource, amount := range amounts(requests) {
		p.requests[container+"/"+resource] = amount
	}
}

// amounts are quantities of CPU in milli-cores, and of memory in bytes.
func amounts(list corev1.ResourceList) map[string]int {
	out := map[string]int{}
	if cpu, ok := list[corev1.ResourceCPU]; ok {
		out["cpu"] = int(cpu.MilliValue())
	}
	if memory, ok := list[corev1.ResourceMemory]; ok {
		out["memory"] = int(memory.Value())
	}
	return out
}

func vpaOf(o *vpav1.VerticalPodAutoscaler) *vpa {
	v := &vpa{mode: vpav1.UpdateModeRecreate, boosts: o.Spec.StartupBoost != nil, bounds: map[string]bounds{}}
	if o.Spec.TargetRef != nil {
		v.app = o.Spec.TargetRef.Name
	}
	if p := o.Spec.UpdatePolicy; p != nil {
		v.mode = ptr.Deref(p.UpdateMode, v.mode)
		if p.MinReplicas != nil {
			v.minReplicas = ptr.To(int(*p.MinReplicas))
		}
	}
	if p := o.Spec.ResourcePolicy; p != nil {
		for _, c := range p.ContainerPolicies {
			v.bounds[c.ContainerName] = bounds{amounts(c.MinAllowed), amounts(c.MaxAllowed)}
			v.boosts = v.boosts || c.StartupBoost != nil
		}
		if p.PodPolicies != nil {
			v.bounds[""] = bounds{amounts(p.PodPolicies.MinAllowed), amounts(p.PodPolicies.MaxAllowed)}
		}
	}
	return v
}
