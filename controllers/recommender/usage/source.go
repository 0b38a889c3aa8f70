package usage

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// Source supplies samples of usage.
type Source interface {
	// Samples returns the current samples: CPU in milli-cores, memory in bytes, saturated at the
	// limits of int64, negative amounts unchanged. The time of a sample identifies repeated ones.
	// Samples returned with an error are good.
	Samples(ctx context.Context) ([]model.Sample, error)
}

// explain adds the way out to the error of an aggregated API.
func explain(err error, group, resource, provider string) error {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; allow this process to get and list %s in API group %s", err, resource, group)
	case apierrors.IsNotFound(err), apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%w; is %s installed, and does `kubectl get apiservice v1beta1.%s` call it available?", err, provider, group)
	}
	return fmt.Errorf("%w; see the log of %s", err, provider)
}
