package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change is a pod that was evicted or resized.
type change struct {
	at       time.Time // this process learned of it
	workload client.ObjectKey
}

// changes watches pods. It does not ask who changed them: nobody else in the lab evicts or resizes
// meanwhile.
type changes struct {
	inPlace bool
	mu      sync.Mutex
	seen    map[types.UID]bool
	list    []change
}

// follow watches until the context ends.
func follow(ctx context.Context, config *rest.Config, inPlace bool) (*changes, error) {
	c := &changes{inPlace: inPlace, seen: map[types.UID]bool{}}
	api, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	informer := metadatainformer.NewFilteredMetadataInformer(api, corev1.SchemeGroupVersion.WithResource("pods"), metav1.NamespaceAll, 0, nil, nil).Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) { c.notice(time.Now(), podMeta(before), podMeta(after)) },
		DeleteFunc: func(last any) {
			if gone, ok := last.(cache.DeletedFinalStateUnknown); ok {
				last = gone.Obj
			}
			c.notice(time.Now(), podMeta(last), nil)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watching pods: %w", context.Cause(ctx))
	}
	return c, nil
}

func podMeta(o any) *metav1.PartialObjectMetadata {
	m, _ := o.(*metav1.PartialObjectMetadata)
	return m
}

// notice counts each pod once. An evicted pod terminates, or is gone at once; a resized one has a
// new generation, which only a new spec gives it.
func (c *changes) notice(at time.Time, before, after *metav1.PartialObjectMetadata) {
	switch {
	case before == nil:
		return
	case c.inPlace && (after == nil || after.DeletionTimestamp != nil || after.Generation <= before.Generation):
		return
	case !c.inPlace && after != nil && after.DeletionTimestamp == nil:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[before.UID] {
		return
	}
	c.seen[before.UID] = true
	c.list = append(c.list, change{at: at, workload: client.ObjectKey{Namespace: before.Namespace, Name: before.Labels["app"]}})
}

// within are the changes of a cycle of so many seconds: later ones belong to the next cycle.
func (c *changes) within(seconds float64) (out []change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.list {
		if one.at.Sub(c.list[0].at).Seconds() <= seconds {
			out = append(out, one)
		}
	}
	return out
}

// count is how many there are by now.
func (c *changes) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.list)
}
