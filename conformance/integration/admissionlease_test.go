package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
)

// withoutAdmission: no evictions, because new pods would not get their resources. Resizes continue.
func withoutAdmission(t *testing.T) {
	ns := namespace(t, "up-lease")
	evicted, resized := deployed(t, ns, "evicted", 2, small), deployed(t, ns, "resized", 2, small)
	watchedOver(t, ns, "evicted", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	watchedOver(t, ns, "resized", "updatePolicy: {updateMode: InPlaceOrRecreate}", target("200m", "200Mi"))
	u := startUpdater(t, ns, "--admission-controller-status-lease-name="+ns)
	become(t, ns, "resized", 2, "200m/- 200Mi/-")
	same(t, ns, "resized", resized)
	// A pod that would have to be evicted stays.
	recommendNow(t, ns, "resized", target("40", "200Mi"))
	u.decided("evicted", "eviction/admission-down")
	hang.Eventually(t, "a resize that is refused", func(context.Context) (bool, error) { return u.requests.of("resize", "resized") > 2, nil })
	u.cycles(2)
	same(t, ns, "evicted", evicted)
	same(t, ns, "resized", resized)
	require.Zero(t, u.requests.of("eviction", "evicted")+u.requests.of("eviction", "resized"))
	require.Positive(t, u.counted("vpa_updater_admission_controller_status_invalid_total", `reason="error"`))
}
