package freshness

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestALeadIsLostWhenTheLeaseIsNotRenewed(t *testing.T) {
	s := newServer(t)
	l := &Lead{Clock: s.clock, Lease: types.NamespacedName{Namespace: "kube-system", Name: "vpa-updater"}, Valid: 10 * time.Second}
	ask := func(method, path string) {
		_, _ = l.Wrap(s).RoundTrip(httptest.NewRequestWithContext(t.Context(), method, "https://api/apis/coordination.k8s.io/v1/namespaces/"+path, nil))
	}
	const own = "kube-system/leases/vpa-updater"
	require.Equal(t, "lease kube-system/vpa-updater has not been renewed yet", l.Lost())
	ask(http.MethodPut, own)
	s.clock.Step(10 * time.Second)
	require.Empty(t, l.Lost())
	s.clock.Step(3 * time.Second)
	const lost = "lease kube-system/vpa-updater has not been renewed for 13s"
	require.Equal(t, lost, l.Lost())
	for _, other := range []string{"kube-system/leases/vpa-admission-controller", "other/leases/vpa-updater"} {
		ask(http.MethodPut, other)
	}
	ask(http.MethodGet, own)
	s.status = http.StatusConflict
	ask(http.MethodPut, own)
	s.refuse = errors.New("connection refused")
	ask(http.MethodPut, own)
	require.Equal(t, lost, l.Lost())
	s.refuse, s.status = nil, http.StatusOK
	ask(http.MethodPut, own)
	require.Empty(t, l.Lost())

	// The namespace of the process is known to controller-runtime only.
	l.Lease.Namespace = ""
	s.clock.Step(time.Minute)
	ask(http.MethodPut, own+"-2")
	require.NotEmpty(t, l.Lost())
	ask(http.MethodPut, own)
	require.Empty(t, l.Lost())
}

func TestNothingIsSentThatIsOutdated(t *testing.T) {
	s := newServer(t)
	reason := "the lease is lost"
	client := &http.Client{Transport: Guard(s, func() string { return reason })}
	request := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api/", nil)
		require.NoError(t, err)
		_, err = client.Do(r)
		return err
	}
	err := request()
	var outdated Outdated
	require.ErrorAs(t, err, &outdated)
	require.Equal(t, "not sent: the lease is lost", outdated.Error())
	require.Empty(t, s.bodies)
	reason = ""
	require.NoError(t, request())
	require.Len(t, s.bodies, 1)
}
