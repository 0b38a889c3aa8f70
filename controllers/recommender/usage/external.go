package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"k8s.io/metrics/pkg/client/external_metrics"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

const (
	atOnce     = 10               // queries
	queryLimit = 10 * time.Second // for one of them
	roundLimit = time.Minute      // for a round
)

// Workload is a set of pods to query.
type Workload struct {
	Namespace string
	Selector  labels.Selector // of the pods; it is part of each query
	Pods      []string        // names of the pods that match
}

// External reads external.metrics.k8s.io (UPSTREAM.md §2.8): for each pod one query for each
// metric, whose selector is that of the workload and pod=<name>. It belongs to one goroutine.
//
// Differences from upstream:
//   - a failed query affects its own answer only, not the whole round;
//   - a pod of several workloads is asked for once, with the selector of the first;
//   - each value keeps its own time;
//   - a missing value is no sample. Upstream counts it as 0, and a container whose first memory sample is 0 has no
//     peak for a day. Only without a CPU metric does every memory sample come with a CPU sample of 0, as in upstream: the
//     confidence of a recommendation and the lifetime of history depend on CPU samples (UPSTREAM.md §2.13, §2.19).
type External struct {
	Client         external_metrics.NamespacedMetricsGetter
	CPUMetric      string // --external-metrics-cpu-metric, in cores; empty = not asked for
	MemoryMetric   string // --external-metrics-memory-metric, in bytes; empty = not asked for
	ContainerLabel string // --container-name-label: the metric label that names the container; empty = "name"
	Workloads      func() []Workload

	limit time.Duration // for a round; 0 = roundLimit
	begin int           // where a round starts: with the pods that the last one did not reach
}

// NewExternalClient makes the client for External. It shares the limits on requests per second of
// the configuration.
func NewExternalClient(config *rest.Config) (external_metrics.ExternalMetricsClient, error) {
	plain := rest.CopyConfig(config)
	plain.ContentType, plain.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON // adapters need not support protobuf
	plain.Timeout = queryLimit                                                                     // the client takes no context
	client, err := external_metrics.NewForConfig(plain)
	if err != nil {
		return nil, fmt.Errorf("preparing the client of external.metrics.k8s.io: %w", err)
	}
	return client, nil
}

// query is one request, and its answer.
type query struct {
	pod      model.PodID
	resource model.Resource
	metric   string
	selector labels.Selector

	asked  bool
	answer *v1beta1.ExternalMetricValueList
	err    error
}

// Samples implements Source: ordered by pod, container, resource and time. A round takes at most a
// minute; the next one starts with the pods that are left.
func (e *External) Samples(ctx context.Context) ([]model.Sample, error) {
	queries, faults := e.queries()
	if len(queries) > 0 {
		e.begin %= len(queries)
		queries = slices.Concat(queries[e.begin:], queries[:e.begin])
	}
	round, cancel := context.WithTimeout(ctx, cmp.Or(e.limit, roundLimit))
	defer cancel()
	workqueue.ParallelizeUntil(round, atOnce, len(queries), func(i int) {
		q := &queries[i]
		q.answer, q.err = e.Client.NamespacedMetrics(q.pod.Namespace).List(q.metric, q.selector)
		q.asked = true
		answered(externalName, q.err)
	})
	asked := 0
	for _, q := range queries {
		if q.asked {
			asked++
		}
	}
	if asked < len(queries) {
		e.begin += asked
		faults = append(faults, fmt.Errorf("asked for %d of %d external metrics before the deadline, the rest come next: %w; allow more requests per second (--kube-api-qps), or see why the metrics adapter is slow",
			asked, len(queries), round.Err()))
	}
	out, more := e.read(queries)
	faults = append(faults, more...)
	slices.SortStableFunc(out, func(a, b model.Sample) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Container, b.Container),
			cmp.Compare(a.Resource, b.Resource), a.At.Compare(b.At), cmp.Compare(a.Amount, b.Amount))
	})
	return out, errors.Join(faults...)
}

