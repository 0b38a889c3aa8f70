// Package watcher checks from outside that celvpa disrupts nothing that it must not disrupt. It knows the cluster by watches of its
// own, and what celvpa did by the API server's audit log; it shares no code with celvpa but the API types.
//
// celvpa learns of changes by watches, so it may act on what was true a little earlier. An act is right if it was right at some
// moment between the begin of what celvpa could not know (Known) and the act. What celvpa did itself since that moment counts as
// known in any case: an own eviction must never be forgotten.
package watcher

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// App is the label that ties a pod to its workload: a Deployment of that name, which VPAs name as their target.
const App = "app"

// key is a name in a namespace.
type key = types.NamespacedName

// History is what the objects of the cluster were like over time.
type History struct {
	mu   sync.Mutex
	pods lines[key, pod]
	sets lines[key, set]
	vpas lines[key, vpa]
	pdbs lines[key, pdb]
	of   map[key]map[key]bool // pods by their ReplicaSet, those of the past as well
}

// NewHistory is one that knows nothing yet.
func NewHistory() *History {
	return &History{pods: lines[key, pod]{}, sets: lines[key, set]{}, vpas: lines[key, vpa]{}, pdbs: lines[key, pdb]{},
		of: map[key]map[key]bool{}}
}

// pod is what matters of a pod. Terminating pods do not exist.
type pod struct {
	uid            types.UID
	set            key
	app            string
	started, ready bool
	boosted        bool // by admission
}

// set is what matters of a ReplicaSet.
type set struct{ replicas int }

// vpa is what matters of a VerticalPodAutoscaler.
type vpa struct {
	app         string
	mode        vpav1.UpdateMode
	minReplicas *int
}

// pdb is what matters of a PodDisruptionBudget.
type pdb struct {
	app          string
	minAvailable int
}

// Follow takes note of all that watches deliver, as of the moment in which they do. It waits for nothing: start the cache afterwards.
func (h *History) Follow(ctx context.Context, from cache.Cache) error {
	for _, kind := range []client.Object{&corev1.Pod{}, &appsv1.ReplicaSet{}, &vpav1.VerticalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}} {
		informer, err := from.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { h.Saw(time.Now(), o.(client.Object)) },
			UpdateFunc: func(_, o any) { h.Saw(time.Now(), o.(client.Object)) },
			DeleteFunc: func(o any) {
				if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = unknown.Obj
				}
				h.Gone(time.Now(), o.(client.Object))
			},
		})
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return nil
}

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
	p := &pod{uid: o.UID, set: owner, app: o.Labels[App], started: o.Status.Phase == corev1.PodRunning}
	for _, c := range o.Status.Conditions {
		p.ready = p.ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	for name := range o.Annotations {
		p.boosted = p.boosted || strings.HasPrefix(name, "vpaCpuStartupBoost/")
	}
	return p
}

func vpaOf(o *vpav1.VerticalPodAutoscaler) *vpa {
	v := &vpa{mode: vpav1.UpdateModeRecreate}
	if o.Spec.TargetRef != nil {
		v.app = o.Spec.TargetRef.Name
	}
	if p := o.Spec.UpdatePolicy; p != nil {
		v.mode = ptr.Deref(p.UpdateMode, v.mode)
		if p.MinReplicas != nil {
			v.minReplicas = ptr.To(int(*p.MinReplicas))
		}
	}
	return v
}
