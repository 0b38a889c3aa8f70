package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/celvpa/celvpa/conformance/bench/crowd"
	"github.com/celvpa/celvpa/conformance/bench/standin"
	"github.com/celvpa/celvpa/conformance/harness"
)

// clockwork lets a minute pass in a crowd whenever usage is asked for. The answer to the next
// question is made meanwhile.
type clockwork struct {
	*crowd.Crowd
	mu      sync.Mutex
	next    []byte
	asked   int
	waits   func(minute int) // called while a recommender waits for the usage of a minute
	stopped bool
}

func (c *clockwork) prepare() {
	body, err := c.Usage()
	if err != nil {
		progress("%v", err)
	}
	c.next = body
}

// ask returns the usage of a minute, and lets it pass.
func (c *clockwork) ask() []byte {
	c.mu.Lock()
	body := c.next
	if c.stopped {
		c.mu.Unlock()
		return body
	}
	if c.asked++; c.waits != nil {
		c.waits(c.asked)
	}
	go func() {
		defer c.mu.Unlock()
		c.Minute()
		c.prepare()
	}()
	return body
}

// clockwork serves a crowd in which time begins to pass once a recommender asks for usage.
func (s *scaling) clockwork(ctx context.Context, made *crowd.Crowd) (*clockwork, *standin.Server, *lab, error) {
	c := &clockwork{Crowd: made}
	c.prepare()
	server := serverOf(made)
	server.Usage = c.ask
	l, err := s.serve(ctx, server)
	return c, server, l, err
}

// onWait sets what happens while a recommender waits for usage.
func (c *clockwork) onWait(waits func(minute int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = waits
}

// stop lets no more time pass.
func (c *clockwork) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}

// recommender measures one that starts from checkpoints of upstream's, runs through all minutes, and
// starts once more from its own checkpoints.
func (s *scaling) recommender(ctx context.Context, vpas int) ([]value, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	minute, qps := s.pace(vpas)
	progress("making a cluster with %d VPAs", vpas)
	made, err := crowd.Make(vpas, time.Now().Add(-time.Duration(s.minutes)*time.Minute), crowd.Remembered)
	if err != nil {
		return nil, err
	}
	c, server, l, err := s.clockwork(ctx, made)
	if err != nil {
		return nil, err
	}
	one, err := s.component(l, "recommender", qps, fmt.Sprintf("--recommender-interval=%s", minute), fmt.Sprintf("--unused-history-grace=%s", 10*minute))
	if err != nil {
		return nil, err
	}
	defer one.end()
	stop := watch(one.Pid())
	ends := []cycleEnd{{}}
	heaps := newHeaps(s.minutes)
	c.onWait(func(minute int) { heaps.look(minute, func() (float64, error) { return one.liveHeap(ctx) }) })
	writes, served := int64(0), 0.0 // after the first cycle
	err = one.poll(ctx, time.Second, func(m metrics) (done bool, err error) {
		last, now := ends[len(ends)-1], cycleEnd{at: time.Now()}
		if now.cycles, now.steps = m.steps("vpa_recommender_execution_latency_seconds"); now.cycles == last.cycles {
			return false, nil
		}
		ends = append(ends, now)
		if len(ends) == 2 {
			writes, served = server.Writes.Count(), server.Usages.Seconds()
			s.cpuProfile(ctx, one, fmt.Sprintf("recommender-%d", vpas), 3*minute)
		}
		progress("recommender: %.0f cycles, the last took %.2f s", now.cycles, now.mean(last, "total"))
		return int(now.cycles) >= s.minutes, nil
	})
	seen := stop()
	if err != nil {
		return nil, err
	}
	c.stop()
	early, late, err := heaps.least()
	if err != nil {
		return nil, err
	}
	writes, served = server.Writes.Count()-writes, server.Usages.Seconds()-served
	if err := s.heapProfile(ctx, one, fmt.Sprintf("recommender-%d", vpas)); err != nil {
		return nil, err
	}
	one.end()
	again, err := s.restart(ctx, l, c.Checkpoints.Len(), minute+minute/2)
	if err != nil {
		return nil, err
	}
	return append(scaleRecommenderValues(vpas, s.minutes, ends, early, late, seen, float64(writes), served), again...), nil
}

// writing are the steps whose time is that of the API server, and of the limit on requests to it.
var writing = []string{"WriteStatuses", "MaintainCheckpoints"}

// scaleRecommenderValues has what is printed. Live heaps are in bytes.
func scaleRecommenderValues(vpas, minutes int, ends []cycleEnd, early, late float64, seen samples, writes, served float64) []value {
	first, last := ends[1], ends[len(ends)-1]
	own := func(from, to cycleEnd) float64 {
		out := to.mean(from, "total")
		for _, step := range writing {
			out -= to.mean(from, step)
		}
		return out
	}
	longest := 0.0
	for i := 2; i < len(ends); i++ {
		longest = max(longest, own(ends[i-1], ends[i]))
	}
	cycles, measured := last.cycles-first.cycles, seen.between(first.at, last.at)
	out := []value{
		{"VPAs", count, float64(vpas)},
		{"minutes", count, float64(minutes)},
		{"cycle without writes, mean", seconds, own(first, last)},
		{"cycle without writes, longest", seconds, longest},
		{"cycle, mean", seconds, last.mean(first, "total")},
	}
	out = append(out, stepValues(meanSteps(first, last))...)
	return append(out,
		value{"· waiting for usage", seconds, served / cycles},
		value{"CPU per minute", seconds, measured.cpu() / cycles},
		value{"RSS, median", mebibytes, measured.rss()},
		value{"RSS, peak", mebibytes, float64(seen.last().Peak)},
		value{"live heap, after a quarter of the time", mebibytes, early},
		value{"live heap, at the end", mebibytes, late},
		value{"· of that after a quarter", percent, late / early},
		value{"API writes per minute", count, writes / cycles},
	)
}

// restart is how long a recommender takes to have read so many checkpoints, from the start of its
// process, and the CPU time that it used until then. A profile spans the given time, which must be less.
func (s *scaling) restart(ctx context.Context, l *lab, checkpoints int, span time.Duration) ([]value, error) {
	one, err := s.component(l, "recommender", 1000, "--recommender-interval=1s")
	if err != nil {
		return nil, err
	}
	defer one.end()
	profiled := false
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Minute, false, func(ctx context.Context) (bool, error) {
		if err := one.Alive(); err != nil {
			return false, err
		}
		m, err := scrape(ctx, http.DefaultClient, "http://"+one.address)
		if err != nil {
			return false, nil // it does not serve yet
		}
		if !profiled {
			profiled = true
			s.cpuProfile(ctx, one, "start", span)
		}
		loaded := 0.0
		for _, result := range m["celvpa_recommender_checkpoints_loaded_total"].GetMetric() {
			loaded += result.GetCounter().GetValue()
		}
		return int(loaded) >= checkpoints, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for %d checkpoints to be read: %w; see %s", checkpoints, err, one.LogFile)
	}
	took := time.Since(one.started)
	used, err := harness.FootprintOf(one.Pid())
	return startValues(took, used.CPU), err
}

func startValues(took time.Duration, cpu float64) []value {
	return []value{{"start from checkpoints", seconds, took.Seconds()}, {"· CPU of that", seconds, cpu}}
}
