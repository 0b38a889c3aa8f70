package slim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// annotationPrefix is that of all VPA annotations on pods (UPSTREAM.md §1.6).
const annotationPrefix = "vpa"

// annotationUpdates is the longest of them and for humans only.
const annotationUpdates = "vpaUpdates"

// Pod keeps what the recommender and the updater read of a pod:
//   - its identity, owners, labels and short annotations;
//   - of all containers, in their order, name, resources, resize and restart policies; the resources of the pod; its node,
//     restart policy and priority class;
//   - phase, reason, start, quality of service, resources and the conditions about readiness and resizes;
//   - of the status of all containers their resources, restarts, whether they run and how they terminated.
//
// Anything else is returned as it is, such as the DeletedFinalStateUnknown of an informer. It
// implements client-go's TransformFunc.
func Pod(object any) (any, error) {
	p, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	out := &corev1.Pod{ObjectMeta: identity(&p.ObjectMeta)}
	out.Generation, out.Labels, out.Annotations = p.Generation, oneOfTexts(p.Labels), oneOfTexts(Annotations(p.Annotations))
	main, inits := containers(p.Spec.Containers), containers(p.Spec.InitContainers)
	out.Spec = corev1.PodSpec{
		NodeName: p.Spec.NodeName, RestartPolicy: p.Spec.RestartPolicy, PriorityClassName: p.Spec.PriorityClassName, Resources: p.Spec.Resources,
		Containers: main.list, InitContainers: inits.list,
	}
	out.Status = corev1.PodStatus{
		Phase: p.Status.Phase, Reason: p.Status.Reason, StartTime: p.Status.StartTime, QOSClass: p.Status.QOSClass, Resize: p.Status.Resize,
		ObservedGeneration:    p.Status.ObservedGeneration,
		Resources:             shared(p.Status.Resources, out.Spec.Resources),
		Conditions:            conditions(p.Status.Conditions),
		ContainerStatuses:     main.statuses(p.Status.ContainerStatuses),
		InitContainerStatuses: inits.statuses(p.Status.InitContainerStatuses),
	}
	return out, nil
}

// maxAnnotation is the most bytes of key and value of an annotation that is kept for rules: tools note whole objects in others.
const maxAnnotation = 256

// Annotations are those that are known of a pod: VPA's own, but for vpaUpdates, and all others whose key and value together have
// at most 256 bytes. A pod with any annotations keeps a map: a patch that adds the map would replace them.
func Annotations(all map[string]string) map[string]string {
	n := 0
	for name, value := range all {
		if isKept(name, value) {
			n++
		}
	}
	if n == len(all) {
		return all
	}
	kept := make(map[string]string, n)
	for name, value := range all {
		if isKept(name, value) {
			kept[name] = value
		}
	}
	return kept
}

func isKept(name, value string) bool {
	return name != annotationUpdates && (len(name)+len(value) <= maxAnnotation || strings.HasPrefix(name, annotationPrefix))
}

// listed are the containers of a pod, and a key that is the same for those of another pod if they are.
type listed struct {
	list []corev1.Container
	key  string
}

// containers keeps what is read of containers. Pods whose containers are the same share them, also when
// an informer cuts them down again in another order, as it does after its first list.
func containers(all []corev1.Container) listed {
	if all == nil {
		return listed{}
	}
	kept, again := make([]corev1.Container, len(all)), true
	var key strings.Builder
	for i := range all {
		c := &all[i]
		again = again && c.Image == "" // which API servers require
		key.WriteString(c.Name + "|" + string(ptr.Deref(c.RestartPolicy, "")) + "|")
		for _, p := range c.ResizePolicy {
			key.WriteString(string(p.ResourceName) + ":" + string(p.RestartPolicy) + ",")
		}
		kept[i] = corev1.Container{Name: c.Name, Resources: requirements(c.Resources, &key), ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy}
		if len(c.Resources.Claims) > 0 { // too rare to be compared
			key.WriteString(fmt.Sprint(c.Resources.Claims))
		}
	}
	if again {
		kept = all
	}
	return listed{sharedContainers.of(key.String(), kept), key.String()}
}

