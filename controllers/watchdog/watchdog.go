// Package watchdog reports which object blocks a process: work that does not end
// (crds/underway), and stored objects that cannot be decoded.
package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/crds/underway"
)

var overdueSeconds = prometheus.NewDesc("celvpa_overdue_work_seconds",
	"Duration of work that should be instant but is not, such as decoding an object or compiling rules, by work and object. The series exists only while the work hangs; /readyz fails meanwhile.",
	[]string{"doing", "object"}, nil)

type collector struct{}

func (collector) Describe(ch chan<- *prometheus.Desc) { ch <- overdueSeconds }

func (collector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	seen := map[string]bool{}
	for _, w := range underway.Overdue(now, 0) {
		if !seen[w.String()] { // the oldest of several about the same
			seen[w.String()] = true
			ch <- prometheus.MustNewConstMetric(overdueSeconds, prometheus.GaugeValue, now.Sub(w.Since).Seconds(), w.Doing, w.About)
		}
	}
}

func init() { metrics.Registry.MustRegister(collector{}) }

// Ready is an error while work is overdue.
func Ready() error {
	now := time.Now()
	for _, w := range underway.Overdue(now, 0) {
		return fault(w, now)
	}
	return nil
}

// restartAfter is how long work that blocks the process may take before the process counts as dead.
const restartAfter = 10 * time.Minute

// Healthy is an error while work that blocks the process has been going on for too long.
func Healthy() error { return healthyAt(time.Now()) }

func healthyAt(now time.Time) error {
	for _, w := range underway.Overdue(now, restartAfter) {
		if w.Restart {
			return fault(w, now)
		}
	}
	return nil
}

func fault(w underway.Work, now time.Time) error {
	return fmt.Errorf("%s has not ended for %s: change or delete that object, and restart this process if it goes on", w, now.Sub(w.Since).Round(time.Second))
}

// Reporter logs overdue work once, and its end.
type Reporter struct {
	Clock clock.WithTicker
	Log   logr.Logger
}

// interval is how often the reporter looks.
const interval = 5 * time.Second

// NeedLeaderElection lets every replica report.
func (r *Reporter) NeedLeaderElection() bool { return false }

// Start reports until the context ends.
func (r *Reporter) Start(ctx context.Context) error {
	reported := map[underway.Work]bool{}
	cycle.Every(ctx, r.Clock, interval, func() { reported = r.report(reported) })
	return nil
}

// report logs what was not reported before, and returns what is reported now.
func (r *Reporter) report(reported map[underway.Work]bool) map[underway.Work]bool {
	now := time.Now()
	overdue := map[underway.Work]bool{}
	for _, w := range underway.Overdue(now, 0) {
		overdue[w] = true
		if !reported[w] {
			r.Log.Error(fault(w, now), "work overdue; this process is not ready until it ends", "doing", w.Doing, "object", w.About)
		}
	}
	for w := range reported {
		if !overdue[w] {
			r.Log.Info("overdue work ended", "doing", w.Doing, "object", w.About, "seconds", int(now.Sub(w.Since).Seconds()))
		}
	}
	return overdue
}
