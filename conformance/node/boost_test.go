package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAStartupBoostAndItsEnd: the webhook raises the CPU of a new pod, the kernel gives it, and after the boost's duration the
// kernel takes it back in place. It is not parallel to others: on a busy node the boost could be over before the kernel was read.
func TestAStartupBoostAndItsEnd(t *testing.T) {
	ns := namespace(t, "boost")
	before := &deploy(t, ns, "web", 1, `containers:
- args: [-start=3s]
  resources: {requests: {cpu: 30m, memory: 24Mi}, limits: {cpu: 100m, memory: 48Mi}}
  readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 2}`)[0]
	pinned := pinned("InPlaceOrRecreate", "{cpu: 30m, memory: 24Mi}")
	watch(t, ns, "web", pinned[:len(pinned)-1]+", startupBoost: {cpu: {type: Factor, factor: 4, durationSeconds: 20}}}")
	tried := newStream(before, "120m")
	until(t, patience, "the webhook to know the VPA", func(ctx context.Context) (bool, string) {
		err := tried.create(ctx)
		return err == nil, fmt.Sprint("last answer: ", err)
	})
	deleted := time.Now()
	require.NoError(t, cluster.Delete(t.Context(), before))
	pod := successor(t, before, anything)
	require.Equal(t, "120m", pod.Spec.Containers[0].Resources.Requests.Cpu().String(), "the boost of the webhook; annotations %v", pod.Annotations)
	kernelHas(t, pod, "app", 400, 48<<20)
	ready := time.Now()
	kernelHas(t, pod, "app", 100, 48<<20)
	t.Logf("ready %.0fs after it was created, boosted for %.0fs after that", ready.Sub(deleted).Seconds(), time.Since(ready).Seconds())
	undisturbed(t, pod, 0)
}
