// Package cycle runs functions at an interval. Loop is that of the recommender and of the updater:
// it runs a cycle while its replica leads, reports when it is stuck, and times the steps.
package cycle

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/metric"
)

// A loop is stuck after five intervals without a finished cycle (UPSTREAM.md §2.1, §5.1), but not before five minutes:
// shorter intervals make no machine faster, and a restart would not help a slow one.
const (
	stuckIntervals = 5
	leastStuck     = 5 * time.Minute
)

// Loop runs a function at every interval. It implements the manager's Runnable.
type Loop struct {
	name         string
	interval     time.Duration
	clock        clock.WithTicker
	run          func(context.Context)
	eager        bool
	started      atomic.Pointer[time.Time] // nil before the start
	finished     atomic.Pointer[time.Time] // the end of the last finished cycle; nil = none
	lastActivity atomic.Pointer[time.Time] // the start, the last finished cycle or the last progress; nil before the start
}

// The times keep their monotonic reading: when the clock of the machine is stepped, no loop looks
// stuck.

// New returns a loop that has not started.
func New(name string, interval time.Duration, clk clock.WithTicker, run func(context.Context)) *Loop {
	return &Loop{name: name, interval: interval, clock: clk, run: run}
}

// AtOnce makes the first cycle run at the start, not after an interval.
func (l *Loop) AtOnce() { l.eager = true }

// NeedLeaderElection keeps a second replica idle.
func (l *Loop) NeedLeaderElection() bool { return true }

// Start runs a cycle at every interval until the context ends. The first one runs after one
// interval, unless AtOnce was called.
func (l *Loop) Start(ctx context.Context) error {
	l.note(&l.started)
	l.Progress()
	cycle := func() {
		l.run(ctx)
		l.note(&l.finished)
		l.Progress()
	}
	ticker := l.clock.NewTicker(l.interval) // before the first cycle, which may take most of an interval
	defer ticker.Stop()
	if l.eager {
		cycle()
	}
	each(ctx, ticker, cycle)
	return nil
}

// note stores the current time.
func (l *Loop) note(in *atomic.Pointer[time.Time]) {
	now := l.clock.Now()
	in.Store(&now)
}

// LastCycle is the end of the last finished cycle; nil before there is one.
func (l *Loop) LastCycle() *time.Time {
	last := l.finished.Load()
	if last == nil {
		return nil
	}
	at := last.UTC()
	return &at
}

// NextCycle is when the next cycle starts, unless the current one takes longer; nil before the start.
func (l *Loop) NextCycle() *time.Time {
	started := l.started.Load()
	if started == nil {
		return nil
	}
	now := l.clock.Now()
	next := now.Add(l.interval - now.Sub(*started)%l.interval).UTC()
	return &next
}

// Every runs a function at every interval until the context ends. The first time is after one
// interval.
func Every(ctx context.Context, clk clock.WithTicker, interval time.Duration, run func()) {
	ticker := clk.NewTicker(interval)
	defer ticker.Stop()
	each(ctx, ticker, run)
}

// each runs a function at each tick until the context ends.
func each(ctx context.Context, ticker clock.Ticker, run func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			run()
		}
	}
}

// Healthy returns an error when no cycle has finished for five intervals and five minutes. Before the start, and so
// without the lead, it is nil.
func (l *Loop) Healthy() error {
	last := l.lastActivity.Load()
	if last == nil {
		return nil
	}
	if idle := l.clock.Since(*last); idle > max(stuckIntervals*l.interval, leastStuck) {
		return fmt.Errorf("the %s has not finished a cycle for %s", l.name, idle.Round(time.Second))
	}
	return nil
}

// Progress reports that a long cycle is not stuck: the count of intervals starts again.
func (l *Loop) Progress() { l.note(&l.lastActivity) }

// Latency times the steps of a cycle.
type Latency struct {
	*prometheus.HistogramVec
}

// NewLatency is the histogram <component>_execution_latency_seconds with upstream's label and
// buckets (UPSTREAM.md §6).
func NewLatency(component string) Latency {
	return Latency{metric.New.NewHistogramVec(prometheus.HistogramOpts{
		Name:    component + "_execution_latency_seconds",
		Help:    "Time spent in the steps of a cycle.",
		Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 150, 240, 300},
	}, []string{"step"})}
}

// Time runs one step and records how long it took.
func (l Latency) Time(step string, f func()) {
	begin := time.Now()
	f()
	l.WithLabelValues(step).Observe(time.Since(begin).Seconds())
}
