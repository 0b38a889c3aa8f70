// Package oom detects containers that ran out of memory: killed ones from the statuses of pods, and
// those whose pod was evicted by its kubelet from events (UPSTREAM.md §2.10). The rules decide what
// follows for the recommendation.
package oom

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/metric"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

const maxRemember = 10000 // events

// Observer collects the containers that ran out of memory between two cycles. It keeps at most 5000
// kills and, apart from them, 5000 evictions: anyone who may edit a namespace can forge events, but
// not the statuses of pods. It counts and logs what it drops. Upstream blocks its watch instead.
//
// It watches from the start of the process, also without the lead. A new process sees the events of
// the last hour and the kills in pod statuses again, so some of them were counted before, by itself
// or by another process: the recommender finds out from its checkpoints.
//
// It handles pods and events of informers, and is safe for concurrent use.
type Observer struct {
	log    logr.Logger
	served func(namespace string) bool
	seen   *lru.Cache // UIDs of events

	mu        sync.Mutex
	kills     queue
	evictions queue
	faults    int   // faulty events since the last Drain
	fault     error // the first of them
}

var _ toolscache.ResourceEventHandler = (*Observer)(nil)

// NewObserver returns an empty Observer. Served selects namespaces; nil = all.
func NewObserver(log logr.Logger, served func(namespace string) bool) *Observer {
	return &Observer{log: log, served: served, seen: lru.New(maxRemember)}
}

// Events configures a cache of events for an Observer: only those about evictions, and of them only
// the fields that it reads.
func Events() cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector("reason", evicted), Transform: slim}
}

// slim keeps of an event what FromEviction reads, and what identifies it. API servers limit neither
// the name of the pod nor single annotations, so those that are too long are cut: FromEviction
// refuses them.
func slim(o any) (any, error) {
	event, ok := o.(*corev1.Event)
	if !ok {
		return o, nil
	}
	kept := &corev1.Event{
		TypeMeta: event.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: event.Namespace, Name: event.Name, UID: event.UID,
			ResourceVersion: event.ResourceVersion, CreationTimestamp: event.CreationTimestamp,
		},
		Reason: event.Reason,
	}
	if about := &event.InvolvedObject; about.Kind == podKind {
		kept.InvolvedObject = corev1.ObjectReference{Kind: podKind, Namespace: about.Namespace, Name: cut(about.Name, maxPodName)}
	}
	for _, name := range annotations {
		if text, there := event.Annotations[name]; there {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, name, cut(text, maxAnnotation))
		}
	}
	return kept, nil
}

// cut keeps one byte more of a text than it may have, if there are more.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.Clone(text[:most+1]) // which does not hold the whole text
}

// Register subscribes the Observer to the pods of a cache and, with evictions, to its events, which
// Events should configure. A cache may be started later. Without permission to list and watch
// events, leave evictions out: the cache would never sync.
func (o *Observer) Register(ctx context.Context, from cache.Cache, evictions bool) error {
	kinds := []client.Object{&corev1.Pod{}}
	if evictions {
		kinds = append(kinds, &corev1.Event{})
	}
	for _, kind := range kinds {
		informer, err := from.GetInformer(ctx, kind)
		if err == nil {
			_, err = informer.AddEventHandler(o)
		}
		if err != nil {
			return fmt.Errorf("watching %T for containers that ran out of memory: %w", kind, err)
		}
	}
	return nil
}

// OnAdd handles events about evictions, and new pods: a container may already have been killed.
func (o *Observer) OnAdd(obj any, _ bool) {
	if pod, ok := obj.(*corev1.Pod); ok {
		if found := FromFirst(pod); len(found) > 0 && o.serves(pod.Namespace) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.addKills(found)
		}
		return
	}
	event, ok := obj.(*corev1.Event)
	if !ok || event == nil || !o.serves(event.InvolvedObject.Namespace) {
		return
	}
	found, err := FromEviction(event)
	if len(found) == 0 && err == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if event.UID != "" {
		if _, again := o.seen.Get(event.UID); again {
			return
		}
		o.seen.Add(event.UID, nil)
	}
	if err != nil {
		faultyEvictions.Inc()
		if o.faults++; o.fault == nil {
			o.fault = err
		}
	}
	ooms.WithLabelValues(fromEviction).Add(float64(len(found)))
	o.evictions.add(found)
}

// OnUpdate handles changes of pods.
func (o *Observer) OnUpdate(oldObj, newObj any) {
	before, _ := oldObj.(*corev1.Pod)
	now, _ := newObj.(*corev1.Pod)
	found := FromPod(before, now)
	if len(found) == 0 || !o.serves(now.Namespace) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.addKills(found)
}

// OnDelete does nothing: a kill that was not seen before its pod was deleted is lost, as in
// upstream.
func (o *Observer) OnDelete(any) {}

func (o *Observer) serves(namespace string) bool { return o.served == nil || o.served(namespace) }

// addKills adds what pod statuses say. o.mu is held.
func (o *Observer) addKills(found []model.OOM) {
	ooms.WithLabelValues(fromPod).Add(float64(len(found)))
	o.kills.add(found)
}

// Drain returns the OOMs since the last call, ordered by time, namespace, pod and container. It
// logs what was dropped or unreadable meanwhile.
func (o *Observer) Drain() []model.OOM {
	o.mu.Lock()
	out, lostKills := o.kills.drain()
	evictions, lostEvictions := o.evictions.drain()
	faults, fault := o.faults, o.fault
	o.faults, o.fault = 0, nil
	o.mu.Unlock()
	out = append(out, evictions...)
	if lostKills+lostEvictions > 0 {
		o.log.Info("more containers ran out of memory than are kept between two cycles, so the namespaces with the most of them lost their oldest; "+
			"a shorter --recommender-interval loses fewer", "lostKills", lostKills, "lostEvictions", lostEvictions, "kept", len(out))
	}
	if faults > 0 {
		o.log.Error(fault, "cannot read events about evictions; the error is the first one's", "events", faults)
	}
	slices.SortStableFunc(out, func(a, b model.OOM) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Container, b.Container))
	})
	return out
}

// The values of label source: where a container that ran out of memory was seen.
const (
	fromPod      = "pod"
	fromEviction = "eviction"
)

var (
	ooms = metric.Counter("celvpa_recommender_ooms_total", "Containers that ran out of memory, by source: pod status or eviction event.", "source")

	dropped = metric.New.NewCounter(prometheus.CounterOpts{
		Name: "celvpa_recommender_ooms_dropped_total",
		Help: "Out-of-memory reports dropped because too many came between two cycles.",
	})

	faultyEvictions = metric.New.NewCounter(prometheus.CounterOpts{
		Name: "celvpa_recommender_faulty_eviction_events_total",
		Help: "Eviction events ignored, completely or in part, because they could not be read.",
	})
)

func init() {
	for _, source := range []string{fromPod, fromEviction} {
		ooms.WithLabelValues(source)
	}
}
