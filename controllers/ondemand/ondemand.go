// Package ondemand reads objects that few rules ask about. It watches a kind from when it is first asked for one of its objects, so
// whoever has no such rules pays nothing, and needs no permission.
package ondemand

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

// patience is how long the first questions about a kind wait for its cache: an answer that it is not known may let pods be evicted.
const patience = 5 * time.Second

// maxReported bounds the names that are known to have been logged.
const maxReported = 1000

// kind is a kind of objects. It is safe for concurrent use.
type kind struct {
	cache       cache.Cache
	log         logr.Logger
	name        string
	consequence string // of an object that is not known
	patience    time.Duration

	mu       sync.Mutex
	informer cache.Informer
	until    time.Time       // when the first questions stop waiting
	reported map[string]bool // what was logged; "" = that the kind is not known
}

// known reports whether the objects of the kind are known.
func (k *kind) known(object client.Object) bool {
	synced := k.synced(object)
	k.report("", !synced, "objects of a kind are not read: allow this process to list and watch them")
	return synced
}

// get reports whether an object is known, and reads it.
func (k *kind) get(key client.ObjectKey, into client.Object) bool {
	if !k.known(into) {
		return false
	}
	err := k.cache.Get(context.Background(), key, into)
	k.report(key.String(), err != nil, "an object is not known")
	return err == nil
}

// synced starts to watch the kind, and reports whether its cache is filled.
func (k *kind) synced(object client.Object) bool {
	k.mu.Lock()
	if k.informer == nil {
		informer, err := k.cache.GetInformer(context.Background(), object, cache.BlockUntilSynced(false))
		if err != nil {
			k.mu.Unlock()
			return false
		}
		k.informer, k.until = informer, time.Now().Add(k.patience)
	}
	informer, until := k.informer, k.until
	k.mu.Unlock()
	if informer.HasSynced() {
		return true
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	return ctx.Err() == nil && toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
}

// report logs once that something is not known, until it is.
func (k *kind) report(name string, unknown bool, message string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !unknown {
		delete(k.reported, name)
		return
	}
	if k.reported[name] {
		return
	}
	if k.reported == nil || len(k.reported) >= maxReported {
		k.reported = map[string]bool{}
	}
	k.reported[name] = true
	k.log.Info(message, "kind", k.name, "name", name, "consequence", k.consequence)
}

// totalsAge is for how long the sums over all nodes are kept.
const totalsAge = 10 * time.Second

// Objects implements facts.Objects on a cache.
type Objects struct {
	cache cache.Cache
	clock clock.PassiveClock
	log   logr.Logger

	mu       sync.Mutex
	kinds    map[schema.GroupVersionKind]*kind
	totals   facts.NodeTotals
	totalled time.Time // when totals were counted; zero = they were not
}

// New reads objects from a cache.
func New(c cache.Cache, clk clock.PassiveClock, log logr.Logger) *Objects {
	return &Objects{cache: c, clock: clk, log: log, kinds: map[schema.GroupVersionKind]*kind{}}
}

// of is the kind, which stays the same.
func (o *Objects) of(gvk schema.GroupVersionKind, consequence string) *kind {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.kinds[gvk]
	if k == nil {
		k = &kind{cache: o.cache, log: o.log, name: gvk.Kind, consequence: consequence, patience: patience}
		o.kinds[gvk] = k
	}
	return k
}

// metadata reads an object of which only metadata is kept; nil if it is not known.
func (o *Objects) metadata(gvk schema.GroupVersionKind, key client.ObjectKey, consequence string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	if !o.of(gvk, consequence).get(key, object) {
		return nil
	}
	return object
}

// NamespaceLabels implements facts.Objects.
func (o *Objects) NamespaceLabels(namespace string) (map[string]string, bool) {
	object := o.metadata(corev1.SchemeGroupVersion.WithKind("Namespace"), client.ObjectKey{Name: namespace},
		"overlays with a namespaceSelector do not apply, and rules do not know its labels")
	if object == nil {
		return nil, false
	}
	return object.Labels, true
}

// Workload implements facts.Objects.
func (o *Objects) Workload(of target.Key) *metav1.ObjectMeta {
	gvk, wellKnown := of.WellKnown()
	if !wellKnown {
		return nil
	}
	object := o.metadata(gvk, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, "overlays with a workloadSelector do not apply, and rules do not know its labels and annotations")
	if object == nil {
		return nil
	}
	return &object.ObjectMeta
}

func (o *Objects) nodes() *kind {
	return o.of(corev1.SchemeGroupVersion.WithKind("Node"), "rules do not know the node of a pod")
}

// Node implements facts.Objects.
func (o *Objects) Node(name string) *corev1.Node {
	node := &corev1.Node{}
	if !o.nodes().get(client.ObjectKey{Name: name}, node) {
		return nil
	}
	return node
}

// Nodes implements facts.Objects.
func (o *Objects) Nodes() (facts.NodeTotals, bool) {
	if !o.nodes().known(&corev1.Node{}) {
		return facts.NodeTotals{}, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := o.clock.Now(); o.totalled.IsZero() || now.Sub(o.totalled) >= totalsAge || now.Before(o.totalled) {
		list := &corev1.NodeList{}
		if err := o.cache.List(context.Background(), list); err != nil {
			return facts.NodeTotals{}, false
		}
		o.totals, o.totalled = facts.TotalsOf(list.Items), now
	}
	return o.totals, true
}
