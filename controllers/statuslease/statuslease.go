// Package statuslease tells the updater whether the admission controller is alive, through a Lease
// that the one renews and the other reads (UPSTREAM.md §4.10). Without admission controller,
// replacement pods would keep their old resources, so the updater pauses evictions.
package statuslease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/controllers/notice"
)

// Renewer renews the lease while the admission controller serves. Every replica does.
type Renewer struct {
	Client   client.Client // not cached, so that it does not watch all leases of the cluster
	Key      client.ObjectKey
	Holder   string
	Interval time.Duration
	Clock    clock.WithTicker
	Log      logr.Logger
	// Serving returns nil once new pods get their recommended resources; the lease is not renewed
	// before.
	Serving func() error
	// Unreached returns an error while it is known that API servers do not reach the webhook: the
	// lease is not renewed meanwhile. nil = that is never known.
	Unreached func() error

	notices notice.Board
}

// NeedLeaderElection lets every replica renew.
func (r *Renewer) NeedLeaderElection() bool { return false }

// Start renews at once when the server serves, and then at every interval until the context ends.
func (r *Renewer) Start(ctx context.Context) error {
	if err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) { return r.Serving() == nil, nil }); err != nil {
		return nil // stopped
	}
	r.attempt(ctx)
	cycle.Every(ctx, r.Clock, r.Interval, func() { r.attempt(ctx) })
	return nil
}

// attempt logs a failed renewal; the next attempt may succeed. It does not renew a lease that would say what is not so.
func (r *Renewer) attempt(ctx context.Context) {
	if r.Unreached != nil {
		err := r.Unreached()
		r.notices.Report(r.Log.WithValues("lease", r.Key.String()), "renewing the status lease", err,
			"not renewing the status lease, so the updater pauses evictions: new pods do not get their recommendations")
		if err != nil {
			return
		}
	}
	timed, cancel := context.WithTimeout(ctx, r.Interval)
	defer cancel()
	if err := r.renew(timed); err != nil && ctx.Err() == nil {
		r.Log.Error(err, "cannot renew the status lease; the updater pauses evictions if this continues")
	}
}

func (r *Renewer) renew(ctx context.Context) error {
	now := metav1.NewMicroTime(r.Clock.Now())
	var lease coordinationv1.Lease
	err := r.Client.Get(ctx, r.Key, &lease)
	if apierrors.IsNotFound(err) {
		lease = coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Key.Namespace, Name: r.Key.Name}}
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &r.Holder, &now
		lease.Spec.LeaseDurationSeconds = ptr.To(int32(r.Interval / time.Second))
		err = r.Client.Create(ctx, &lease)
	} else if err == nil {
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &r.Holder, &now
		err = r.Client.Update(ctx, &lease)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil // another replica created it
	}
	if err != nil {
		return fmt.Errorf("renewing lease %s: %w", r.Key, err)
	}
	return nil
}

// Checker reads the lease. It does not compare the clocks of those who renew the lease with its own,
// because the clocks of two machines may differ by hours.
type Checker struct {
	Client  client.Reader // not cached
	Key     client.ObjectKey
	Timeout time.Duration
	Clock   clock.PassiveClock

	mu      sync.Mutex
	read    time.Time          // when the lease was read last; zero = it was not
	last    renewal            // as it was then
	change  time.Time          // when it was renewed last
	holders map[string]renewal // the last of each that was read; replicas take turns
}

// renewal is what a lease says about its last renewal.
type renewal struct {
	renewed time.Time // on the clock of the holder
	read    time.Time // when that was read first
}

// forgetHolder is how long the renewal of a replica is remembered that may be gone.
const forgetHolder = time.Hour

// maxHolder is how much is kept of the name of a holder, in bytes: a host's name and more.
const maxHolder = 300

// Alive returns nil when the lease was created or renewed within the timeout, otherwise what is
// wrong. The first time there is only the lease's own time to go by.
func (c *Checker) Alive(ctx context.Context) error {
	var lease coordinationv1.Lease
	if err := c.Client.Get(ctx, c.Key, &lease); err != nil {
		return fmt.Errorf("reading the admission controller's status lease %s: %w", c.Key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	c.note(&lease, now)
	idle := now.Sub(c.change)
	if ahead := -idle; ahead >= c.Timeout {
		return abandoned{fmt.Errorf("lease %s was renewed %s ahead of this machine's clock, and not since; check the clocks of both machines", c.Key, ahead.Round(time.Second))}
	}
	if idle >= c.Timeout {
		return abandoned{fmt.Errorf("the admission controller has not renewed lease %s for %s", c.Key, idle.Round(time.Second))}
	}
	return nil
}

// note records what was read now. Callers hold the lock.
func (c *Checker) note(lease *coordinationv1.Lease, now time.Time) {
	seen := renewal{renewed: lease.CreationTimestamp.Time, read: now}
	if lease.Spec.RenewTime != nil {
		seen.renewed = lease.Spec.RenewTime.Time
	}
	first := c.read.IsZero()
	if !first && seen.renewed.Equal(c.last.renewed) {
		c.read = now
		return
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	holder = strings.Clone(holder[:min(len(holder), maxHolder)])
	c.change = now.Add(seen.renewed.Sub(now)) // with the monotonic reading of now: this clock may be stepped
	if before, known := c.holders[holder]; known {
		c.change = before.read.Add(seen.renewed.Sub(before.renewed)) // as much later as its own clock says
	}
	switch {
	case first && lease.CreationTimestamp.After(c.change):
		c.change = now.Add(lease.CreationTimestamp.Sub(now))
	case first:
	case c.change.Before(c.read): // it was renewed since, so a clock was stepped, or differs
		c.change = c.read
	case c.change.After(now):
		c.change = now
	}
	if c.holders == nil {
		c.holders = map[string]renewal{}
	}
	maps.DeleteFunc(c.holders, func(_ string, r renewal) bool { return now.Sub(r.read) > forgetHolder })
	c.read, c.last, c.holders[holder] = now, seen, seen
}

// abandoned is the error of an expired lease.
type abandoned struct{ error }

// IsAbandoned reports whether Alive found an expired lease, as opposed to one that it could not
// read.
func IsAbandoned(err error) bool { return errors.As(err, new(abandoned)) }
