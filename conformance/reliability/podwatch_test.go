package reliability

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
)

// podWatch notifies a witness of pods. A list that follows a watch that broke is one state of the cluster: an informer hands it over
// pod by pod, and on the way those that are gone would be missing while those in their place do not count yet.
type podWatch struct {
	*witness
	listed chan struct{} // closed after the first list
	once   sync.Once
}

func (w *witness) watchPods(t *testing.T, ns string) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(cluster.Config)
	require.NoError(t, err)
	watch := &podWatch{witness: w, listed: make(chan struct{})}
	pods := toolscache.NewListWatchFromClient(clients.CoreV1().RESTClient(), "pods", ns, fields.Everything())
	go toolscache.NewReflector(pods, &corev1.Pod{}, watch, 0).RunWithContext(t.Context())
	select {
	case <-watch.listed:
	case <-t.Context().Done():
		require.Fail(t, "the pods were not listed")
	}
}

func (p *podWatch) Add(o any) error    { return p.see(o, false) }
func (p *podWatch) Update(o any) error { return p.see(o, false) }
func (p *podWatch) Delete(o any) error { return p.see(o, true) }
func (p *podWatch) Resync() error      { return nil }

func (p *podWatch) see(o any, gone bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod, ok := o.(*corev1.Pod); ok {
		p.sawPod(pod, gone)
		p.countPods()
	}
	return nil
}

// Replace is called with each list.
func (p *podWatch) Replace(list []any, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = map[string]map[types.UID]bool{}
	for _, o := range list {
		if pod, ok := o.(*corev1.Pod); ok {
			p.sawPod(pod, false)
		}
	}
	p.countPods()
	p.once.Do(func() { close(p.listed) })
	return nil
}
