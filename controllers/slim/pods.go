package slim

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

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
		for _, one := range listed {
			out = append(out, one.(*corev1.Pod))
		}
	}
	return out
}
