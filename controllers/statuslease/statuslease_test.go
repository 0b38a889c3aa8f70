package statuslease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/celvpa/celvpa/conformance/hang"
)

func TestTheLeaseSaysWhetherAdmissionIsAlive(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	api := fake.NewClientBuilder().Build()
	key := client.ObjectKey{Namespace: "kube-system", Name: "vpa-admission-controller"}
	checker := &Checker{Client: api, Key: key, Timeout: time.Minute, Clock: clk}
	require.ErrorContains(t, checker.Alive(t.Context()), "not found")

	var asked atomic.Int32
	var serving atomic.Bool
	renewer := &Renewer{Client: api, Key: key, Holder: "me", Interval: 10 * time.Second, Clock: clk, Log: logr.Discard(), Serving: func() error {
		asked.Add(1)
		if serving.Load() {
			return nil
		}
		return errors.New("not yet")
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- renewer.Start(ctx) }()
	hang.Until(t, func() bool { return asked.Load() > 1 })
	require.ErrorContains(t, checker.Alive(ctx), "not found", "nothing is claimed before the server serves")
	serving.Store(true)
	hang.Until(t, func() bool { return checker.Alive(ctx) == nil })
	var lease coordinationv1.Lease
	require.NoError(t, api.Get(ctx, key, &lease))
	require.Equal(t, "me", *lease.Spec.HolderIdentity)
	require.EqualValues(t, 10, *lease.Spec.LeaseDurationSeconds)

	hang.Until(t, clk.HasWaiters)
	clk.Step(10 * time.Second)
	renewed := clk.Now()
	hang.Until(t, func() bool {
		require.NoError(t, api.Get(ctx, key, &lease))
		return lease.Spec.RenewTime.Time.Equal(renewed)
	})

	cancel()
	require.NoError(t, <-done)
	clk.Step(time.Minute - time.Nanosecond)
	require.NoError(t, checker.Alive(t.Context()))
	clk.Step(time.Nanosecond)
	require.ErrorContains(t, checker.Alive(t.Context()), "has not renewed lease kube-system/vpa-admission-controller for 1m0s")
}

// TestClocksMayDiffer between the machines of the two components: what counts is that the lease
// changes.
func TestClocksMayDiffer(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	key := client.ObjectKey{Namespace: "kube-system", Name: "vpa-admission-controller"}
	for name, off := range map[string]time.Duration{"a year ahead": 365 * 24 * time.Hour, "a day ahead": 24 * time.Hour, "an hour behind": -time.Hour, "a year behind": -365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			here, there := testclock.NewFakeClock(noon), testclock.NewFakeClock(noon.Add(off))
			api := fake.NewClientBuilder().Build()
			renewer := &Renewer{Client: api, Key: key, Holder: "me", Interval: 10 * time.Second, Clock: there, Log: logr.Discard()}
			renew := func() {
				there.Step(10 * time.Second)
				here.Step(10 * time.Second)
				require.NoError(t, renewer.renew(t.Context()))
			}
			renew()
			checker := &Checker{Client: api, Key: key, Timeout: time.Minute, Clock: here}
			require.Error(t, checker.Alive(t.Context()), "the lease may be an old one")
			for range 10 {
				renew()
				require.NoError(t, checker.Alive(t.Context()), "it is renewed")
			}
			here.Step(time.Minute - time.Nanosecond)
			require.NoError(t, checker.Alive(t.Context()))
			here.Step(time.Nanosecond)
			require.EqualError(t, checker.Alive(t.Context()), "the admission controller has not renewed lease kube-system/vpa-admission-controller for 1m0s")
			require.True(t, IsAbandoned(checker.Alive(t.Context())))
		})
	}
}

// TestAnUpdaterMayLookSeldom: however long its cycle and however wrong the clocks of the replicas, which take turns, a lease that is
// renewed is alive. A replica is not known by its clock the first time that it is seen. Evictions stopped for good if a cycle was
// longer than the timeout and the other clock some seconds ahead.
func TestAnUpdaterMayLookSeldom(t *testing.T) {
	key := client.ObjectKey{Namespace: "kube-system", Name: "vpa-admission-controller"}
	for _, off := range [][]time.Duration{{0}, {15 * time.Second}, {-90 * time.Second}, {time.Hour}, {-time.Hour}, {0, 20 * time.Second}, {time.Hour, -3 * time.Minute, 0}} {
		for _, cycle := range []time.Duration{60 * time.Second, 60*time.Second + 50*time.Millisecond, 5 * time.Minute} {
			t.Run(fmt.Sprint(off, cycle), func(t *testing.T) {
				here := testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
				api := fake.NewClientBuilder().Build()
				clocks := []*testclock.FakeClock{here}
				var replicas []*Renewer
				for i, off := range off {
					clocks = append(clocks, testclock.NewFakeClock(here.Now().Add(off)))
					replicas = append(replicas, &Renewer{Client: api, Key: key, Holder: fmt.Sprint(i), Interval: 10 * time.Second, Clock: clocks[i+1], Log: logr.Discard()})
				}
				pass := func(d time.Duration) {
					for _, c := range clocks {
						c.Step(d)
					}
				}
				checker := &Checker{Client: api, Key: key, Timeout: time.Minute, Clock: here}
				turn := 0
				renewUntil := func(left time.Duration) {
					pass(left - 20*time.Second) // what happens then makes no difference
					for range 2 {
						pass(10 * time.Second)
						require.NoError(t, replicas[turn%len(replicas)].renew(t.Context()))
						turn++
					}
					pass(5 * time.Second)
				}
				for i := range 12 {
					renewUntil(cycle - 5*time.Second)
					if err := checker.Alive(t.Context()); i >= 6 {
						require.NoError(t, err)
					}
				}
				pass(time.Minute)
				require.True(t, IsAbandoned(checker.Alive(t.Context())))
			})
		}
	}
}

