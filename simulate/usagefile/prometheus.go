package usagefile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

type stream struct {
	Metric map[string]string `json:"metric"`
	Values []point           `json:"values"`

	scale int // of times: nano for seconds, or ofMilliseconds
}

// point keeps time and value as text, so nothing is rounded.
type point struct{ at, value string }

// UnmarshalJSON reads [time,"value"]; other JSON becomes a time that fails to parse, with a place.
func (p *point) UnmarshalJSON(text []byte) error {
	p.at = string(text)
	inner := bytes.TrimSpace(text)
	if len(inner) < 2 || inner[0] != '[' {
		return nil
	}
	if at, value, found := bytes.Cut(inner[1:len(inner)-1], []byte(",")); found {
		p.at, p.value = string(bytes.TrimSpace(at)), string(bytes.Trim(value, "\" \t\r\n"))
	}
	return nil
}

// prometheus reads one or more concatenated answers of the Prometheus HTTP API to range queries, or the
// lines of an export of VictoriaMetrics. It holds one series at a time, and what adds up.
func (f *file) prometheus(in *bufio.Reader) error {
	defer f.release()
	value := &valueReader{in: in, limit: f.all.limits.value}
	for decoder := json.NewDecoder(value); f.full == nil; {
		value.next()
		a := answer{file: f, decoder: decoder, value: value}
		err := a.read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case f.full != nil:
			return nil
		case errors.Is(err, errLongValue):
			return err
		case err != nil:
			return fmt.Errorf("not a Prometheus answer to a range query: %w", err)
		case a.isLine():
			f.line(&a)
			continue
		}
		if err := a.check(); err != nil {
			return err
		}
		f.release()
		f.says(&a)
	}
	return nil
}

// line reads a line of an export. Its parts add up with those of other lines.
func (f *file) line(a *answer) {
	s, err := a.series()
	if err != nil {
		f.skip(label(s.Metric), err)
		return
	}
	f.stream(s)
	if a.partial {
		f.lacking(isPartial)
	}
}

// lacking notes what an answer lacks.
func (f *file) lacking(texts ...string) {
	if f.lacks == "" && len(texts) > 0 {
		f.lacks = short(texts[0])
	}
}

const isPartial = "isPartial is true"

// says notes what an answer says about itself.
func (f *file) says(a *answer) {
	lacks := history.Partial(a.warnings)
	for _, text := range a.warnings {
		if f.warning == "" && !slices.Contains(lacks, text) {
			f.warning = short(text)
		}
	}
	if a.partial {
		lacks = append(lacks, isPartial)
	}
	f.lacking(lacks...)
}

// release takes what was held until the whole answer was known.
func (f *file) release() {
	f.all.held.release(f.all.names.count, f.add)
	f.all.kept, f.all.keptByHeld = f.all.kept-f.all.keptByHeld, 0
}

// pause is cAdvisor's name for the container that holds a pod's network.
const pause = "POD"

// stream skips series of whole pods and of their networks, which cAdvisor lists among containers.
func (f *file) stream(s stream) {
	length := 0
	for label, value := range s.Metric {
		length += len(label) + len(value)
	}
	if most := f.all.limits.labels; length > most {
		f.skip("a series", fmt.Errorf("its labels are longer than %s", size(int64(most))))
		return
	}
	name := s.Metric["container"]
	if _, labeled := s.Metric["container"]; (labeled && name == "") || name == pause {
		return
	}
	of := Series{Pod: model.PodID{Namespace: s.Metric["namespace"], Name: s.Metric["pod"]}, Container: name}
	m, err := measured(s.Metric)
	if errors.Is(err, errNotUsage) {
		f.notUsage(s.Metric["__name__"])
		return
	}
	if err == nil && (of.Pod.Namespace == "" || of.Pod.Name == "" || of.Container == "") {
		err = errors.New("it lacks a label: it needs namespace, pod and container")
	}
	if err != nil {
		f.skip(label(s.Metric), fmt.Errorf("%w; values: %d", err, len(s.Values)))
		return
	}
	of.Kind = m.kind
	if m.second || ofCore(m, s.Metric) {
		f.hold(of, m, s)
		return
	}
	if _, known := f.all.names.of[of]; !known {
		if f.full = f.all.keep(bytesPerSeries); f.full != nil {
			return
		}
	}
	asked, counts := false, false
	var from *source
	f.watched(s, m, scaleOf(of.Kind), func(at, amount int64) {
		if !asked { // a series without an amount keeps no other metric out
			asked, counts = true, f.all.names.count(of, nameOf(s.Metric))
			if counts {
				var grew int
				from, grew = f.all.contradictions.of(of, s.Metric)
				if f.full = f.all.keep(grew); f.full != nil {
					counts = false
				}
			}
		}
		if !counts {
			f.rows++ // which is read, and does not count
			return
		}
		f.add(of, at, amount)
		from.add(at, amount)
	})
}

