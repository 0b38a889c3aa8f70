package usage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"k8s.io/metrics/pkg/client/external_metrics"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// adapter answers queries, and notes them.
type adapter struct {
	answer func(query string) ([]v1beta1.ExternalMetricValue, error)

	mu    sync.Mutex
	asked []string
}

func (a *adapter) NamespacedMetrics(namespace string) external_metrics.MetricsInterface {
	return namespaced{a, namespace}
}

type namespaced struct {
	*adapter
	namespace string
}

func (n namespaced) List(metric string, selector labels.Selector) (*v1beta1.ExternalMetricValueList, error) {
	q := fmt.Sprintf("%s %s{%s}", n.namespace, metric, selector)
	n.mu.Lock()
	n.asked = append(n.asked, q)
	n.mu.Unlock()
	items, err := n.answer(q)
	if err != nil {
		return nil, err
	}
	return &v1beta1.ExternalMetricValueList{Items: items}, nil
}

func (a *adapter) questions() []string { return slices.Sorted(slices.Values(a.asked)) }

func value(container, amount string, at time.Time) v1beta1.ExternalMetricValue {
	v := v1beta1.ExternalMetricValue{Value: resource.MustParse(amount), Timestamp: metav1.NewTime(at), MetricLabels: map[string]string{"namespace": "shop"}}
	if container != "" {
		v.MetricLabels["name"] = container
	}
	return v
}

