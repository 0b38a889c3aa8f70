package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Metrics are what a process tells about itself at /metrics, by name.
type Metrics map[string]*dto.MetricFamily

// ReadMetrics asks the process at an address.
func ReadMetrics(ctx context.Context, address string) (Metrics, error) {
	body, err := get(ctx, address, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("reading its metrics: %w", err)
	}
	defer body.Close()
	m, err := parseMetrics(body)
	if err != nil {
		return nil, fmt.Errorf("reading its metrics: %w", err)
	}
	return m, nil
}

func get(ctx context.Context, address, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "identity") // compressing would be a part of what is measured
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("%s says %s", path, response.Status)
	}
	return response.Body, nil
}

func parseMetrics(from io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(from)
}

// Steps reads a histogram that tells how long the steps of a cycle took, with a step "total" for the whole: how many cycles came to
// their end, and how many seconds each step took in all of them.
func (m Metrics) Steps(name string) (cycles float64, sums map[string]float64) {
	sums = map[string]float64{}
	for _, one := range m[name].GetMetric() {
		step := label(one, "step")
		sums[step] = one.GetHistogram().GetSampleSum()
		if step == "total" {
			cycles = float64(one.GetHistogram().GetSampleCount())
		}
	}
	return cycles, sums
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// SaveProfile leaves a profile of the process at an address in a file. Kind is a path below /debug/pprof, e.g. "heap".
func SaveProfile(ctx context.Context, address, kind, file string) error {
	body, err := get(ctx, address, "/debug/pprof/"+kind)
	if err != nil {
		return fmt.Errorf("reading the profile: %w", err)
	}
	defer body.Close()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, body); err != nil {
		return fmt.Errorf("writing the profile: %w", err)
	}
	return nil
}

// APIServer is a client for paths of an API server.
func (c *Cluster) APIServer() (*rest.RESTClient, error) {
	config := rest.CopyConfig(c.Config)
	config.GroupVersion = &schema.GroupVersion{}
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	return rest.UnversionedRESTClientFor(config)
}

// Asked is what kind of thing an API server was asked for.
type Asked struct{ Group, Resource, Subresource string }

// Requests are how often an API server was asked, and how many seconds its answers to writes took in all.
type Requests struct{ Writes, Reads, WriteSeconds float64 }

// Since is what was asked after an earlier count.
func (r Requests) Since(before Requests) Requests {
	return Requests{r.Writes - before.Writes, r.Reads - before.Reads, r.WriteSeconds - before.WriteSeconds}
}

// CountRequests counts what an API server was asked since it began: by everybody, of the kinds that count.
func CountRequests(ctx context.Context, api *rest.RESTClient, counts func(Asked) bool) (r Requests, err error) {
	body, err := api.Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return r, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	defer body.Close()
	families, err := parseMetrics(body)
	if err != nil {
		return r, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	of := func(family string) (writes, reads []*dto.Metric) {
		for _, m := range families[family].GetMetric() {
			if !counts(Asked{Group: label(m, "group"), Resource: label(m, "resource"), Subresource: label(m, "subresource")}) {
				continue
			}
			switch strings.ToUpper(label(m, "verb")) {
			case "POST", "PUT", "PATCH", "APPLY", "DELETE":
				writes = append(writes, m)
			case "GET", "LIST":
				reads = append(reads, m)
			}
		}
		return writes, reads
	}
	writes, reads := of("apiserver_request_total")
	for _, m := range writes {
		r.Writes += m.GetCounter().GetValue()
	}
	for _, m := range reads {
		r.Reads += m.GetCounter().GetValue()
	}
	writes, _ = of("apiserver_request_duration_seconds")
	for _, m := range writes {
		r.WriteSeconds += m.GetHistogram().GetSampleSum()
	}
	return r, nil
}
