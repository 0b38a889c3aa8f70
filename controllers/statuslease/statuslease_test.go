package statuslease

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestTheLeaseSaysWhetherAdmissionIsAlive(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	api := fake.NewClientBuilder().Build()
	key := client.ObjectKey{Namespace: "kube-system", Name: "vpa-admission-controller"}
	checker := &Checker{Client: api, Key: key, Timeout: time.Minute, Clock: clk}
	require.ErrorContains(t, checker.Alive(t.Context()), "not found")

	var serving atomic.Bool
	renewer := &Renewer{Client: api, Key: key, Holder: "me", Interval: 10 * time.Second, Clock: clk, Log: logr.Discard(), Serving: func() error {
		if serving.Load() {
			return nil
		}
		return errors.New("not yet")
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- renewer.Start(ctx) }()
	require.Never(t, func() bool { return checker.Alive(ctx) == nil }, 300*time.Millisecond, 50*time.Millisecond, "nothing is claimed before the server serves")
	serving.Store(true)
	require.Eventually(t, func() bool { return checker.Alive(ctx) == nil }, 5*time.Second, time.Millisecond)
	var lease coordinationv1.Lease
	require.NoError(t, api.Get(ctx, key, &lease))
	require.Equal(t, "me", *lease.Spec.HolderIdentity)
	require.EqualValues(t, 10, *lease.Spec.LeaseDurationSeconds)

	require.Eventually(t, clk.HasWaiters, 5*time.Second, time.Millisecond)
	clk.Step(10 * time.Second)
	renewed := clk.Now()
	require.Eventually(t, func() bool {
		require.NoError(t, api.Get(ctx, key, &lease))
		return lease.Spec.RenewTime.Time.Equal(renewed)
	}, 5*time.Second, time.Millisecond)

	cancel()
	require.NoError(t, <-done)
	clk.Step(time.Minute - time.Nanosecond)
	require.NoError(t, checker.Alive(t.Context()))
	clk.Step(time.Nanosecond)
	require.ErrorContains(t, checker.Alive(t.Context()), "has not renewed lease kube-system/vpa-admission-controller for 1m0s")
}
