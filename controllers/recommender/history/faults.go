package history

import (
	"errors"
	"fmt"
	"strings"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
)

// maxExample is how many bytes of a series, an answer or a warning are quoted.
const maxExample = 300

// faults collects what went wrong. Faults of one kind are counted and the first is quoted, so that
// the text stays short whatever Prometheus holds.
type faults struct {
	address string // the flag that names it
	order   []string
	kinds   map[string]*fault
}

// fault is one kind of fault. It reads "12 series of m without label pod_name, e.g. …".
type fault struct {
	count     int
	one, many string // what is counted
	text      string // what is wrong with it
	example   string
	cause     error                          // of the example; may be nil
	lost      bool                           // usage, or labels
	seen      map[prommodel.Fingerprint]bool // series that were counted
}

// mostSeen is how many series of a kind are counted.
const mostSeen = 100_000

// series counts a series that is of no use: once, though several answers hold parts of it.
func (f *faults) series(of, text string, metric prommodel.Metric) {
	text = "of " + of + " " + text
	id := metric.Fingerprint()
	if known := f.kinds[text]; known != nil && (known.seen[id] || len(known.seen) >= mostSeen) {
		return
	}
	f.add(&fault{one: "series", many: "series", text: text, example: metric.String(), seen: map[prommodel.Fingerprint]bool{}})
	f.kinds[text].seen[id] = true
}

// sample counts a sample that is of no use.
func (f *faults) sample(of, text, example string) {
	f.add(&fault{one: "sample", many: "samples", text: "of " + of + " " + text, example: example})
}

// query counts a query that failed.
func (f *faults) query(of string, err error) {
	f.add(&fault{one: "query", many: "queries", text: "for " + of + " failed" + f.hint(err), example: err.Error(), cause: err, lost: true})
}

// check counts a query that failed and that nothing else depends on.
func (f *faults) check(of string, err error) {
	f.add(&fault{one: "check", many: "checks", text: "for " + of + " failed", example: err.Error(), cause: err})
}

func (f *faults) add(one *fault) {
	if f.kinds == nil {
		f.kinds = map[string]*fault{}
	}
	known := f.kinds[one.text]
	if known == nil {
		known = one
		known.example = shorten(known.example)
		f.kinds[one.text] = known
		f.order = append(f.order, one.text)
	}
	known.count++
}

// err is nil without faults, otherwise all of them, one a line.
func (f *faults) err() error {
	list := make([]error, 0, len(f.order))
	for _, text := range f.order {
		list = append(list, f.kinds[text])
	}
	return errors.Join(list...)
}

// failed is nil if nothing is lost, otherwise what is.
func (f *faults) failed() error {
	list := make([]error, 0, len(f.order))
	for _, text := range f.order {
		if f.kinds[text].lost {
			list = append(list, f.kinds[text])
		}
	}
	return errors.Join(list...)
}

// odd are the faults by which nothing is lost but what they name, in words.
func (f *faults) odd() (out []string) {
	for _, text := range f.order {
		if !f.kinds[text].lost {
			out = append(out, f.kinds[text].Error())
		}
	}
	return out
}

// Error implements error.
func (f *fault) Error() string {
	noun := f.one
	if f.count > 1 {
		noun = f.many
	}
	return fmt.Sprintf("%d %s %s, e.g. %s", f.count, noun, f.text, f.example)
}

// Unwrap is the error that made the first of these faults, if one did.
func (f *fault) Unwrap() error { return f.cause }

// hint is the way out, as far as the class of a failure shows one.
func (f *faults) hint(err error) string {
	var of *failure
	if !errors.As(err, &of) {
		return ""
	}
	switch {
	case of.class == busy:
		return " (ask less often, with --prometheus-qps)"
	case of.class == slow:
		return " (read less, with --history-length or --history-resolution, or allow more time, with --prometheus-query-timeout and Prometheus's --query.timeout)"
	case of.class == refused && of.kind == promapi.ErrClient:
		return " (see " + f.address + " and the flags for credentials)"
	}
	return ""
}

// shorten makes a text one line of at most maxExample bytes.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxExample {
		return text
	}
	return strings.ToValidUTF8(text[:maxExample], "") + "…"
}
