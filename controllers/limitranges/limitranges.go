// Package limitranges reads the LimitRanges of a namespace, and keeps what they are folded to.
package limitranges

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
)

// Of folds the LimitRanges of one namespace; nil when it has none.
func Of(ctx context.Context, reader client.Reader, namespace string) (*facts.LimitRanges, error) {
	var list corev1.LimitRangeList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the LimitRanges of namespace %s: %w", namespace, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return facts.FoldLimitRanges(list.Items), nil
}

// Cache reads and folds the LimitRanges of each namespace once, or again after a change that it follows. It is safe for
// concurrent use.
type Cache struct {
	Reader client.Reader

	mu     sync.Mutex
	folded map[string]*facts.LimitRanges // by namespace; nil = it has none
}

// Follow makes c drop what changes. Call it before the first Of; work that ends soon need not. The reader must read from the
// same objects.
func (c *Cache) Follow(ctx context.Context, objects cache.Cache) error {
	informer, err := objects.GetInformer(ctx, &corev1.LimitRange{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    c.drop,
			UpdateFunc: func(_, now any) { c.drop(now) },
			DeleteFunc: c.drop,
		})
	}
	if err != nil {
		return fmt.Errorf("following LimitRanges: %w", err)
	}
	return nil
}

// Of returns the folded LimitRanges of a namespace, nil if it has none. The error is that of listing, and is not remembered.
func (c *Cache) Of(ctx context.Context, namespace string) (*facts.LimitRanges, error) {
	c.mu.Lock() // also while reading, so that drop removes what was folded before a change
	defer c.mu.Unlock()
	if known, ok := c.folded[namespace]; ok {
		return known, nil
	}
	limits, err := Of(ctx, c.Reader, namespace)
	if err != nil {
		return nil, err
	}
	if c.folded == nil {
		c.folded = map[string]*facts.LimitRanges{}
	}
	c.folded[namespace] = limits
	return limits, nil
}

// drop forgets the namespace of a LimitRange that an informer reports.
func (c *Cache) drop(object any) {
	key, err := toolscache.DeletionHandlingObjectToName(object)
	if err != nil {
		return // informers report nothing else
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.folded, key.Namespace)
}
