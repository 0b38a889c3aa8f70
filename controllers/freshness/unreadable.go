package freshness

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/metric"
)

var unreadableObjects = metric.Gauge("celvpa_unreadable_objects", "Stored objects that cannot be decoded completely, by kind. They are skipped; the log names them.", "kind")

// Unreadable watches the objects of a kind in a cache, counts those that cannot be decoded
// completely, and logs each.
type Unreadable struct {
	Kind   string
	Reason func(client.Object) string // empty = it can be read
	Log    logr.Logger

	mu      sync.Mutex
	reasons map[client.ObjectKey]string
}

// Follow starts to watch the objects of a cache.
func (u *Unreadable) Follow(ctx context.Context, objects cache.Cache, kind client.Object) error {
	unreadableObjects.WithLabelValues(u.Kind).Set(0)
	informer, err := objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(u)
	}
	if err != nil {
		return fmt.Errorf("following objects of kind %s that cannot be read: %w", u.Kind, err)
	}
	return nil
}

// OnAdd implements toolscache.ResourceEventHandler.
func (u *Unreadable) OnAdd(object any, _ bool) { u.see(object) }

// OnUpdate implements toolscache.ResourceEventHandler.
func (u *Unreadable) OnUpdate(_, object any) { u.see(object) }

// OnDelete implements toolscache.ResourceEventHandler.
func (u *Unreadable) OnDelete(object any) {
	if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if o, ok := object.(client.Object); ok {
		u.note(client.ObjectKeyFromObject(o), "")
	}
}

func (u *Unreadable) see(object any) {
	if o, ok := object.(client.Object); ok {
		u.note(client.ObjectKeyFromObject(o), u.Reason(o))
	}
}

func (u *Unreadable) note(key client.ObjectKey, reason string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.reasons[key]
	if before == reason {
		return
	}
	log := u.Log.WithValues("kind", u.Kind, "namespace", key.Namespace, "name", key.Name)
	if reason == "" {
		delete(u.reasons, key)
		log.Info("object readable again, or gone")
	} else {
		if u.reasons == nil {
			u.reasons = map[client.ObjectKey]string{}
		}
		u.reasons[key] = reason
		log.Error(nil, "stored object cannot be decoded completely; skipped until fixed", "reason", reason)
	}
	unreadableObjects.WithLabelValues(u.Kind).Set(float64(len(u.reasons)))
}
