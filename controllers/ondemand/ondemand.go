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
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long the first questions about a kind wait for its cache: an answer that it is not known may let pods be evicted.
const patience = 5 * time.Second

// maxReported bounds the names that are known to have been logged.
const maxReported = 1000

// kind is a kind of objects that are in no namespace. It is safe for concurrent use.
type kind struct {
	cache       cache.Cache
	log         logr.Logger
	resource    string // in permissions
	consequence string // of an object that is not known
	patience    time.Duration

	mu       sync.Mutex
	informer cache.Informer
	until    time.Time       // when the first questions stop waiting
	reported map[string]bool // what was logged; "" = that the kind is not known
}

// get reports whether an object is known, and reads it.
func (k *kind) get(name string, into client.Object) bool {
	if !k.synced(into) {
		k.report("", true, k.resource+" are not read: allow this process to list and watch them")
		return false
	}
	k.report("", false, "")
	err := k.cache.Get(context.Background(), client.ObjectKey{Name: name}, into)
	k.report(name, err != nil, "an object of "+k.resource+" is not known")
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
	k.log.Info(message, "name", name, "consequence", k.consequence)
}

// Namespaces knows the labels of namespaces.
type Namespaces struct{ kind kind }

// NewNamespaces reads namespaces from a cache.
func NewNamespaces(c cache.Cache, log logr.Logger) *Namespaces {
	return &Namespaces{kind{cache: c, log: log, resource: "namespaces", consequence: "overlays with a namespaceSelector do not apply", patience: patience}}
}

// Labels returns the labels of a namespace, which the caller must not change, and whether they are known.
func (n *Namespaces) Labels(namespace string) (map[string]string, bool) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	known := n.kind.get(namespace, object)
	return object.Labels, known
}

// Nodes knows what nodes have for pods.
type Nodes struct{ kind kind }

// NewNodes reads nodes from a cache.
func NewNodes(c cache.Cache, log logr.Logger) *Nodes {
	return &Nodes{kind{cache: c, log: log, resource: "nodes", consequence: "rules do not know the node of a pod", patience: patience}}
}

// Node returns a node, which the caller must not change; nil if it is not known.
func (n *Nodes) Node(name string) *corev1.Node {
	node := &corev1.Node{}
	if !n.kind.get(name, node) {
		return nil
	}
	return node
}