// TestASleepOfTheUpdaterIsNoSignOfLife of the admission controller: a lease that was renewed
// meanwhile may have been abandoned since.
func TestASleepOfTheUpdaterIsNoSignOfLife(t *testing.T) {
	key := client.ObjectKey{Namespace: "kube-system", Name: "vpa-admission-controller"}
	for _, off := range []time.Duration{0, -24 * time.Hour} {
		here := testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		there := testclock.NewFakeClock(here.Now().Add(off))
		renewer := &Renewer{Client: fake.NewClientBuilder().Build(), Key: key, Holder: "me", Interval: 10 * time.Second, Clock: there, Log: logr.Discard()}
		pass := func(d time.Duration) { here.Step(d); there.Step(d) }
		checker := &Checker{Client: renewer.Client, Key: key, Timeout: time.Minute, Clock: here}
		for range 2 {
			pass(10 * time.Second)
			require.NoError(t, renewer.renew(t.Context()))
			_ = checker.Alive(t.Context())
		}
		require.NoError(t, checker.Alive(t.Context()))
		pass(5 * time.Minute)
		require.NoError(t, renewer.renew(t.Context()))
		pass(5 * time.Minute)
		require.True(t, IsAbandoned(checker.Alive(t.Context())))
		require.NoError(t, renewer.renew(t.Context()))
		pass(time.Second)
		require.NoError(t, checker.Alive(t.Context()))
	}
}

// TestAWebhookThatNoAPIServerReachesIsNotAlive: its process runs, and new pods do not get their
// recommendations, for want of a valid certificate for example.
func TestAWebhookThatNoAPIServerReachesIsNotAlive(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	key := client.ObjectKey{Namespace: "kube-system", Name: "vpa-admission-controller"}
	var unreached error
	var logged []string
	renewer := &Renewer{Client: fake.NewClientBuilder().Build(), Key: key, Holder: "me", Interval: 10 * time.Second, Clock: clk,
		Log: funcr.New(func(_, text string) { logged = append(logged, text) }, funcr.Options{}), Unreached: func() error { return unreached }}
	checker := &Checker{Client: renewer.Client, Key: key, Timeout: time.Minute, Clock: clk}
	minute := func() error {
		for range 6 {
			clk.Step(10 * time.Second)
			renewer.attempt(t.Context())
		}
		return checker.Alive(t.Context())
	}
	require.NoError(t, minute())
	unreached = errors.New("the certificate has expired")
	require.True(t, IsAbandoned(minute()))
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], "not renewing the status lease")
	unreached = nil
	require.NoError(t, minute())
	require.Len(t, logged, 2)
}

// TestAForgedLeaseLastsNoLongerThanTheTimeout whatever somebody who may write leases puts there once, and takes little memory.
func TestAForgedLeaseLastsNoLongerThanTheTimeout(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	key := client.ObjectKey{Namespace: "kube-system", Name: "vpa-admission-controller"}
	for name, forged := range map[string]coordinationv1.LeaseSpec{
		"nothing":              {},
		"a time of no clock":   {RenewTime: &metav1.MicroTime{Time: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}},
		"a time of long ago":   {RenewTime: &metav1.MicroTime{Time: time.Unix(0, 0)}},
		"a long lease":         {RenewTime: &metav1.MicroTime{Time: noon}, LeaseDurationSeconds: ptr.To(int32(1 << 30))},
		"an enormous holder":   {RenewTime: &metav1.MicroTime{Time: noon}, HolderIdentity: ptr.To(strings.Repeat("x", 1<<20))},
		"the holder of before": {RenewTime: &metav1.MicroTime{Time: noon.AddDate(1, 0, 0)}, HolderIdentity: ptr.To("me")},
	} {
		t.Run(name, func(t *testing.T) {
			clk, api := testclock.NewFakeClock(noon), fake.NewClientBuilder().Build()
			renewer := &Renewer{Client: api, Key: key, Holder: "me", Interval: 10 * time.Second, Clock: clk, Log: logr.Discard()}
			checker := &Checker{Client: api, Key: key, Timeout: time.Minute, Clock: clk}
			require.NoError(t, renewer.renew(t.Context()))
			require.NoError(t, checker.Alive(t.Context()))
			var lease coordinationv1.Lease
			require.NoError(t, api.Get(t.Context(), key, &lease))
			lease.Spec = forged
			require.NoError(t, api.Update(t.Context(), &lease))
			_ = checker.Alive(t.Context()) // for a while it may look alive
			clk.Step(time.Minute)
			require.Error(t, checker.Alive(t.Context()))
			for holder := range checker.holders {
				require.LessOrEqual(t, len(holder), maxHolder)
			}
			require.NoError(t, renewer.renew(t.Context()))
			require.NoError(t, checker.Alive(t.Context()), "the real one counts again at once")
		})
	}
}
