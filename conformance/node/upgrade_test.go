package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAnUpgradeAndARollbackUnderLoad: while celvpa is replaced, pods are created all the time. None is refused and none misses its
// recommendation, because the webhook hands over: a new replica answers before an old one stops. The failure policy is Fail, so
// what nobody answers would be refused. Other tests run on what was rolled back to.
func TestAnUpgradeAndARollbackUnderLoad(t *testing.T) {
	needsPods(t)
	ns := namespace(t, "upgrade")
	pod := &deploy(t, ns, "web", 1, "containers: [{resources: {requests: {cpu: 20m, memory: 20Mi}}}]")[0]
	watch(t, ns, "web", pinned("Initial", "{cpu: 40m, memory: 30Mi}"))
	recommended(t, ns, "web", func(milli, bytes int64) bool { return milli == 40 && bytes == 30<<20 })
	load := newStream(pod, "40m")
	until(t, patience, "the webhook to know the recommendation", func(ctx context.Context) (bool, string) {
		err := load.create(ctx)
		return err == nil, fmt.Sprint("last answer: ", err)
	})
	answeredByAll(t, ns, "web")
	runs(t, firstVersion)
	load.begin()

	began := time.Now()
	require.NoError(t, release(t.Context(), "upgrade", nextVersion))
	require.NoError(t, rolledOut(t.Context(), patience))
	runs(t, nextVersion)
	t.Logf("upgraded in %.0fs, %s", time.Since(began).Seconds(), load)

	began = time.Now()
	require.NoError(t, helm(t.Context(), "rollback", "celvpa"))
	require.NoError(t, rolledOut(t.Context(), patience))
	runs(t, firstVersion)
	until(t, patience, "old replicas to be gone", func(ctx context.Context) (bool, string) {
		var list corev1.PodList
		err := cluster.List(ctx, &list, client.InNamespace(system))
		return err == nil && len(list.Items) == 4, fmt.Sprintf("%d pods", len(list.Items))
	})
	load.end()
	t.Logf("rolled back in %.0fs, %s", time.Since(began).Seconds(), load)
	require.Empty(t, load.refused, "pods were refused")
	require.Empty(t, load.missed, "pods were created without their recommendation")
	require.Greater(t, load.created, 50)
	recommended(t, ns, "web", func(milli, bytes int64) bool { return milli == 40 && bytes == 30<<20 })
	undisturbed(t, pod, 0)
}

// runs requires that all pods of celvpa that are not ending have an image.
func runs(t *testing.T, version string) {
	t.Helper()
	var list corev1.PodList
	require.NoError(t, cluster.List(t.Context(), &list, client.InNamespace(system)))
	found := 0
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			found++
			require.Equal(t, repository+":"+version, p.Spec.Containers[0].Image, p.Name)
		}
	}
	require.Equal(t, 4, found)
}

// stream creates pods of a workload by dry run, one after another: API servers call webhooks for them as for others, and the node
// has nothing to do.
type stream struct {
	template *corev1.Pod
	cpu      string // requested by a pod that has its recommendation
	stop     context.CancelFunc
	ended    sync.WaitGroup

	mutex           sync.Mutex
	created         int
	slowest         time.Duration
	refused, missed []string
}

// newStream creates pods like that of a workload, as the workload's template has them, which shall be given so much CPU.
func newStream(like *corev1.Pod, cpu string) *stream {
	s := &stream{cpu: cpu, template: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: like.Namespace, GenerateName: like.GenerateName, Labels: like.Labels, OwnerReferences: like.OwnerReferences},
		Spec:       *like.Spec.DeepCopy(),
	}}
	s.template.Spec.NodeName = ""
	return s
}

// create creates a pod and returns an error unless it has its recommendation.
func (s *stream) create(ctx context.Context) error {
	p := s.template.DeepCopy()
	began := time.Now()
	err := cluster.Create(ctx, p, client.DryRunAll)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.created++
	s.slowest = max(s.slowest, time.Since(began))
	at := began.Format("15:04:05.000")
	if err != nil {
		s.refused = append(s.refused, at+" "+err.Error())
		return err
	}
	if requests := p.Spec.Containers[0].Resources.Requests; requests.Cpu().String() != s.cpu {
		missed := fmt.Sprintf("%s requests cpu %s; annotations %v", at, requests.Cpu(), p.Annotations)
		s.missed = append(s.missed, missed)
		return fmt.Errorf("pod without its recommendation: %s", missed)
	}
	return nil
}

// begin forgets what was and creates pods until end.
func (s *stream) begin() {
	s.created, s.slowest, s.refused, s.missed = 0, 0, nil, nil
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.ended.Go(func() {
		for ctx.Err() == nil {
			_ = s.create(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
}

func (s *stream) end() {
	s.stop()
	s.ended.Wait()
}

func (s *stream) String() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return fmt.Sprintf("%d pods created, %d refused, %d without their recommendation, the slowest took %s", s.created, len(s.refused), len(s.missed), s.slowest.Round(time.Millisecond))
}