// watched is values, which also notes the cluster that they are of.
func (f *file) watched(s stream, m measure, scale int, add func(at, amount int64)) {
	when := nothing
	f.values(s, m, scale, func(at, amount int64) {
		add(at, amount)
		when = when.with(at)
	})
	if when.first <= when.last {
		f.all.contradictions.inCluster(s.Metric, when)
	}
}

// hold keeps a series until the whole answer is known.
func (f *file) hold(of Series, m measure, s stream) {
	var points []finePoint
	scale := unit
	if of.Kind == CPU {
		scale = nano
	}
	f.watched(s, m, scale, func(at, amount int64) { points = append(points, finePoint{at, amount}) })
	if len(points) > 0 {
		f.rows += len(points)
		bytes := f.all.held.add(of, s.Metric, m.second, points)
		f.all.keptByHeld += int64(bytes)
		f.full = f.all.keep(bytes)
	}
}

// values gives the amounts of a series to add, in cores or bytes times 10^scale.
func (f *file) values(s stream, m measure, scale int, add func(at, amount int64)) {
	if m.counter {
		f.counter(s, scale, add)
		return
	}
	for _, p := range s.Values {
		at, err := instant(p.at, s.scale)
		var n int64
		if err == nil {
			n, err = amount(m.kind, scale, p.value)
		}
		if err != nil {
			f.skip(label(s.Metric)+" at "+p.at, err)
			continue
		}
		add(at, n)
	}
}

// counter converts each interval of CPU seconds to cores, at its end. Resets restart at 0.
func (f *file) counter(s stream, scale int, add func(at, amount int64)) {
	var last, lastAt int64
	known := false
	for _, p := range s.Values {
		at, err := instant(p.at, s.scale)
		var n int64
		if err == nil {
			if n, err = decimal(p.value, nano); err != nil {
				err = fmt.Errorf("value %q %w; it is in seconds", p.value, err)
			}
		}
		if err == nil && known && at <= lastAt {
			err = errors.New("its time is not after the one before")
		}
		if err != nil {
			f.skip(label(s.Metric)+" at "+p.at, err)
			continue
		}
		if known {
			used := n - last
			if used < 0 {
				used = n
			}
			if rate, ok := quotient(used, at-lastAt, scale); ok {
				add(at, rate)
			} else {
				f.skip(label(s.Metric)+" at "+p.at, fmt.Errorf("value %q exceeds what can be used since the one before", p.value))
			}
		}
		last, lastAt, known = n, at, true
	}
}

// quotient is 10^scale·a/b, truncated, for b > 0; ok is false if it is more than any amount.
func quotient(a, b int64, scale int) (_ int64, ok bool) {
	high, low := bits.Mul64(uint64(a), uint64(math.Pow10(scale)))
	if high >= uint64(b) {
		return 0, false
	}
	n, _ := bits.Div64(high, low, uint64(b))
	return int64(min(n, math.MaxInt64)), n <= largest(scale)
}

// label names a series in messages.
func label(metric map[string]string) string {
	return fmt.Sprintf("%s{namespace=%q, pod=%q, container=%q}", metric["__name__"], metric["namespace"], metric["pod"], metric["container"])
}
