package usagefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// answer is an answer of Prometheus, or a line of an export of VictoriaMetrics, read member by member.
type answer struct {
	file    *file
	decoder *json.Decoder
	value   *valueReader // which the decoder reads

	status, fault, resultType string
	warnings                  []string
	partial                   bool   // as VictoriaMetrics says
	kind                      string // of an object of Kubernetes

	// Of a line of an export:
	metric             map[string]string
	values, timestamps []json.RawMessage
}

// read reads to the end of the answer; io.EOF = there is none.
func (a *answer) read() error {
	return a.members(func(name string) error {
		var into any
		switch name {
		case "data":
			return a.members(a.datum)
		case "status":
			into = &a.status
		case "error":
			into = &a.fault
		case "warnings":
			into = &a.warnings
		case "isPartial":
			into = &a.partial
		case "kind":
			into = &a.kind
		case "metric":
			into = &a.metric
		case "values":
			into = &a.values
		case "timestamps":
			into = &a.timestamps
		default:
			return a.skip()
		}
		return a.decoder.Decode(into)
	})
}

// check says what is wrong with an answer that was read.
func (a *answer) check() error {
	const query = "ask /api/v1/query_range"
	switch {
	case a.kind != "":
		return fmt.Errorf("an object of Kubernetes of kind %s, and not usage over time: %s of a Prometheus; manifests go to -f", a.kind, query)
	case a.status == "" && a.resultType == "":
		return fmt.Errorf("JSON that is neither an answer of Prometheus to a range query nor an export of VictoriaMetrics: %s", query)
	case a.status != "success":
		return fmt.Errorf("a Prometheus answer with status %q: %s", a.status, a.fault)
	case a.resultType == "vector":
		return fmt.Errorf("a Prometheus answer with a vector, not a matrix: %s, as an instant vector is of one moment", query)
	case a.resultType != "matrix":
		return fmt.Errorf("a Prometheus answer with a %s, not a matrix: %s", a.resultType, query)
	}
	return nil
}

// isLine reports whether it is a line of an export.
func (a *answer) isLine() bool { return a.status == "" && a.timestamps != nil }

// series is that of a line of an export. VictoriaMetrics has no values where a series ends.
func (a *answer) series() (stream, error) {
	out := stream{Metric: a.metric, scale: ofMilliseconds}
	if len(a.values) != len(a.timestamps) {
		return out, fmt.Errorf("it has %d values and %d timestamps", len(a.values), len(a.timestamps))
	}
	for i, value := range a.values {
		if text := strings.Trim(string(value), `"`); text != "null" {
			out.Values = append(out.Values, point{at: string(a.timestamps[i]), value: text})
		}
	}
	return out, nil
}

func (a *answer) datum(name string) error {
	switch {
	case name == "resultType":
		return a.decoder.Decode(&a.resultType)
	case name == "result" && (a.resultType == "matrix" || a.resultType == ""): // tools may sort members
		return a.each('[', func() error {
			s := stream{scale: nano}
			if err := a.decoder.Decode(&s); err != nil {
				return err
			}
			a.file.stream(s)
			return a.file.full
		})
	}
	return a.skip()
}

// members calls do with each name of an object; do reads the value.
func (a *answer) members(do func(name string) error) error {
	return a.each('{', func() error {
		name, err := a.decoder.Token()
		if err != nil {
			return err
		}
		return do(name.(string)) // as the decoder ensures
	})
}

// each calls do for each part of a list or an object, null among them, which has none. io.EOF means
// that nothing is there; a text that ends early is io.ErrUnexpectedEOF.
func (a *answer) each(open json.Delim, do func() error) error {
	switch token, err := a.decoder.Token(); {
	case err != nil:
		return err
	case token == nil:
		return nil
	case token != open:
		return fmt.Errorf("%v where %v should be", token, open)
	}
	for a.value.next(); a.decoder.More(); a.value.next() {
		if err := a.inside(do()); err != nil {
			return err
		}
	}
	_, err := a.decoder.Token()
	return a.inside(err)
}

// inside is an error within an answer, where a text must not end.
func (*answer) inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (a *answer) skip() error {
	var value json.RawMessage
	return a.decoder.Decode(&value)
}
