package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/crds/quantity"
)

// metricsAPILimit is how long metrics-server may take to list all pods.
const metricsAPILimit = 30 * time.Second

// MetricsAPI reads metrics.k8s.io, which metrics-server serves (UPSTREAM.md §2.8). It lists
// everything at once: the API has no paging.
type MetricsAPI struct {
	Client    metricsclient.PodMetricsesGetter
	Namespace string // empty = all

	// text reads the answer as JSON; nil = it cannot.
	text func(context.Context) ([]byte, error)
}

// NewMetricsAPI reads the pods of a namespace, or of all if it is empty, as protobuf where that is
// served: it takes a fraction of the time and memory of JSON.
func NewMetricsAPI(config *rest.Config, namespace string) (*MetricsAPI, error) {
	compact := rest.CopyConfig(config)
	compact.ContentType = runtime.ContentTypeProtobuf
	compact.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := metricsclient.NewForConfig(compact)
	if err != nil {
		return nil, fmt.Errorf("preparing the client of metrics.k8s.io: %w", err)
	}
	text := func(ctx context.Context) ([]byte, error) {
		request := client.RESTClient().Get().NamespaceIfScoped(namespace, namespace != "").Resource("pods")
		return request.SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
	}
	return &MetricsAPI{Client: client, Namespace: namespace, text: text}, nil
}

// Samples implements Source. A resource that is missing is no sample; in upstream it is one of 0.
// Pods without a time, without containers or with amounts that are none give none and are counted;
// an error names the first of the last kind.
func (m *MetricsAPI) Samples(ctx context.Context) ([]model.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsAPILimit)
	defer cancel()
	list, unreadable, err := m.list(ctx)
	answered(metricsAPIName, err)
	if err != nil {
		return nil, fmt.Errorf("listing the usage of pods: %w", explain(err, "metrics.k8s.io", "pods", "metrics-server"))
	}
	return samples(list), unreadable
}

// list lists the usage of all pods. If the answer cannot be decoded as a whole, it is read pod by
// pod; unreadable is about the pods that are missing then.
func (m *MetricsAPI) list(ctx context.Context) (list *metricsv1beta1.PodMetricsList, unreadable, err error) {
	list, err = m.Client.PodMetricses(m.Namespace).List(ctx, metav1.ListOptions{})
	if err == nil || m.text == nil || ctx.Err() != nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return list, nil, err
	}
	text, again := m.text(ctx)
	if again != nil {
		return nil, nil, err
	}
	list, unreadable, again = podByPod(text)
	if again != nil {
		return nil, nil, err
	}
	return list, unreadable, nil
}

// podByPod reads a list of pods one by one: the usage of one may be no quantity.
func podByPod(text []byte) (list *metricsv1beta1.PodMetricsList, unreadable, err error) {
	var raw struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, nil, err
	}
	list = &metricsv1beta1.PodMetricsList{}
	left := 0
	for _, item := range raw.Items {
		var pod metricsv1beta1.PodMetrics
		err := quantity.Unmarshal(item, &pod)
		if err == nil {
			list.Items = append(list.Items, pod)
			continue
		}
		skipped.WithLabelValues(metricsAPIName, unreadableUsage).Inc()
		if left++; left == 1 {
			var of metav1.PartialObjectMetadata
			_ = json.Unmarshal(item, &of) // as far as it goes
			unreadable = fmt.Errorf("pod %s/%s: %w", of.Namespace, of.Name, err)
		}
	}
	if left > 0 {
		unreadable = fmt.Errorf("the usage of %d of %d pods cannot be read and is left out; the first is %w; see what serves metrics.k8s.io", left, len(raw.Items), unreadable)
	}
	return list, unreadable, nil
}

// samples turns the usage of pods into samples.
func samples(list *metricsv1beta1.PodMetricsList) []model.Sample {
	count := 0
	for i := range list.Items {
		count += len(list.Items[i].Containers)
	}
	out := make([]model.Sample, 0, 2*count)
	for i := range list.Items {
		pod := &list.Items[i]
		switch {
		case pod.Timestamp.IsZero():
			skipped.WithLabelValues(metricsAPIName, withoutTime).Inc()
			continue
		case len(pod.Containers) == 0:
			skipped.WithLabelValues(metricsAPIName, withoutContainers).Inc()
		}
		id := model.PodID{Namespace: pod.Namespace, Name: pod.Name}
		for j := range pod.Containers {
			c := &pod.Containers[j]
			if q, ok := c.Usage[corev1.ResourceCPU]; ok {
				out = append(out, model.Sample{Pod: id, Container: c.Name, Resource: model.CPU, Amount: facts.MilliCPU(q), At: pod.Timestamp.Time})
			}
			if q, ok := c.Usage[corev1.ResourceMemory]; ok {
				out = append(out, model.Sample{Pod: id, Container: c.Name, Resource: model.Memory, Amount: facts.Bytes(q), At: pod.Timestamp.Time})
			}
		}
	}
	return out
}