// conditions keeps those about readiness and resizes.
func conditions(all []corev1.PodCondition) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for _, c := range all {
		switch c.Type {
		case corev1.PodReady, corev1.PodResizePending, corev1.PodResizeInProgress:
			kept = append(kept, c)
		}
	}
	return kept
}

// statuses keeps what is read of the status of containers. Pods share it like their containers, unless one of
// these has ended or has other resources than it asks for.
func (l listed) statuses(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	if all == nil {
		return nil
	}
	kept, alike, again := make([]corev1.ContainerStatus, len(all)), true, true
	var key strings.Builder
	key.WriteString(l.key)
	for i := range all {
		s := &all[i]
		kept[i] = corev1.ContainerStatus{
			Name: s.Name, RestartCount: s.RestartCount,
			State: state(s.State), LastTerminationState: state(s.LastTerminationState), Resources: s.Resources,
		}
		asks := s.Resources == nil
		for j := range l.list {
			if asked := &l.list[j].Resources; l.list[j].Name == s.Name {
				kept[i].Resources = shared(s.Resources, asked)
				asks = asks || kept[i].Resources == asked
			}
		}
		again = again && s.ContainerID == "" && s.Image == "" && s.Started == nil && s.State.Waiting == nil && s.State.Running == kept[i].State.Running && s.Resources == kept[i].Resources
		alike = alike && asks && kept[i].State.Terminated == nil && kept[i].LastTerminationState.Terminated == nil
		fmt.Fprintf(&key, "/%s %d %t %t", s.Name, s.RestartCount, s.State.Running != nil, s.Resources != nil)
	}
	if again {
		kept = all
	}
	if !alike {
		return kept
	}
	return sharedStatuses.of(key.String(), kept)
}

// running is the state of every container that runs.
var running = &corev1.ContainerStateRunning{}

// state keeps whether a container runs, and how it ended.
func state(s corev1.ContainerState) (out corev1.ContainerState) {
	if s.Running != nil {
		out.Running = running
	}
	if t := s.Terminated; t != nil {
		out.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: t.ExitCode, Signal: t.Signal, Reason: t.Reason, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt,
		}
	}
	return out
}

// shared is the resources in the status, sharing the memory of those in the spec where both are
// equal, as they usually are: resource lists take more memory than all else.
func shared(actual, asked *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if actual == nil || asked == nil {
		return actual
	}
	requests, limits := equal(actual.Requests, asked.Requests), equal(actual.Limits, asked.Limits)
	if requests && limits && len(actual.Claims) == 0 && len(asked.Claims) == 0 {
		return asked
	}
	out := corev1.ResourceRequirements{Requests: actual.Requests, Limits: actual.Limits}
	if requests {
		out.Requests = asked.Requests
	}
	if limits {
		out.Limits = asked.Limits
	}
	return &out
}

// equal compares quantities as they are written.
func equal(a, b corev1.ResourceList) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for name, x := range a {
		y, ok := b[name]
		if !ok || x.Format != y.Format || x.Cmp(y) != 0 {
			return false
		}
	}
	return true
}

// Pods lists the pods of a cache by pointer: a client's List copies them all, which is 1.2 KiB a pod. The
// zero value is ready for use, and safe for concurrent use.
type Pods struct {
	mu     sync.Mutex
	stores []toolscache.Store // one for each namespace that the cache is restricted to, else one
}

// Informer makes the informers of a cache, as its option NewInformer, and remembers those of pods.
func (p *Pods) Informer(source toolscache.ListerWatcher, of runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	informer := toolscache.NewSharedIndexInformer(source, of, resync, indexers)
	if _, ok := of.(*corev1.Pod); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stores = append(p.stores, informer.GetStore())
	}
	return informer
}

// List returns the pods, in any order. Callers must not change them.
func (p *Pods) List() []*corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*corev1.Pod
	for _, store := range p.stores {
		listed := store.List()
		out = slices.Grow(out, len(listed))
		for _, object := range listed {
			out = append(out, object.(*corev1.Pod))
		}
	}
	return out
}
