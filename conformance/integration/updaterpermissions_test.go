package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/harness"
)

// forgottenToo is another namespace that the webhook does not serve.
const forgottenToo = "up-permissions-forgotten"

// upstreamsPermissionsAreEnough: the updater takes the place of upstream's, with the account that upstream's manifests make for it.
// What those do not allow, a condition, is told by an event only.
func upstreamsPermissionsAreEnough(t *testing.T) {
	const user = "system:serviceaccount:kube-system:vpa-updater"
	crds, err := harness.UpstreamCRDs()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(crds), "vpa-rbac.yaml"))
	require.NoError(t, err)
	objects, err := harness.Decode(text)
	require.NoError(t, err)
	for _, o := range objects {
		create(t, o)
		t.Cleanup(func() { require.NoError(t, cluster.Delete(context.WithoutCancel(t.Context()), o)) })
	}

	ns, forgotten := namespace(t, "up-permissions"), namespace(t, forgottenToo)
	deployed(t, ns, "evicted", 2, small)
	deployed(t, ns, "resized", 2, small)
	deployed(t, forgotten, "web", 2, small)
	boosted(t, ns, "boosted", 1, "updatePolicy: {updateMode: Initial}", "1", target("250m", "100Mi"))
	watchedOver(t, ns, "evicted", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	watchedOver(t, ns, "resized", "updatePolicy: {updateMode: InPlaceOrRecreate}", target("200m", "200Mi"))
	watchedOver(t, forgotten, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	u, v := startUpdaterAs(t, user, ns), startUpdaterAs(t, user, forgotten)
	become(t, ns, "evicted", 2, "200m/- 200Mi/-")
	become(t, ns, "resized", 2, "200m/- 200Mi/-")
	become(t, ns, "boosted", 1, "250m/500m 100Mi/-")
	unboosted(t, ns, "boosted")
	requireEvent(t, ns, "EvictedPod", "update/evict")
	requireEvent(t, forgotten, "UpdatesHaveNoEffect", "update/successors-unchanged")
	eventually(t, 10*time.Second, "what would be told by the condition", func(context.Context) (bool, error) {
		return v.says("cannot be written, and an event has to do: allow this process to patch verticalpodautoscalers/status"), nil
	})
	v.cycles(1)
	for _, one := range []*anUpdater{u, v} {
		one.mu.Lock()
		for _, line := range one.lines {
			if text := fmt.Sprint(line); strings.Contains(text, "forbidden") {
				require.Regexp(t, "ruleoverlays|verticalpodautoscalers/status", text) // celvpa's own
			}
		}
		one.mu.Unlock()
	}
}
