package usage

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// Source supplies samples of usage.
type Source interface {
	// Samples returns what is known now: CPU in milli-cores, memory in bytes, held at the ends of int64, with negative
	// amounts as they came. Samples that were returned before are recognised by their time. With an error there may still
	// be samples, which are good.
	Samples(ctx context.Context) ([]model.Sample, error)
}

// explain turns the answer of an aggregated API into a sentence with the way out.
func explain(err error, group, resource, provider string) error {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; allow this process to get and list %s in API group %s", err, resource, group)
	case apierrors.IsNotFound(err), apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%w; is %s installed, and does `kubectl get apiservice v1beta1.%s` call it available?", err, provider, group)
	}
	return fmt.Errorf("%w; see the log of %s", err, provider)
}
