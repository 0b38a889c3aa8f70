// Package limitranges merges the LimitRanges of a namespace.
package limitranges

import (
	"context"
	"fmt"

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
