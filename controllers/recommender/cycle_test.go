package recommender

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// cluster is a recommender over an API that can be made to fail as a real one cannot be made to; what depends on a real one
// is tried in conformance/integration.
type cluster struct {
	*Recommender
	t     *testing.T
	api   client.WithWatch
	usage []model.Sample // of the next cycle
	fails error          // of usage

	mu       sync.Mutex
	told     []string
	statuses []string // VPAs whose status was written
	stored   int      // checkpoints written
	fault    func(verb string, o client.Object) error
	slow     time.Duration // each write
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
				return c.write(ctx, "status", o, func() error { return api.SubResource(sub).Patch(ctx, o, p, opts...) }, func() { c.statuses = append(c.statuses, o.GetName()) })
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
		Client: c.api, Source: c, Checkpoints: &Checkpoints{Live: c.api, Timeout: time.Minute, Interval: time.Hour},
		Targets: &target.Selectors{Resolver: &target.Resolver{Client: c.api}, Clock: clock.RealClock{}, Grace: time.Minute},
		Rules:   func() *compile.Rulebook { return book }, Clock: clock.RealClock{}, Name: DefaultName, Interval: time.Minute, Workers: 2,
		Log: funcr.New(func(_, text string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.told = append(c.told, text)
		}, funcr.Options{}),
		Settings: model.DefaultSettings(),
	})
	return c
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
	for _, one := range used {
		pod, container, _ := strings.Cut(one, " ")
		id := model.PodID{Namespace: "ns", Name: pod}
		now := time.Now()
		c.usage = append(c.usage, model.Sample{Pod: id, Container: container, Resource: model.CPU, Amount: 1000, At: now},
			model.Sample{Pod: id, Container: container, Resource: model.Memory, Amount: 1 << 30, At: now})
	}
	c.RunOnce(c.t.Context())
}

// count is how often the log told of something.
func (c *cluster) count(text string) (n int) {
	for _, line := range c.told {
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
	for _, one := range list.Items {
		out[one.Name] = one.Status.TotalSamplesCount
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

func TestOnlyWhatChangedIsWritten(t *testing.T) {
	c := newCluster(t, append(workload("a", "app"), workload("b", "app")...)...)
	c.cycle()
	require.Equal(t, []string{"a", "b"}, sortedCopy(c.statuses))
	require.Zero(t, c.stored, "without samples there is nothing to keep")
	c.cycle("a app")
	require.Equal(t, []string{"a", "b", "a"}, append(sortedCopy(c.statuses[:2]), c.statuses[2:]...))
	require.Equal(t, 1, c.stored)
	for range 3 {
		c.cycle()
	}
	require.Len(t, c.statuses, 3)
	require.Equal(t, 1, c.stored)
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints())
}

func sortedCopy(list []string) []string {
	out := append([]string(nil), list...)
	if len(out) == 2 && out[0] > out[1] {
		out[0], out[1] = out[1], out[0]
	}
	return out
}

func TestAWriteThatFailsIsToldOnceAndTriedAgain(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	c.fault = func(verb string, _ client.Object) error {
		if verb == "status" || verb == "create" {
			return errors.New("no disk")
		}
		return nil
	}
	for range 4 {
		c.cycle("a app")
	}
	require.Equal(t, 1, c.count("writing the status: no disk"))
	require.Equal(t, 1, c.count("writing checkpoint ns/a-app: no disk"))
	require.Zero(t, c.count("recommendation changed"), "it did not")
	c.fault = nil
	c.cycle()
	require.NotNil(t, c.vpa("a").Status.Recommendation)
	require.Equal(t, map[string]int{"a-app": 4}, c.checkpoints())
	require.Equal(t, 2, c.count("works again"))
	require.Equal(t, 2, c.count("recommendation changed"), "CPU and memory")
}

// TestWhatThereIsNoTimeForComesFirstInTheNextCycle: with writes that take so long that each cycle has time for a part only,
// all are made in the end, and checkpoints that nobody needs are deleted all the same.
func TestWhatThereIsNoTimeForComesFirstInTheNextCycle(t *testing.T) {
	var objects []client.Object
	var used []string
	for i := range 30 {
		name := fmt.Sprint("v", i)
		objects = append(objects, workload(name, "app")...)
		used = append(used, name+" app")
	}
	c := newCluster(t, append(objects, checkpointOf("gone", "app", 5))...)
	c.Interval, c.slow, c.Checkpoints.Interval = time.Second, 100*time.Millisecond, time.Nanosecond
	cycles := 0
	for ; len(c.statuses) < 30 && cycles < 10; cycles++ {
		c.cycle(used...)
	}
	require.GreaterOrEqual(t, len(c.statuses), 30)
	seen := map[string]bool{}
	for _, name := range c.statuses[:30] {
		require.False(t, seen[name], "%s is written again before others are", name)
		seen[name] = true
	}
	require.Greater(t, cycles, 1)
	require.Positive(t, c.count("statuses are left for the next cycle"))
	require.NotContains(t, c.checkpoints(), "gone-app")
}

func TestWhatWaitsLongIsUrgent(t *testing.T) {
	c := newCluster(t)
	quiet := &Update{Workload: &Workload{VPA: aVPA(), waiting: time.Now().Add(-time.Hour)}, Status: &vpav1.VerticalPodAutoscalerStatus{}}
	updates := []*Update{quiet}
	for range 100 {
		updates = append(updates, &Update{Urgent: true, Workload: &Workload{VPA: aVPA()}, Status: &vpav1.VerticalPodAutoscalerStatus{}})
	}
	c.writeStatuses(t.Context(), updates, time.Now().Add(time.Second))
	require.Same(t, quiet, updates[0])
}

// TestTwoHistoriesOfOneNameAreKeptApart: VPA a-b with container c and VPA a with container b-c make one name.
func TestTwoHistoriesOfOneNameAreKeptApart(t *testing.T) {
	c := newCluster(t, append(workload("a-b", "c"), workload("a", "b-c")...)...)
	c.cycle("a-b c")
	for range 3 {
		c.cycle("a b-c")
	}
	require.Equal(t, map[string]int{"a-b-c": 1}, c.checkpoints())
	require.Equal(t, 1, c.count(`is that of VPA \"a-b\", container \"c\": rename one of the two`))
}

func TestNothingIsRecommendedBeforeHistoryIsKnown(t *testing.T) {
	for name, fault := range map[string]error{
		"unreachable": errors.New("dial tcp 10.0.0.1:443: refused"),
		"not allowed": apierrors.NewForbidden(schema.GroupResource{Resource: "verticalpodautoscalercheckpoints"}, "", nil),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, append(workload("a", "app"), checkpointOf("a", "app", 1000))...)
			c.fault = func(verb string, _ client.Object) error {
				if verb == "list *unstructured.UnstructuredList" {
					return fault
				}
				return nil
			}
			c.cycle("a app")
			c.cycle("a app")
			require.Empty(t, c.statuses)
			require.Equal(t, 1, c.count("listing checkpoints"), "told once")
			require.Equal(t, map[string]int{"a-app": 1000}, c.checkpoints())
			c.fault = nil
			c.cycle("a app")
			require.Equal(t, map[string]int{"a-app": 1003}, c.checkpoints())
			require.Greater(t, c.vpa("a").Status.Recommendation.ContainerRecommendations[0].Target.Cpu().MilliValue(), int64(4000), "mostly from the history")
		})
	}
}

