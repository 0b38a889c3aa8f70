// Package limitranges merges the LimitRanges of a namespace.
package limitranges

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
)

// Of folds the LimitRanges of one namespace; nil when it has none. The reader is best a cache: it
// is asked for every pod.
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

// Once reads and folds the LimitRanges of each namespace once, for work that ends soon. It is safe for concurrent use.
type Once struct {
	Reader client.Reader

	mu     sync.Mutex
	folded map[string]*facts.LimitRanges // by namespace; nil = it has none
}

// Of returns the folded LimitRanges of a namespace, nil if it has none. It lists them the first time that it is asked; an error
// is not remembered.
func (o *Once) Of(ctx context.Context, namespace string) (*facts.LimitRanges, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.folded[namespace]; ok {
		return known, nil
	}
	limits, err := Of(ctx, o.Reader, namespace)
	if err != nil {
		return nil, err
	}
	if o.folded == nil {
		o.folded = map[string]*facts.LimitRanges{}
	}
	o.folded[namespace] = limits
	return limits, nil
}
