// Package watcher checks from outside that celvpa disrupts nothing that it must not disrupt. It knows the cluster by watches of its
// own, and what celvpa did by the API server's audit log; it shares no code with celvpa but the API types.
//
// celvpa learns of changes by watches, so it may act on what was true a little earlier. An act is right if it was right at some
// moment between the begin of what celvpa could not know (Known) and the act. What celvpa did itself since that moment counts as
// known in any case: an own eviction must never be forgotten.
package watcher

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sort"
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

// Rules are what celvpa has to keep to, as flags that hold for all VPAs.
type Rules struct {
	MinReplicas int     // of VPAs without minReplicas
	Tolerance   float64 // of evictions, as a share of the replicas
}

// Act is an eviction or a resize that the API server carried out for celvpa.
type Act struct {
	At     time.Time // when it was asked for
	Resize bool
	Pod    key
}

// String names the act.
func (a Act) String() string {
	verb := "eviction"
	if a.Resize {
		verb = "resize"
	}
	return fmt.Sprintf("%s of pod %s at %s", verb, a.Pod, a.At.Format("15:04:05.000"))
}

// Judge finds acts that were wrong.
type Judge struct {
	*History
	Rules Rules
	// Known is the begin of what celvpa may not have known at a moment.
	Known func(time.Time) time.Time

	evictions []Act // in the order of time
}

// Judge says what was wrong with an act; nothing, if it was right. Acts come in the order of time, and some seconds after they
// happened, when the watches have shown what they led to.
func (j *Judge) Judge(a Act) (wrong []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	known := j.Known(a.At)
	p := j.before(a)
	if p == nil {
		return []string{fmt.Sprintf("%s: the watcher has not seen this pod", a)}
	}
	if a.Resize && p.boosted { // the end of the boost
		return nil
	}
	if a.Resize {
		resizes := []vpav1.UpdateMode{vpav1.UpdateModeInPlace, vpav1.UpdateModeInPlaceOrRecreate}
		if text := j.inMode(a, p, known, "resizes", resizes); text != "" {
			wrong = append(wrong, fmt.Sprintf("%s of workload %s: %s", a, p.app, text))
		}
		return wrong
	}
	defer func() { j.evictions = append(j.evictions, a) }()
	for _, check := range []func(Act, *pod, time.Time) string{j.mode, j.minReplicas, j.tolerance, j.budgets} {
		if text := check(a, p, known); text != "" {
			wrong = append(wrong, fmt.Sprintf("%s of workload %s: %s", a, p.app, text))
		}
	}
	return wrong
}

// before is the pod before an act, as it was last seen alive. The API server answers an eviction a little after watches show it.
func (j *Judge) before(a Act) *pod {
	l := j.pods[a.Pod]
	if l == nil {
		return nil
	}
	for i := len(l.states) - 1; i >= 0; i-- {
		if s := l.states[i]; s.is != nil && !s.from.After(a.At) {
			return s.is
		}
	}
	return nil
}

// moments are those from the begin of what was known until an act, at which something may have changed, the act's first.
func moments(known, at time.Time, changes []time.Time) []time.Time {
	out := append(changes, known, at)
	slices.SortFunc(out, func(a, b time.Time) int { return b.Compare(a) })
	return slices.Compact(out)
}

// ownersAt are the VPAs of a workload at a moment, in the order of their names.
func (j *Judge) ownersAt(a Act, app string, at time.Time) (out []*vpa) {
	for _, k := range sorted(j.vpas) {
		if v := j.vpas[k].at(at); v != nil && k.Namespace == a.Pod.Namespace && v.app == app {
			out = append(out, v)
		}
	}
	return out
}

// vpaMoments are the moments at which the VPAs of a namespace changed.
func (j *Judge) vpaMoments(a Act, known time.Time) []time.Time {
	var out []time.Time
	for k, l := range j.vpas {
		if k.Namespace == a.Pod.Namespace {
			out = l.changes(out, known, a.At)
		}
	}
	return moments(known, a.At, out)
}

// mode: a VPA of the workload evicts.
func (j *Judge) mode(a Act, p *pod, known time.Time) string {
	evicts := []vpav1.UpdateMode{vpav1.UpdateModeRecreate, vpav1.UpdateModeAuto, vpav1.UpdateModeInPlaceOrRecreate}
	return j.inMode(a, p, known, "evicts", evicts)
}

func (j *Judge) inMode(a Act, p *pod, known time.Time, does string, modes []vpav1.UpdateMode) string {
	var seen []string
	for _, at := range j.vpaMoments(a, known) {
		for _, v := range j.ownersAt(a, p.app, at) {
			if slices.Contains(modes, v.mode) {
				return ""
			}
			seen = append(seen, string(v.mode))
		}
	}
	if len(seen) == 0 {
		return "it has no VPA"
	}
	return fmt.Sprintf("no VPA of it %s; modes: %s", does, strings.Join(slices.Compact(seen), ", "))
}

