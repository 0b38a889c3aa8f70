package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
)

// What one answer may be, so that a server cannot take all memory.
var answerBounds = bounds{text: 256 << 20, series: 16 << 20, memory: 512 << 20}

// bounds are in bytes.
type bounds struct {
	text   int64
	series int64 // of the text of one series
	memory int64 // by estimate: the labels of 150,000 pods take 400 MB
}

// longestError is how much is read of an answer that is an error, in bytes.
const longestError = 64 << 10

// tooMuch is an answer that is not read to its end. Half of the time may be.
type tooMuch string

// Error implements error.
func (t tooMuch) Error() string { return string(t) }

// streamed is a client that reads answers series by series: the text of an answer, which the client of Prometheus holds, with a copy,
// takes several times the memory of what it says. What the client gets is the answer without its series; those are in the reply.
type streamed struct {
	api.Client // for URLs
	http       http.Client
}

// Do implements api.Client.
func (s *streamed) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	answer, err := s.http.Do(r.WithContext(ctx))
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		text, err := io.ReadAll(io.LimitReader(answer.Body, longestError))
		return answer, text, err
	}
	got := replyOf(ctx)
	body, _ := answer.Body.(*boundedBody)
	if body == nil {
		body = newBoundedBody(answer.Body, answerBounds, got)
	}
	text, err := got.read(body)
	switch {
	case got.broken != nil:
		err = got.broken
	case err != nil:
		err = &promapi.Error{Type: promapi.ErrBadResponse, Msg: err.Error()}
	}
	return answer, text, err
}

// read reads an answer, and returns it without its series.
func (r *reply) read(body *boundedBody) ([]byte, error) {
	d := &decoding{Decoder: json.NewDecoder(body), body: body, reply: r, rest: map[string]json.RawMessage{}, data: map[string]json.RawMessage{}}
	if err := d.members(d.member); err != nil {
		return nil, err
	}
	_ = json.Unmarshal(d.rest["isPartial"], &r.partial)
	if len(d.data) > 0 {
		d.rest["data"], _ = json.Marshal(d.data)
	}
	return json.Marshal(d.rest)
}

// decoding is an answer that is being read.
type decoding struct {
	*json.Decoder
	body       *boundedBody
	reply      *reply
	rest, data map[string]json.RawMessage // without the series
	took       int64
}

func (d *decoding) member(name string) error {
	if name == "data" {
		return d.members(d.datum)
	}
	return d.keep(d.rest, name, "status", "errorType", "error", "warnings", "isPartial")
}

func (d *decoding) datum(name string) error {
	kind := string(d.data["resultType"])
	if name != "result" || kind != "" && kind != `"matrix"` && kind != `"vector"` {
		return d.keep(d.data, name, "resultType", "result")
	}
	d.data[name] = json.RawMessage("[]")
	return d.each('[', func() error {
		var one *answerSeries
		if err := d.Decode(&one); err != nil || one == nil {
			return err
		}
		d.took += 300 + int64(16*len(one.Values))
		for label, value := range one.Metric {
			d.took += 100 + int64(len(label)+len(value))
		}
		if d.took > d.body.bounds.memory {
			d.reply.broken = tooMuch(fmt.Sprintf("the answer takes more than %d MiB of memory", d.body.bounds.memory>>20))
			return d.reply.broken
		}
		d.reply.series = append(d.reply.series, one.stream())
		return nil
	})
}

// keep keeps a value if it has one of the names.
func (d *decoding) keep(in map[string]json.RawMessage, name string, names ...string) error {
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return err
	}
	for _, one := range names {
		if one == name {
			in[name] = value
		}
	}
	return nil
}

// members calls do with each name of an object; do reads the value.
func (d *decoding) members(do func(name string) error) error {
	return d.each('{', func() error {
		name, err := d.Token()
		if err != nil {
			return err
		}
		return do(name.(string)) // as the decoder ensures
	})
}

// each calls do for each part of a list or an object; null has none.
func (d *decoding) each(open json.Delim, do func() error) error {
	d.body.value = d.body.bounds.series
	switch token, err := d.Token(); {
	case err != nil:
		return err
	case token == nil:
		return nil
	case token != open:
		return fmt.Errorf("%v where %v should be", token, open)
	}
	for d.More() {
		d.body.value = d.body.bounds.series
		if err := do(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// answerSeries is one of a matrix, with values, or of a vector, with one value.
type answerSeries struct {
	Metric     prommodel.Metric                `json:"metric"`
	Values     pairs                           `json:"values"`
	Value      pairs                           `json:"value"`
	Histograms []prommodel.SampleHistogramPair `json:"histograms"`
	Histogram  *prommodel.SampleHistogramPair  `json:"histogram"`
}

func (s *answerSeries) stream() *prommodel.SampleStream {
	out := &prommodel.SampleStream{Metric: s.Metric, Values: append(s.Values, s.Value...), Histograms: s.Histograms}
	if s.Histogram != nil {
		out.Histograms = append(out.Histograms, *s.Histogram)
	}
	return out
}

// pairs are times and values: one [1,"2"], or a list of them.
type pairs []prommodel.SamplePair

// UnmarshalJSON implements json.Unmarshaler, for JSON that is valid.
func (p *pairs) UnmarshalJSON(text []byte) error {
	if bytes.Equal(text, []byte("null")) {
		return nil
	}
	*p = make(pairs, 0, bytes.Count(text, []byte("["))) // one too many in a list
	for len(text) > 0 {
		end := bytes.IndexByte(text, ']')
		if end < 0 {
			return errors.New("a value of a series is no pair of a time and a text")
		}
		one := text[bytes.LastIndexByte(text[:end], '[')+1 : end]
		text = text[end+1:]
		if one = bytes.TrimSpace(one); len(one) == 0 || one[0] == ',' || one[0] == ']' {
			continue // the end of the list
		}
		at, value, found := bytes.Cut(one, []byte(","))
		seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(at)), 64)
		var amount float64
		if err == nil {
			amount, err = strconv.ParseFloat(string(bytes.Trim(value, "\" \t\r\n")), 64)
		}
		if err != nil || !found {
			return fmt.Errorf("%.100q in a series is not a pair of a time and a text", one)
		}
		*p = append(*p, prommodel.SamplePair{Timestamp: prommodel.Time(math.Round(seconds * 1000)), Value: prommodel.SampleValue(amount)})
	}
	return nil
}

// value is what the series of an answer are, which the client lacks.
func (r *reply) value(of prommodel.Value) prommodel.Value {
	switch of.(type) {
	case prommodel.Matrix:
		return prommodel.Matrix(r.series)
	case prommodel.Vector:
		out := make(prommodel.Vector, 0, len(r.series))
		for _, one := range r.series {
			sample := &prommodel.Sample{Metric: one.Metric}
			if len(one.Values) > 0 {
				sample.Timestamp, sample.Value = one.Values[0].Timestamp, one.Values[0].Value
			} else if len(one.Histograms) > 0 {
				sample.Timestamp, sample.Histogram = one.Histograms[0].Timestamp, one.Histograms[0].Histogram
			}
			out = append(out, sample)
		}
		return out
	}
	return of
}