func TestCheckpointsOfOthersAreNoHindrance(t *testing.T) {
	broken, newer := checkpointOf("b", "app", 7), checkpointOf("c", "app", 7)
	broken.Status.CPUHistogram.BucketWeights = map[string]uint32{"999": 1}
	newer.Status.Version = "v9"
	c := newCluster(t, append(append(workload("a", "app"), workload("b", "app")...), append(workload("c", "app"),
		checkpointOf("a", "app", 7), broken, newer, checkpointOf("nobody", "app", 7))...)...)
	c.cycle("a app", "b app")
	require.Equal(t, 2, c.count("a checkpoint cannot be used"))
	require.Equal(t, 1, c.count(`"loaded"=1 "unused"=1 "unreadable"=2`))
	require.Equal(t, map[string]int{"a-app": 8, "b-app": 1, "c-app": 7, "nobody-app": 7}, c.checkpoints(), "what cannot be read is replaced when there is something else")
}

func TestCheckpointsGoWithTheirContainer(t *testing.T) {
	c := newCluster(t, append(workload("a", "app", "sidecar"), checkpointOf("gone", "app", 5))...)
	c.Checkpoints.Interval = time.Nanosecond
	c.cycle("a app", "a sidecar")
	c.cycle()
	require.Equal(t, map[string]int{"a-app": 1, "a-sidecar": 1}, c.checkpoints())
	require.NoError(t, c.api.Delete(t.Context(), podNamed("a", "a")))
	require.NoError(t, c.api.Create(t.Context(), podNamed("a2", "a", "app")))
	c.cycle()
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints())

	w := c.Workloads()[0]
	require.True(t, w.gone("sidecar"))
	w.VPA = w.VPA.DeepCopy()
	w.VPA.Spec.TargetRef.Kind = "RayCluster"
	require.False(t, w.gone("sidecar"), "of heads and workers the workers may come back")
	require.True(t, w.gone("nothing is known of it"))
	require.NoError(t, c.api.Delete(t.Context(), podNamed("a2", "a")))
	c.cycle()
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints(), "scaled to zero")
}

