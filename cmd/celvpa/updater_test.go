package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Flags of UPSTREAM.md §8 and §5.7; params of rules have flags of their own making.
func TestTheUpdaterHasUpstreamsFlags(t *testing.T) {
	cmd := componentCommand("updater", "", updaterPart)
	for name, want := range map[string]string{
		"address": ":8943", "updater-interval": "1m0s", "min-replicas": "2", "eviction-tolerance": "0.5", "eviction-rate-limit": "-1", "eviction-rate-burst": "1",
		"use-admission-controller-status": "true", "admission-controller-status-lease-name": "vpa-admission-controller", "admission-controller-status-lease-namespace": "",
		"admission-controller-status-lease-timeout": "1m0s", "in-place-skip-disruption-budget": "false", "pod-update-threshold": "0.1",
		"in-recommendation-bounds-eviction-lifetime-threshold": "12h", "evict-after-oom-threshold": "10m", "concurrent-cpu-startup-boost-syncs": "1",
		"leader-elect": "false", "leader-elect-lease-duration": "15s", "leader-elect-renew-deadline": "10s", "leader-elect-retry-period": "2s",
		"leader-elect-resource-lock": "leases", "leader-elect-resource-name": "vpa-updater", "leader-elect-resource-namespace": "kube-system",
		"kubeconfig": "", "kube-api-qps": "50", "kube-api-burst": "100", "profiling": "false", "vpa-object-namespace": "", "ignored-vpa-object-namespaces": "", "feature-gates": "", "v": "4",
		"concurrent-updates": "50",
	} {
		flag := cmd.Flags().Lookup(name)
		require.NotNil(t, flag, name)
		require.Equal(t, want, flag.DefValue, name)
	}
}

func TestFlagsOfTheUpdaterThatCannotWorkAreRefused(t *testing.T) {
	for _, tt := range []struct{ flag, value, want string }{
		{"concurrent-updates", "0", "--concurrent-updates is 0; it must be at least 1"},
		{"concurrent-cpu-startup-boost-syncs", "-1", "--concurrent-cpu-startup-boost-syncs is -1; it must be at least 1"},
		{"eviction-rate-burst", "0", "--eviction-rate-burst is 0, with which --eviction-rate-limit=1 would let no pod be evicted; it must be at least 1"},
		{"eviction-rate-limit", "NaN", "--eviction-rate-limit is NaN; give a number of evictions a second, or -1 for no limit"},
		{"eviction-rate-limit", "-5", ""},
		{"eviction-rate-limit", "0.25", ""},
	} {
		t.Run(tt.flag+"="+tt.value, func(t *testing.T) {
			o := &options{rules: ruleOptions{params: paramFlags{}}}
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.addUpdater(flags)
			require.NoError(t, o.updater.check())
			o.updater.rate = 1
			require.NoError(t, flags.Set(tt.flag, tt.value))
			if tt.want == "" {
				require.NoError(t, o.updater.check())
				return
			}
			require.EqualError(t, o.updater.check(), tt.want)
		})
	}
}

// client-go heeds Retry-After ten times, and nothing else is evicted by the one who waits.
func TestNobodyWaitsForABudgetThatHasNotBeenLookedAt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "10")
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	client := http.Client{Transport: impatient{http.DefaultTransport}, Timeout: time.Minute}
	for path, want := range map[string]string{
		"/api/v1/namespaces/ns/pods/web/eviction?type=application/json": "",
		"/api/v1/namespaces/ns/pods/web/eviction?type=text/plain":       "10",
		"/api/v1/namespaces/ns/pods/web/resize?type=application/json":   "10",
	} {
		answer, err := client.Post(server.URL+path, "", nil)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.Header.Get("Retry-After"), path)
	}
}

func TestTimesWithWhichNobodyCouldLeadAreRefused(t *testing.T) {
	for _, tt := range []struct {
		lease, renew, retry time.Duration
		want                string
	}{
		{15 * time.Second, 10 * time.Second, 2 * time.Second, ""},
		{15 * time.Second, 10 * time.Second, 0, "--leader-elect-retry-period is 0s; it must be greater than 0"},
		{15 * time.Second, 2 * time.Second, 2 * time.Second, "--leader-elect-renew-deadline is 2s; it must be greater than 1.2 times --leader-elect-retry-period, 2s"},
		{10 * time.Second, 10 * time.Second, 2 * time.Second, "--leader-elect-lease-duration is 10s; it must be greater than --leader-elect-renew-deadline, 10s"},
		{500 * time.Millisecond, 300 * time.Millisecond, 100 * time.Millisecond, "--leader-elect-lease-duration is 500ms; it must be at least 1s"},
	} {
		l := leaderOptions{elect: true, resourceLock: leases, resourceName: "x", leaseDuration: tt.lease, renewDeadline: tt.renew, retryPeriod: tt.retry}
		if tt.want == "" {
			require.NoError(t, l.check())
		} else {
			require.EqualError(t, l.check(), tt.want)
		}
		l.elect = false
		require.NoError(t, l.check(), "nobody is to lead")
	}
	l := leaderOptions{elect: true, resourceLock: "endpointsleases", leaseDuration: 15 * time.Second, renewDeadline: 10 * time.Second, retryPeriod: time.Second}
	require.EqualError(t, l.check(), `--leader-elect-resource-lock is "endpointsleases"; only leases is supported: leave the flag out`)
	l.resourceLock = leases
	require.ErrorContains(t, l.check(), "--leader-elect-resource-name")
}