func selector(text string) labels.Selector {
	s, err := labels.Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

func workloads(w ...Workload) func() []Workload { return func() []Workload { return w } }

func sample(pod, container string, r model.Resource, amount int64, at time.Time) model.Sample {
	return model.Sample{Pod: model.PodID{Namespace: "shop", Name: pod}, Container: container, Resource: r, Amount: amount, At: at}
}

func TestExternalMetricsAreAskedForByPod(t *testing.T) {
	later := noon.Add(time.Minute)
	answers := map[string][]v1beta1.ExternalMetricValue{
		"shop cpu{app=web,pod=web-1}":    {value("side", "5m", later), value("app", "1500m", noon), value("", "9", noon), value("app", "7m", time.Time{})},
		"shop memory{app=web,pod=web-1}": {value("app", "1Gi", later)},
		"shop cpu{app=web,pod=web-2}":    {value("app", "9223372036854775807", noon)},
		"shop memory{app=web,pod=web-2}": {value("app", "-1", noon)},
	}
	a := &adapter{answer: func(q string) ([]v1beta1.ExternalMetricValue, error) { return answers[q], nil }}
	e := &External{Client: a, CPUMetric: "cpu", MemoryMetric: "memory", Workloads: workloads(
		Workload{Namespace: "shop", Selector: selector("app=web"), Pods: []string{"web-2", "web-1"}},
		Workload{Namespace: "shop", Selector: selector("app in (web,other)"), Pods: []string{"web-1"}}, // of another VPA
		Workload{Namespace: "mail", Selector: selector("app=web"), Pods: []string{"web-1"}},
		Workload{Namespace: "idle", Selector: selector("app=web")},
	)}
	before := [3]float64{testutil.ToFloat64(responses.WithLabelValues("false", externalName)),
		testutil.ToFloat64(skipped.WithLabelValues(externalName, withoutName)), testutil.ToFloat64(skipped.WithLabelValues(externalName, withoutTime))}
	got, err := e.Samples(t.Context())
	require.NoError(t, err)
	require.Equal(t, []model.Sample{
		sample("web-1", "app", model.CPU, 1500, noon),
		sample("web-1", "app", model.Memory, 1<<30, later),
		sample("web-1", "side", model.CPU, 5, later),
		sample("web-2", "app", model.CPU, 1<<63-1, noon),
		sample("web-2", "app", model.Memory, -1, noon),
	}, got)
	want := append(slices.Collect(maps.Keys(answers)), "mail cpu{app=web,pod=web-1}", "mail memory{app=web,pod=web-1}")
	slices.Sort(want)
	require.Equal(t, want, a.questions(), "a pod of two VPAs is asked for once")
	require.Equal(t, [3]float64{before[0] + 6, before[1] + 1, before[2] + 1}, [3]float64{testutil.ToFloat64(responses.WithLabelValues("false", externalName)),
		testutil.ToFloat64(skipped.WithLabelValues(externalName, withoutName)), testutil.ToFloat64(skipped.WithLabelValues(externalName, withoutTime))})
}

func TestWhatIsNotConfiguredIsNotMadeUp(t *testing.T) {
	a := &adapter{answer: func(string) ([]v1beta1.ExternalMetricValue, error) {
		return []v1beta1.ExternalMetricValue{value("app", "2", noon)}, nil
	}}
	e := &External{Client: a, CPUMetric: "cpu", Workloads: workloads(Workload{Namespace: "shop", Selector: selector("app=web"), Pods: []string{"web-1"}})}
	got, err := e.Samples(t.Context())
	require.NoError(t, err)
	require.Equal(t, []model.Sample{sample("web-1", "app", model.CPU, 2000, noon)}, got, "memory of 0 would hide the day's peak")

	e.CPUMetric, e.MemoryMetric = "", "memory"
	got, err = e.Samples(t.Context())
	require.NoError(t, err)
	require.Equal(t, []model.Sample{sample("web-1", "app", model.CPU, 0, noon), sample("web-1", "app", model.Memory, 2, noon)}, got,
		"CPU samples carry confidence and the age of history")

	e.MemoryMetric = ""
	got, err = e.Samples(t.Context())
	require.NoError(t, err)
	require.Empty(t, got)
	require.Len(t, a.asked, 2)
}

func TestAFailedQueryLosesItsOwnAnswerOnly(t *testing.T) {
	a := &adapter{answer: func(q string) ([]v1beta1.ExternalMetricValue, error) {
		if strings.Contains(q, "pod=web-2") && strings.Contains(q, "cpu") {
			return nil, errors.New("the adapter hiccuped")
		}
		return []v1beta1.ExternalMetricValue{value("app", "2", noon)}, nil
	}}
	before := testutil.ToFloat64(responses.WithLabelValues("true", externalName))
	e := &External{Client: a, CPUMetric: "cpu", MemoryMetric: "memory", Workloads: workloads(
		Workload{Namespace: "shop", Selector: selector("app=web"), Pods: []string{"web-1", "web-2", "web-3"}})}
	got, err := e.Samples(t.Context())
	require.EqualError(t, err, "1 of 3 queries of external metric cpu failed; the first was for pod shop/web-2: the adapter hiccuped; see the log of the metrics adapter")
	require.Len(t, got, 5)
	require.Equal(t, before+1, testutil.ToFloat64(responses.WithLabelValues("true", externalName)))
}

func TestFaultsOfExternalMetricsAreSaidWithTheWayOut(t *testing.T) {
	long := strings.Repeat("x", 64)
	fails := func(err error) func(string) ([]v1beta1.ExternalMetricValue, error) {
		return func(string) ([]v1beta1.ExternalMetricValue, error) { return nil, err }
	}
	metric := schema.GroupResource{Group: "external.metrics.k8s.io", Resource: "cpu"}
	for name, test := range map[string]struct {
		answer   func(string) ([]v1beta1.ExternalMetricValue, error)
		selector labels.Selector
		pods     []string
		asked    int
		says     []string
	}{
		"no such metric":   {fails(apierrors.NewNotFound(metric, "")), selector("app=web"), []string{"a", "b"}, 2, []string{"2 of 2 queries of external metric cpu failed; the first was for pod shop/a", "does the metrics adapter know the metric"}},
		"not allowed":      {fails(apierrors.NewForbidden(metric, "", errors.New("no"))), selector("app=web"), []string{"a"}, 1, []string{"allow this process to get and list cpu in API group external.metrics.k8s.io"}},
		"no adapter":       {fails(apierrors.NewServiceUnavailable("no")), selector("app=web"), []string{"a"}, 1, []string{"is the metrics adapter installed, and does `kubectl get apiservice v1beta1.external.metrics.k8s.io`"}},
		"no selector":      {nil, nil, []string{"a", "b"}, 0, []string{"2 pods cannot be asked for by external metrics; the first is pod shop/a: its workload has no pod selector"}},
		"selects nothing":  {nil, labels.Nothing(), []string{"a"}, 0, []string{"selects nothing"}},
		"a name too long":  {fails(nil), selector("app=web"), []string{long, "b"}, 1, []string{"1 pods cannot", "its name cannot be the value of label pod", "give it a shorter name"}},
		"everything is it": {fails(nil), labels.Everything(), []string{"a"}, 1, nil},
		"no container label": {func(string) ([]v1beta1.ExternalMetricValue, error) {
			return []v1beta1.ExternalMetricValue{value("", "1", noon)}, nil
		}, selector("app=web"), []string{"a", "b"}, 2, []string{"external metric cpu: none of its 2 values has a label name", "set --container-name-label"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &adapter{answer: test.answer}
			e := &External{Client: a, CPUMetric: "cpu", Workloads: workloads(Workload{Namespace: "shop", Selector: test.selector, Pods: test.pods})}
			got, err := e.Samples(t.Context())
			require.Empty(t, got)
			require.Len(t, a.asked, test.asked)
			if len(test.says) == 0 {
				require.NoError(t, err)
			}
			for _, text := range test.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestAnotherLabelMayNameTheContainer(t *testing.T) {
	v := value("pause", "1", noon)
	v.MetricLabels["container"] = "app"
	a := &adapter{answer: func(string) ([]v1beta1.ExternalMetricValue, error) { return []v1beta1.ExternalMetricValue{v}, nil }}
	e := &External{Client: a, CPUMetric: "cpu", ContainerLabel: "container", Workloads: workloads(Workload{Namespace: "shop", Selector: selector("app=web"), Pods: []string{"web-1"}})}
	got, err := e.Samples(t.Context())
	require.NoError(t, err)
	require.Equal(t, []model.Sample{sample("web-1", "app", model.CPU, 1000, noon)}, got)
}

// TestASlowAdapterIsAskedInTurns: ten at once take a second each, so that a round of ten seconds
// asks for a hundred.
func TestASlowAdapterIsAskedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most int
		var mu sync.Mutex
		a := &adapter{}
		a.answer = func(string) ([]v1beta1.ExternalMetricValue, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second - time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			return []v1beta1.ExternalMetricValue{value("app", "1", noon)}, nil
		}
		var pods []string
		for i := range 250 {
			pods = append(pods, fmt.Sprintf("web-%03d", i))
		}
		e := &External{Client: a, CPUMetric: "cpu", limit: 10 * time.Second, Workloads: workloads(Workload{Namespace: "shop", Selector: selector("app=web"), Pods: pods})}
		seen := map[string]bool{}
		for range 3 {
			got, err := e.Samples(context.Background())
			require.NotEmpty(t, got)
			require.ErrorContains(t, err, "of 250 external metrics before the deadline, the rest come next")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.True(t, slices.IsSortedFunc(got, func(a, b model.Sample) int { return strings.Compare(a.Pod.Name, b.Pod.Name) }))
			for _, s := range got {
				seen[s.Pod.Name] = true
			}
		}
		require.Len(t, seen, 250, "all had their turn")
		require.Equal(t, atOnce, most)
	})
}
