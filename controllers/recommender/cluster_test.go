package recommender

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// cluster is a recommender over an API that can be made to fail as a real one cannot be made to;
// what depends on a real one is tried in conformance/integration.
type cluster struct {
	*Recommender
	t     *testing.T
	api   client.WithWatch
	usage []model.Sample // of the next cycle
	fails error          // of usage

	mu       sync.Mutex
	logged   []string
	statuses []string // VPAs whose status was written
	stored   int      // checkpoints written
	fault    func(verb string, o client.Object) error
	slow     time.Duration                                      // each write
	pruned   func(o client.Object, p client.Patch) client.Patch // a status as the CRD lets it be; nil = nothing changes
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, vpav1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, appsv1.AddToScheme(scheme))
	c := &cluster{t: t}
	c.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&vpav1.VerticalPodAutoscaler{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, api client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return c.write(ctx, "patch", o, func() error { return api.Patch(ctx, o, p, opts...) }, func() { c.stored++ })
			},
			Create: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return c.write(ctx, "create", o, func() error { return api.Create(ctx, o, opts...) }, func() { c.stored++ })
			},
			SubResourcePatch: func(ctx context.Context, api client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return c.write(ctx, "status", o, func() error {
					if c.pruned != nil {
						if p = c.pruned(o, p); p == nil {
							return nil
						}
					}
					return api.SubResource(sub).Patch(ctx, o, p, opts...)
				}, func() { c.statuses = append(c.statuses, o.GetName()) })
			},
			List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if err := c.failing(fmt.Sprintf("list %T", list), nil); err != nil {
					return err
				}
				return api.List(ctx, list, opts...)
			},
		}).Build()
	book := shippedRules(t)
	c.Recommender = New(Options{
		Client: c.api, Live: c.api, Pages: c.pages, Source: c, Checkpoints: &Checkpoints{Timeout: time.Minute, Interval: time.Hour},
		Targets: &target.Selectors{Resolver: &target.Resolver{Client: c.api}, Clock: clock.RealClock{}, Grace: time.Minute},
		Rules:   func() *compile.Rulebook { return book }, Clock: clock.RealClock{}, Name: DefaultName, Interval: time.Minute, Workers: 2,
		Log: funcr.New(func(_, text string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.logged = append(c.logged, text)
		}, funcr.Options{}),
		UnusedGrace: model.UnusedGrace,
	})
	return c
}

// pages lists checkpoints by the client that is in use.
func (c *cluster) pages(ctx context.Context, namespace string, page metav1.ListOptions) (io.ReadCloser, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(vpav1.GroupVersion.WithKind("VerticalPodAutoscalerCheckpointList"))
	if err := c.Live.List(ctx, list, client.InNamespace(namespace), &client.ListOptions{Limit: page.Limit, Continue: page.Continue}); err != nil {
		return nil, err
	}
	text, err := list.MarshalJSON()
	return io.NopCloser(bytes.NewReader(text)), err
}

func (c *cluster) failing(verb string, o client.Object) error {
	c.mu.Lock()
	fault := c.fault
	c.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(verb, o)
}

func (c *cluster) write(ctx context.Context, verb string, o client.Object, do func() error, note func()) error {
	if c.slow > 0 {
		select {
		case <-time.After(c.slow): // an API server under load
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := c.failing(verb, o); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	note()
	return nil
}

// Samples implements usage.Source.
func (c *cluster) Samples(context.Context) ([]model.Sample, error) { return c.usage, c.fails }

// cycle runs one with samples of a core and 1Gi for each "pod container" named.
func (c *cluster) cycle(used ...string) {
	c.usage = nil
	for _, name := range used {
		pod, container, _ := strings.Cut(name, " ")
		id := model.PodID{Namespace: "ns", Name: pod}
		now := time.Now()
		c.usage = append(c.usage, model.Sample{Pod: id, Container: container, Resource: model.CPU, Amount: 1000, At: now},
			model.Sample{Pod: id, Container: container, Resource: model.Memory, Amount: 1 << 30, At: now})
	}
	c.RunOnce(c.t.Context())
}

// count is how many lines of the log contain a text.
func (c *cluster) count(text string) (n int) {
	for _, line := range c.logged {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (c *cluster) vpa(name string) *vpav1.VerticalPodAutoscaler {
	c.t.Helper()
	v := &vpav1.VerticalPodAutoscaler{}
	require.NoError(c.t, c.api.Get(c.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, v))
	return v
}

// checkpoints are the samples that each checkpoint holds.
func (c *cluster) checkpoints() map[string]int {
	c.t.Helper()
	list := &vpav1.VerticalPodAutoscalerCheckpointList{}
	require.NoError(c.t, c.api.List(c.t.Context(), list))
	out := map[string]int{}
	for _, checkpoint := range list.Items {
		out[checkpoint.Name] = checkpoint.Status.TotalSamplesCount
	}
	return out
}

// workload is a VPA, the Deployment that is its target, and a pod of that, all of one name.
func workload(name string, containers ...string) []client.Object {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	return []client.Object{v, podNamed(name, name, containers...), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}}}}
}

func podNamed(name, app string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": app}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c})
	}
	return p
}

func checkpointOf(vpa, container string, samples int) *vpav1.VerticalPodAutoscalerCheckpoint {
	at := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	return &vpav1.VerticalPodAutoscalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: vpa + "-" + container},
		Spec:       vpav1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: vpa, ContainerName: container},
		Status: vpav1.VerticalPodAutoscalerCheckpointStatus{
			Version: "v3", FirstSampleStart: metav1.NewTime(at.Add(-8 * 24 * time.Hour)), LastSampleStart: at, TotalSamplesCount: samples,
			CPUHistogram: vpav1.HistogramCheckpoint{ReferenceTimestamp: metav1.NewTime(at.Truncate(24 * time.Hour)), BucketWeights: map[string]uint32{"62": 10000}, TotalWeight: 100},
		},
	}
}

func sortedCopy(list []string) []string {
	out := append([]string(nil), list...)
	if len(out) == 2 && out[0] > out[1] {
		out[0], out[1] = out[1], out[0]
	}
	return out
}

func indexOf(v *vpav1.VerticalPodAutoscaler, t vpav1.VerticalPodAutoscalerConditionType) int {
	for i, c := range v.Status.Conditions {
		if c.Type == t {
			return i
		}
	}
	return -1
}
