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
	"strings"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

type stream struct {
	Metric map[string]string `json:"metric"`
	Values []point           `json:"values"`
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

// prometheus reads one or more concatenated answers of the Prometheus HTTP API to range queries. It
// holds one series at a time.
func (f *file) prometheus(in *bufio.Reader) error {
	for decoder := json.NewDecoder(in); f.full == nil; {
		a := answer{file: f, decoder: decoder}
		err := a.read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case f.full != nil:
			return nil
		case err != nil:
			return fmt.Errorf("not a Prometheus answer to a range query: %w", err)
		case a.status != "success":
			return fmt.Errorf("a Prometheus answer with status %q: %s", a.status, a.fault)
		case a.resultType != "matrix":
			return fmt.Errorf("a Prometheus answer with a %s, not a matrix: ask /api/v1/query_range", a.resultType)
		}
	}
	return nil
}

// pause is cAdvisor's name for the container that holds a pod's network.
const pause = "POD"

// stream skips series of whole pods and of their networks, which cAdvisor lists among containers.
func (f *file) stream(s stream) {
	name := s.Metric["container"]
	if _, labeled := s.Metric["container"]; (labeled && name == "") || name == pause {
		return
	}
	of := Series{Pod: model.PodID{Namespace: s.Metric["namespace"], Name: s.Metric["pod"]}, Container: name}
	kind, counter, err := measured(s.Metric)
	if err == nil && (of.Pod.Namespace == "" || of.Pod.Name == "" || of.Container == "") {
		err = errors.New("it lacks a label: it needs namespace, pod and container")
	}
	if err != nil {
		f.skip(label(s.Metric), fmt.Errorf("%w; values: %d", err, len(s.Values)))
		return
	}
	of.Kind = kind
	if counter {
		f.counter(of, s)
		return
	}
	for _, p := range s.Values {
		at, err := nanoseconds(p.at)
		var n int64
		if err == nil {
			n, err = amount(kind, p.value)
		}
		if err != nil {
			f.skip(label(s.Metric)+" at "+p.at, err)
			continue
		}
		f.add(of, at, n)
	}
}

// measured reads the kind from the label resource, else from the metric name. CPU metrics named
// *_seconds_total are counters; others are in cores.
func measured(metric map[string]string) (kind Kind, counter bool, err error) {
	name := metric["__name__"]
	if resource, labeled := metric["resource"]; labeled {
		kind, known := kinds[resource]
		if !known {
			return 0, false, fmt.Errorf("its label resource is %q and not cpu, memory or oom", resource)
		}
		return kind, false, nil
	}
	switch {
	case strings.Contains(name, "memory"):
		return Memory, false, nil
	case strings.Contains(name, "cpu"):
		return CPU, strings.HasSuffix(name, "_seconds_total"), nil
	}
	return 0, false, errors.New("neither a label resource nor the name of its metric says what it is about; " +
		`give rates one: label_replace(rate(…), "resource", "cpu", "", "")`)
}

// counter converts each interval of CPU seconds to milli-cores, at its end. Resets restart at 0.
func (f *file) counter(of Series, s stream) {
	var last, lastAt int64
	known := false
	for _, p := range s.Values {
		at, err := nanoseconds(p.at)
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
			if rate, ok := perThousand(used, at-lastAt); ok {
				f.add(of, at, rate)
			} else {
				f.skip(label(s.Metric)+" at "+p.at, fmt.Errorf("value %q exceeds what can be used since the one before", p.value))
			}
		}
		last, lastAt, known = n, at, true
	}
}

// perThousand is 1000·a/b, truncated, for b > 0; ok is false on overflow.
func perThousand(a, b int64) (_ int64, ok bool) {
	high, low := bits.Mul64(uint64(a), 1000)
	if high >= uint64(b) {
		return 0, false
	}
	n, _ := bits.Div64(high, low, uint64(b))
	return int64(min(n, math.MaxInt64)), n <= most
}

// label names a series in messages.
func label(metric map[string]string) string {
	return fmt.Sprintf("%s{namespace=%q, pod=%q, container=%q}", metric["__name__"], metric["namespace"], metric["pod"], metric["container"])
}
