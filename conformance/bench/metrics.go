package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics are those of a process, by name.
type metrics map[string]*dto.MetricFamily

// scrape reads /metrics of a server.
func scrape(ctx context.Context, client *http.Client, server string) (metrics, error) {
	text, err := get(ctx, client, server+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	m, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading metrics of %s: %w", server, err)
	}
	return m, nil
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "identity") // compressing would cost the measured process CPU
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return body, err
}

// steps reads a histogram of the steps of a cycle, with a step "total" for the whole: the number of
// cycles that ended, and the seconds that each step took in all of them.
func (m metrics) steps(name string) (cycles float64, sums map[string]float64) {
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

// requests counts what an API server was asked for, and the seconds that its answers to writes
// took.
type requests struct{ writes, reads, writeSeconds float64 }

func (r requests) since(before requests) requests {
	return requests{r.writes - before.writes, r.reads - before.reads, r.writeSeconds - before.writeSeconds}
}

// asked is what a request to an API server is about.
type asked struct{ group, name, subresource string }

// requests counts those since the API server started, by everybody, that are about resources that
// count.
func (l *lab) requests(ctx context.Context, counts func(asked) bool) (r requests, err error) {
	all, err := scrape(ctx, l.api, l.Config.Host)
	if err != nil {
		return r, err
	}
	each := func(family string, write, read func(*dto.Metric)) {
		for _, m := range all[family].GetMetric() {
			if !counts(asked{label(m, "group"), label(m, "resource"), label(m, "subresource")}) {
				continue
			}
			switch strings.ToUpper(label(m, "verb")) {
			case "POST", "PUT", "PATCH", "APPLY", "DELETE":
				write(m)
			case "GET", "LIST":
				read(m)
			}
		}
	}
	each("apiserver_request_total",
		func(m *dto.Metric) { r.writes += m.GetCounter().GetValue() },
		func(m *dto.Metric) { r.reads += m.GetCounter().GetValue() })
	each("apiserver_request_duration_seconds",
		func(m *dto.Metric) { r.writeSeconds += m.GetHistogram().GetSampleSum() }, func(*dto.Metric) {})
	return r, nil
}