// queries lists the queries of a round, in the order of the workloads and their pods.
func (e *External) queries() ([]query, []error) {
	var out []query
	var unasked []error
	known := map[model.PodID]bool{}
	for _, w := range e.Workloads() {
		for _, name := range w.Pods {
			id := model.PodID{Namespace: w.Namespace, Name: name}
			if known[id] {
				continue
			}
			known[id] = true
			selector, err := ofPod(w.Selector, name)
			if err != nil {
				unasked = append(unasked, fmt.Errorf("pod %s/%s: %w", w.Namespace, name, err))
				continue
			}
			for resource, metric := range []string{model.CPU: e.CPUMetric, model.Memory: e.MemoryMetric} {
				if metric != "" {
					out = append(out, query{pod: id, resource: model.Resource(resource), metric: metric, selector: selector})
				}
			}
		}
	}
	if len(unasked) == 0 {
		return out, nil
	}
	return out, []error{fmt.Errorf("%d pods cannot be asked for by external metrics; the first is %w", len(unasked), unasked[0])}
}

// ofPod narrows a selector to the metrics of one pod.
func ofPod(selector labels.Selector, name string) (labels.Selector, error) {
	if selector == nil {
		return nil, errors.New("its workload has no pod selector")
	}
	if _, selectable := selector.Requirements(); !selectable {
		return nil, errors.New("the pod selector of its workload selects nothing") // narrowing it would match everything
	}
	is, err := labels.NewRequirement("pod", selection.Equals, []string{name})
	if err != nil {
		return nil, fmt.Errorf("its name cannot be the value of label pod: %w; give it a shorter name", err)
	}
	return selector.Add(*is), nil
}

// read turns answers into samples.
func (e *External) read(queries []query) ([]model.Sample, []error) {
	label := cmp.Or(e.ContainerLabel, "name")
	var out []model.Sample
	var faults []error
	for resource, metric := range []string{model.CPU: e.CPUMetric, model.Memory: e.MemoryMetric} {
		var failed, asked, values, nameless int
		var first *query
		for i := range queries {
			q := &queries[i]
			if q.resource != model.Resource(resource) || !q.asked {
				continue
			}
			asked++
			if q.err != nil {
				if failed++; first == nil {
					first = q
				}
				continue
			}
			if q.answer == nil {
				continue
			}
			for j := range q.answer.Items {
				item := &q.answer.Items[j]
				container := item.MetricLabels[label]
				values++
				switch {
				case container == "":
					skipped.WithLabelValues(externalName, withoutName).Inc()
					nameless++
					continue
				case item.Timestamp.IsZero():
					skipped.WithLabelValues(externalName, withoutTime).Inc()
					continue
				}
				amount := facts.MilliCPU
				if q.resource == model.Memory {
					amount = facts.Bytes
					if e.CPUMetric == "" {
						out = append(out, model.Sample{Pod: q.pod, Container: container, Resource: model.CPU, At: item.Timestamp.Time})
					}
				}
				out = append(out, model.Sample{Pod: q.pod, Container: container, Resource: q.resource, Amount: amount(item.Value), At: item.Timestamp.Time})
			}
		}
		if first != nil {
			faults = append(faults, fmt.Errorf("%d of %d queries of external metric %s failed; the first was for pod %s/%s: %w",
				failed, asked, metric, first.pod.Namespace, first.pod.Name, explainExternal(first.err, metric)))
		}
		if values > 0 && nameless == values {
			faults = append(faults, fmt.Errorf("external metric %s: none of its %d values has a label %s, which should name the container; set --container-name-label to the label that does",
				metric, values, label))
		}
	}
	return out, faults
}

// explainExternal says for a metric what explain says for an API.
func explainExternal(err error, metric string) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w; does the metrics adapter know the metric (`kubectl get --raw /apis/external.metrics.k8s.io/v1beta1`)?", err)
	}
	return explain(err, "external.metrics.k8s.io", metric, "the metrics adapter")
}
