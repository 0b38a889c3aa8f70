package target

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kinds is what a client may implement besides, to tell a kind without a scale subresource from an
// object that does not exist: API servers answer both alike.
type Kinds interface {
	// HasScale reports whether any version of a kind has a scale subresource. known is false if that
	// cannot be found out.
	HasScale(ctx context.Context, kind schema.GroupKind) (has, known bool)
}

// discoveryFresh is how long an answer of discovery is remembered. Anyone can create thousands of VPAs
// without a target.
const discoveryFresh = time.Minute

// Discovering is a client that asks the API server's discovery, which everyone may, for scale
// subresources. It is safe for concurrent use.
type Discovering struct {
	client.Client

	resources func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
	clock     clock.PassiveClock
	mu        sync.Mutex
	known     map[schema.GroupKind]discovered
}

type discovered struct {
	has, known bool
	at         time.Time
}

// NewDiscovering returns a client that lists the resources of a group and version, with subresources,
// by the function, e.g. that of a DiscoveryClient.
func NewDiscovering(c client.Client, resources func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error), clk clock.PassiveClock) *Discovering {
	return &Discovering{Client: c, resources: resources, clock: clk, known: map[schema.GroupKind]discovered{}}
}

// HasScale implements Kinds. A kind that no version serves is not known.
func (d *Discovering) HasScale(ctx context.Context, kind schema.GroupKind) (has, known bool) {
	d.mu.Lock()
	last, found := d.known[kind]
	d.mu.Unlock()
	if found && d.clock.Since(last.at) < discoveryFresh {
		return last.has, last.known
	}
	has, known = d.ask(ctx, kind)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxReviewed {
		clear(d.known)
	}
	d.known[kind] = discovered{has, known, d.clock.Now()}
	return has, known
}

func (d *Discovering) ask(ctx context.Context, kind schema.GroupKind) (has, known bool) {
	mappings, err := d.RESTMapper().RESTMappings(kind)
	if err != nil || len(mappings) == 0 {
		return false, false
	}
	for _, m := range mappings {
		list, err := d.resources(ctx, m.GroupVersionKind.GroupVersion().String())
		if err != nil {
			return false, false
		}
		scale := m.Resource.Resource + "/scale"
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == scale }) {
			return true, true
		}
	}
	return false, true
}
