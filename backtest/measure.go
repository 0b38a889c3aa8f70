package backtest

import (
	"math"
	"slices"
	"time"
)

// resourceKind is CPU, in milli-cores, or memory, in bytes.
type resourceKind uint8

const (
	cpu resourceKind = iota
	memory
	resourceKinds
)

// totals are what is summed over time about one resource of the containers of one name: amounts of
// the resource times seconds, or seconds.
type totals struct {
	requested         float64 // while the pod is there
	observed          float64 // seconds for which usage is known
	requestedObserved float64
	used              float64
	slack             float64
	over              float64 // seconds
	beyond            float64 // usage over the limit
}

func (t *totals) add(o *totals) {
	t.requested += o.requested
	t.observed += o.observed
	t.requestedObserved += o.requestedObserved
	t.used += o.used
	t.slack += o.slack
	t.over += o.over
	t.beyond += o.beyond
}

// flapWithin is the time within which a change of a request undoes the one before.
const flapWithin = int64(24 * time.Hour)

// meter measures one resource of one container of one pod. Usage is a step function: a sample holds
// until the next one, for maxGap at most. Times are unix nanoseconds.
type meter struct {
	*tally
	kind           resourceKind
	request, limit int64 // in force; no limit = 0
	usage          int64
	until          int64 // up to when usage is known
	since          int64 // up to when everything is summed
	short          int64 // since when usage is above the request; 0 = it is not
	turned         int64 // time of the last change of the request; 0 = none
	up             bool  // that change raised it
}

// advance sums up to a time.
func (m *meter) advance(to int64) {
	if to <= m.since {
		return
	}
	t := &m.totals[m.kind]
	request := float64(m.request)
	t.requested += request * seconds(to-m.since)
	if known := min(to, m.until); known > m.since {
		dt, usage := seconds(known-m.since), float64(m.usage)
		t.observed += dt
		t.requestedObserved += request * dt
		t.used += usage * dt
		switch {
		case m.usage < m.request:
			t.slack += (request - usage) * dt
		case m.usage > m.request:
			t.over += dt
		}
		if m.limit > 0 && m.usage > m.limit {
			t.beyond += (usage - float64(m.limit)) * dt
		}
	}
	m.since = to
}

// sample is usage from a time on, until the next sample or a time at most.
func (m *meter) sample(at, usage, until int64) {
	m.advance(at)
	m.usage, m.until = usage, until
	switch {
	case usage <= m.request:
		m.short = 0
	case m.short == 0:
		m.short = at
	}
}

// begin puts the first request and limit in force.
func (m *meter) begin(at, request, limit int64) { m.since, m.request, m.limit = at, request, limit }

// set puts another request and limit in force.
func (m *meter) set(at, request, limit int64) {
	m.advance(at)
	before := m.request
	m.request, m.limit = request, limit
	if request == before {
		return
	}
	up := request > before
	if m.turned != 0 && m.up != up && at-m.turned <= flapWithin {
		m.flaps++
	}
	m.turned, m.up = at, up
	if m.short != 0 && up && m.usage <= request {
		m.adapted = append(m.adapted, (at-m.short)/int64(time.Second))
		m.short = 0
	}
}

// tally is what is known about the containers of one name of a workload.
type tally struct {
	totals    [resourceKinds]totals
	ooms      int
	evictions int // of pods
	resizes   int
	flaps     int
	adapted   []int64 // seconds
	firstSeen int64   // the first sample
	first     *int64  // seconds from there to the first recommendation
}

// add adds what sums up, but for what was done to pods.
func (t *tally) add(o *tally) {
	for i := range t.totals {
		t.totals[i].add(&o.totals[i])
	}
	t.ooms += o.ooms
	t.flaps += o.flaps
	t.adapted = append(t.adapted, o.adapted...)
	if o.first != nil && (t.first == nil || *o.first > *t.first) {
		t.first = o.first
	}
}

// addAll adds what sums up.
func (t *tally) addAll(o *tally) {
	t.add(o)
	t.evictions += o.evictions
	t.resizes += o.resizes
}

// measures turns sums into figures, for a window of so many seconds.
func (t *tally) measures(window float64, prices *Prices) Measures {
	const hour, core, gib = 3600, 1000, 1 << 30
	c, m := &t.totals[cpu], &t.totals[memory]
	out := Measures{
		CPU: CPU{
			SlackMean: ratio(c.slack/core, window), SlackShare: ratio(c.slack, c.requestedObserved),
			OverRequestShare: ratio(c.over, c.observed), ThrottledCoreSeconds: c.beyond / core,
			RequestedCoreHours: c.requested / core / hour, UsedCoreHours: c.used / core / hour,
		},
		Memory: Memory{
			SlackMeanBytes: ratio(m.slack, window), SlackShare: ratio(m.slack, m.requestedObserved),
			OverRequestShare:  ratio(m.over, m.observed),
			RequestedGiBHours: m.requested / gib / hour, UsedGiBHours: m.used / gib / hour,
		},
		OOMs: t.ooms, Evictions: t.evictions, Resizes: t.resizes, Flaps: t.flaps,
		FirstRecommendationSeconds: t.first, AdaptSeconds: timesOf(t.adapted), ObservedSeconds: max(c.observed, m.observed),
	}
	if prices != nil {
		cost := out.CPU.RequestedCoreHours*prices.CoreHour + out.Memory.RequestedGiBHours*prices.GiBHour
		out.Cost = &cost
	}
	return out
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func seconds(nanoseconds int64) float64 { return float64(nanoseconds) / float64(time.Second) }

func timesOf(list []int64) Times {
	if len(list) == 0 {
		return Times{}
	}
	sorted := slices.Sorted(slices.Values(list))
	return Times{Count: len(sorted), P50: sorted[rank(len(sorted), 0.5)], P95: sorted[rank(len(sorted), 0.95)], Worst: sorted[len(sorted)-1]}
}

// rank is the index of a quantile by nearest rank, of n sorted values.
func rank(n int, q float64) int { return max(int(math.Ceil(q*float64(n)))-1, 0) }

// quantiles are those of values of which the largest is the worst.
func quantiles(list []float64) Quantiles {
	if len(list) == 0 {
		return Quantiles{}
	}
	sorted := slices.Sorted(slices.Values(list))
	return Quantiles{P50: sorted[rank(len(sorted), 0.5)], P95: sorted[rank(len(sorted), 0.95)], Worst: sorted[len(sorted)-1]}
}
