package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/celvpa/celvpa/conformance/harness"
)

// cycleMetric is a histogram that both recommenders keep, by step.
const cycleMetric = "vpa_recommender_execution_latency_seconds"

// result is what one recommender took. Times are in seconds, memory is in bytes.
type result struct {
	name   string
	ours   bool
	cycles int                // that were measured, not counting the first
	first  float64            // the first cycle
	steps  map[string]float64 // mean of a step, in the cycles that were measured; "total" is the cycle
	worst  float64            // the longest of these cycles
	window float64            // from the end of the first cycle to the end of the last
	cpu    float64            // in the window
	rss    uint64             // median in the window, looked at every second
	peak   uint64             // highest ever
	writes float64            // to the API, in the window
	reads  float64
}

// state is all that is read at one moment.
type state struct {
	at       time.Time
	cycles   float64
	steps    map[string]float64 // sum of each step
	requests requests
	harness.Footprint
}

// measure runs a program until it has gone through its cycles.
func (b *bench) measure(ctx context.Context, p program) (r result, err error) {
	begin := time.Now()
	one, err := b.start(p)
	if err != nil {
		return r, err
	}
	defer one.Stop()
	say("%s runs; its first cycle is due in a minute, and %d more are measured", p.name, b.cycles)
	r = result{name: p.name, ours: p.ours}
	var start, last state
	var rss []uint64
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-tick.C:
		}
		if err := one.Alive(); err != nil {
			return r, err
		}
		now, err := b.look(ctx, one)
		if err != nil && time.Since(begin) < time.Minute { // it is not up yet
			continue
		} else if err != nil {
			return r, err
		}
		if start.cycles > 0 {
			rss = append(rss, now.RSS)
		}
		if now.cycles == last.cycles {
			continue
		}
		took := (now.steps["total"] - last.steps["total"]) / (now.cycles - last.cycles)
		say("%s: cycle %.0f took %.2f s, memory %s", p.name, now.cycles, took, mebibytes(now.RSS))
		if now.requests, err = b.requests(ctx); err != nil {
			return r, err
		}
		last = now
		if start.cycles == 0 {
			start, r.first = now, took
			continue
		}
		r.worst = max(r.worst, took)
		if int(now.cycles-start.cycles) >= b.cycles {
			break
		}
	}
	r.cycles = int(last.cycles - start.cycles)
	r.steps = map[string]float64{}
	for step, sum := range last.steps {
		r.steps[step] = (sum - start.steps[step]) / float64(r.cycles)
	}
	slices.Sort(rss)
	r.rss, r.peak = rss[len(rss)/2], last.Peak
	r.window, r.cpu = last.at.Sub(start.at).Seconds(), last.CPU-start.CPU
	r.writes, r.reads = last.requests.writes-start.requests.writes, last.requests.reads-start.requests.reads
	if b.profile {
		err = b.saveProfile(one)
	}
	return r, err
}

// look reads how many cycles a process has finished and what they took.
func (b *bench) look(ctx context.Context, p *process) (s state, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/metrics", nil)
	if err != nil {
		return s, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, fmt.Errorf("reading its metrics: %w", err)
	}
	defer response.Body.Close()
	families, err := parse(response.Body)
	if err != nil {
		return s, fmt.Errorf("reading its metrics: %w", err)
	}
	s.at, s.steps = time.Now(), map[string]float64{}
	for _, m := range families[cycleMetric].GetMetric() {
		step := label(m, "step")
		s.steps[step] = m.GetHistogram().GetSampleSum()
		if step == "total" {
			s.cycles = float64(m.GetHistogram().GetSampleCount())
		}
	}
	s.Footprint, err = p.Footprint()
	return s, err
}

func parse(from io.Reader) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(from)
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// requests counts what an API server was asked that nobody in the lab but a recommender asks for.
type requests struct{ writes, reads float64 }

func (b *bench) requests(ctx context.Context) (r requests, err error) {
	body, err := b.api.Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return r, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	defer body.Close()
	families, err := parse(body)
	if err != nil {
		return r, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		group, sub := label(m, "group"), label(m, "subresource")
		if group != "autoscaling.k8s.io" && group != "metrics.k8s.io" && sub != "scale" {
			continue
		}
		switch strings.ToUpper(label(m, "verb")) {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE":
			r.writes += m.GetCounter().GetValue()
		case "GET", "LIST":
			r.reads += m.GetCounter().GetValue()
		}
	}
	return r, nil
}

// apiServer is a client for paths of an API server.
func apiServer(config *rest.Config) (*rest.RESTClient, error) {
	c := rest.CopyConfig(config)
	c.GroupVersion = &schema.GroupVersion{}
	c.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	return rest.UnversionedRESTClientFor(c)
}

// saveProfile leaves the heap of a process in a file.
func (b *bench) saveProfile(p *process) error {
	response, err := http.Get("http://" + p.address + "/debug/pprof/heap")
	if err != nil {
		return fmt.Errorf("reading the heap profile: %w", err)
	}
	defer response.Body.Close()
	name := filepath.Join(b.logs, filepath.Base(p.path)+".heap")
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(file, response.Body); err != nil {
		return fmt.Errorf("writing the heap profile: %w", err)
	}
	say("the heap profile is in %s", name)
	return nil
}