func TestAVPAThatIsReplacedKeepsItsHistory(t *testing.T) {
	c := newCluster(t, append(workload("a", "app"), checkpointOf("a", "app", 1000))...)
	c.cycle("a app")
	old := c.vpa("a")
	require.NoError(t, c.api.Delete(t.Context(), old))
	again := workload("a")[0].(*vpav1.VerticalPodAutoscaler)
	again.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	require.NoError(t, c.api.Create(t.Context(), again))
	c.cycle("a app")
	require.Equal(t, map[string]int{"a-app": 1002}, c.checkpoints())
}

type onceHistory struct{ loads int }

func (h *onceHistory) Load(context.Context, time.Time) ([]history.Pod, error) {
	h.loads++
	return nil, errors.New("half of it is missing")
}

func TestHistoryIsTakenInOnce(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	h := &onceHistory{}
	c.History, c.Checkpoints = h, nil
	for range 4 {
		c.cycle()
	}
	require.Equal(t, 1, h.loads)
	require.NotEmpty(t, c.statuses)
}

func TestUsageThatFailsIsToldOnceAndTheCycleGoesOn(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	for _, port := range []int{1111, 2222, 3333} {
		c.fails = fmt.Errorf("read tcp 10.0.0.1:%d: reset", port)
		c.cycle()
	}
	require.Equal(t, 1, c.count("usage is not known"))
	require.NotEmpty(t, c.statuses)
	c.fails = nil
	c.cycle("a app")
	require.Equal(t, 1, c.count("works again"))
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints())
}

// TestARecommendationOutlivesAStartWithoutUsage: memory of the last day may be in no checkpoint, and would seem to be none.
func TestARecommendationOutlivesAStartWithoutUsage(t *testing.T) {
	c := newCluster(t, append(workload("old", "app"), workload("new", "app")...)...)
	v := c.vpa("old")
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: amountsOf("1", "1Gi")}}}
	require.NoError(t, c.api.Status().Update(t.Context(), v))
	c.fails = errors.New("no metrics yet")
	c.cycle()
	c.cycle()
	require.Equal(t, []string{"new"}, c.statuses)
	c.fails = nil
	c.cycle()
	require.Equal(t, []string{"new", "old"}, c.statuses)
}

func TestNothingIsToldOfACycleThatIsEnded(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	ctx, cancel := context.WithCancel(t.Context())
	c.fault = func(verb string, _ client.Object) error {
		if strings.Contains(verb, "PodList") {
			cancel()
		}
		return nil
	}
	c.fails = errors.New("context canceled")
	c.RunOnce(ctx)
	require.Zero(t, c.count("canceled"))
	require.Zero(t, c.count("left for the next cycle"))
	require.Empty(t, c.statuses)
}

func TestAVPADeletedMidCycleIsNoError(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	c.fault = func(verb string, _ client.Object) error {
		if verb == "status" {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "verticalpodautoscalers"}, "a")
		}
		return nil
	}
	c.cycle("a app")
	require.Zero(t, c.count("writing the status"))
}

// TestNewRulesCountThoughVPAsCannotBeListed: what is evaluated by new rules must have been chosen from them.
func TestNewRulesCountThoughVPAsCannotBeListed(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	c.cycle("a app")
	more, err := policy.Load(policy.Options{Params: map[string]string{"estimate.minimum.cpu": "5000"}})
	require.NoError(t, err)
	c.Rules = func() *compile.Rulebook { return more }
	c.fault = func(verb string, _ client.Object) error {
		if strings.Contains(verb, "VerticalPodAutoscalerList") {
			return errors.New("no")
		}
		return nil
	}
	c.cycle()
	require.Equal(t, "5", c.vpa("a").Status.Recommendation.ContainerRecommendations[0].Target.Cpu().String())
}

func TestARuleThatFailsIsToldByItsVPA(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	broken := brokenRules(t)
	c.Rules = func() *compile.Rulebook { return broken }
	for range 3 {
		c.cycle("a app")
	}
	require.Equal(t, 1, c.count("a rule failed"))
	i := indexOf(c.vpa("a"), vpav1.RulesApplied)
	condition := c.vpa("a").Status.Conditions[i]
	require.Equal(t, []string{"False", "RulesFailed"}, []string{string(condition.Status), condition.Reason})
	require.Contains(t, condition.Message, "what they would have set is as before: container-mode/mode-off; digest")
}

func indexOf(v *vpav1.VerticalPodAutoscaler, t vpav1.VerticalPodAutoscalerConditionType) int {
	for i, c := range v.Status.Conditions {
		if c.Type == t {
			return i
		}
	}
	return -1
}