// minReplicas: the workload has as many live pods as its VPA asks for.
func (j *Judge) minReplicas(a Act, p *pod, known time.Time) string {
	if !p.started { // a pod that has not started disrupts nothing
		return ""
	}
	least := ""
	for _, at := range moments(known, a.At, j.podChanges(j.vpaMoments(a, known), p.set, known, a.At)) {
		required := j.Rules.MinReplicas
		for _, v := range j.ownersAt(a, p.app, at) {
			if v.minReplicas != nil {
				required = *v.minReplicas
			}
		}
		live := len(j.podsAt(p.set, at))
		if live >= required {
			return ""
		}
		least = cmp.Or(least, fmt.Sprintf("it had %d live pods, fewer than minReplicas %d", live, required))
	}
	return least
}

// tolerance: enough pods run that nobody disrupts.
func (j *Judge) tolerance(a Act, p *pod, known time.Time) string {
	if !p.started {
		return ""
	}
	problem := ""
	changes := j.sets[p.set].changes(nil, known, a.At)
	for _, at := range moments(known, a.At, j.podChanges(changes, p.set, known, a.At)) {
		owner := j.sets[p.set].at(at)
		if owner == nil {
			continue
		}
		undisturbed := 0
		for name, pod := range j.podsAt(p.set, at) {
			if pod.started && !j.evictedSince(name, pod, at, a) {
				undisturbed++
			}
		}
		may := max(1, int(float64(owner.replicas)*j.Rules.Tolerance))
		if undisturbed > owner.replicas-may {
			return ""
		}
		problem = cmp.Or(problem, fmt.Sprintf("%d of %d replicas ran undisturbed, of which %d may be disrupted at a time", undisturbed, owner.replicas, may))
	}
	return cmp.Or(problem, "its ReplicaSet does not exist")
}

// budgets: each PodDisruptionBudget of the pod allows it.
func (j *Judge) budgets(a Act, p *pod, known time.Time) string {
	for _, k := range sorted(j.pdbs) {
		if k.Namespace == a.Pod.Namespace {
			if text := j.budget(k.Name, j.pdbs[k], a, p, known); text != "" {
				return text
			}
		}
	}
	return ""
}

func (j *Judge) budget(name string, budgets *line[pdb], a Act, p *pod, known time.Time) string {
	problem := ""
	for _, at := range moments(known, a.At, j.podChanges(budgets.changes(nil, known, a.At), p.set, known, a.At)) {
		b := budgets.at(at)
		if b == nil || b.app != p.app || !p.ready {
			return ""
		}
		healthy := 0
		for set := range j.of {
			for name, pod := range j.podsAt(set, at) {
				if set.Namespace == a.Pod.Namespace && pod.app == b.app && pod.ready && !j.evictedSince(name, pod, at, a) {
					healthy++
				}
			}
		}
		if healthy > b.minAvailable {
			return ""
		}
		problem = cmp.Or(problem, fmt.Sprintf("PodDisruptionBudget %s wants %d pods, and %d were healthy", name, b.minAvailable, healthy))
	}
	return problem
}

// podsAt are the pods of a ReplicaSet that lived at a moment.
func (j *Judge) podsAt(set key, at time.Time) map[key]*pod {
	out := map[key]*pod{}
	for k := range j.of[set] {
		if p := j.pods[k].at(at); p != nil {
			out[k] = p
		}
	}
	return out
}

func (j *Judge) podChanges(out []time.Time, set key, known, at time.Time) []time.Time {
	for k := range j.of[set] {
		out = j.pods[k].changes(out, known, at)
	}
	return out
}

// evictedSince reports whether celvpa evicted a pod after a moment and before an act.
func (j *Judge) evictedSince(name key, p *pod, at time.Time, a Act) bool {
	return slices.ContainsFunc(j.evictions, func(e Act) bool {
		return e.Pod == name && !e.At.Before(at) && e.At.Before(a.At)
	})
}

func sorted[T any](l lines[key, T]) []key {
	out := make([]key, 0, len(l))
	for k := range l {
		out = append(out, k)
	}
	sort.Slice(out, func(i, k int) bool { return out[i].String() < out[k].String() })
	return out
}

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

// line is what something was like over time.
type line[T any] struct{ states []state[T] }

// state holds from a moment until the next state.
type state[T any] struct {
	from time.Time
	is   *T // nil = it does not exist
}

// set says what it is like from a moment on; moments ascend.
func (l *line[T]) set(at time.Time, is *T) {
	if n := len(l.states); n > 0 && reflect.DeepEqual(l.states[n-1].is, is) {
		return
	}
	l.states = append(l.states, state[T]{at, is})
}

// at is what it was like at a moment; nil = it did not exist.
func (l *line[T]) at(moment time.Time) *T {
	if l == nil {
		return nil
	}
	n, exact := slices.BinarySearchFunc(l.states, moment, func(s state[T], at time.Time) int { return s.from.Compare(at) })
	if exact {
		return l.states[n].is
	}
	if n == 0 {
		return nil
	}
	return l.states[n-1].is
}

// changes appends the moments in (from, to] at which it changed.
func (l *line[T]) changes(out []time.Time, from, to time.Time) []time.Time {
	if l == nil {
		return out
	}
	for _, s := range l.states {
		if s.from.After(from) && !s.from.After(to) {
			out = append(out, s.from)
		}
	}
	return out
}

// lines are those of many things, by key.
type lines[K comparable, T any] map[K]*line[T]

func (l lines[K, T]) set(key K, at time.Time, is *T) {
	known := l[key]
	if known == nil {
		known = &line[T]{}
		l[key] = known
	}
	known.set(at, is)
}
