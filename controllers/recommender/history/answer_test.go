package history

import (
	"net/http"
	"strings"
	"testing"

	prommodel "github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
)

// TestAnswersWithoutEndAreNotHeld: of a Prometheus that answers with a text, a list or series without an end, little is held at a
// time, and a load ends. The text of an answer was held twice beside what it says.
func TestAnswersWithoutEndAreNotHeld(t *testing.T) {
	const begins = `{"status":"success","data":{"resultType":"matrix","result":[`
	few := bounds{text: 4 << 20, series: 1 << 20, memory: 2 << 20}
	for name, tt := range map[string]struct {
		begins, part, want string
		most               uint64 // bytes that are allocated for one answer
	}{
		"a text":               {`{"status":"success","error":"`, strings.Repeat("x", 4096), "one of its series is longer than 1 MiB", 16 << 20},
		"a list":               {`{"status":"success","infos":[`, strings.Repeat("0,", 4096), "one of its series is longer than 1 MiB", 16 << 20},
		"space":                {`{"status":`, strings.Repeat(" ", 4096), "one of its series is longer than 1 MiB", 16 << 20},
		"points of a series":   {begins + `{"metric":{"namespace":"a"},"values":[`, strings.Repeat(`[1,"1"],`, 512), "one of its series is longer than 1 MiB", 16 << 20},
		"labels of a series":   {begins + `{"metric":{`, strings.Repeat(`"a":"b",`, 512), "one of its series is longer than 1 MiB", 16 << 20},
		"members of an answer": {`{`, strings.Repeat(`"infos":["`+strings.Repeat("x", 1<<16)+`"],`, 16), "the answer is longer than 4 MiB", 64 << 20},
		"series":               {begins, strings.Repeat(`{"metric":{"namespace":"a","pod":"b","c":"d"},"values":[]},`, 100), "the answer takes more than 2 MiB of memory", 64 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			sent := int64(0)
			body := newBoundedBody(endlessBody{&sent, tt.begins, tt.part}, few, &reply{})
			require.Less(t, hang.Bytes(t, func() {
				_, err := body.got.read(body)
				require.Error(t, err)
				require.EqualError(t, body.got.broken, tt.want)
				require.Equal(t, large, failureOf(body.got.broken, http.StatusOK, false).class, "half of the time is asked for")
			}), tt.most)
			require.LessOrEqual(t, sent, few.text)
		})
	}
}

// endlessBody is a body without an end.
type endlessBody struct {
	sent         *int64
	begins, part string
}

func (e endlessBody) Read(into []byte) (n int, _ error) {
	for n < len(into) {
		at := *e.sent - int64(len(e.begins))
		from := e.part
		if at < 0 {
			from, at = e.begins, *e.sent
		}
		some := copy(into[n:], from[at%int64(len(from)):])
		n += some
		*e.sent += int64(some)
	}
	return n, nil
}

func (endlessBody) Close() error { return nil }

// TestSeriesOfAnswersAreReadAsPrometheusMeansThem: members in any order, numbers in any form.
func TestSeriesOfAnswersAreReadAsPrometheusMeansThem(t *testing.T) {
	for text, want := range map[string]string{
		`{"metric":{"a":"b"},"values":[[1.5,"2"],[ 2 , "NaN" ],[3,"+Inf"],[1767225600.123,"1e-3"]]}`: `{a="b"} => 2 @[1.5] NaN @[2] +Inf @[3] 0.001 @[1767225600.123]`,
		`{"values":[],"metric":{}}`:                    `{} =>`,
		`{"metric":{"a":"]"},"values":null}`:           `{a="]"} =>`,
		`{"metric":{"a":"b"},"value":[1.0005,"0.25"]}`: `{a="b"} => 0.25 @[1.001]`,
	} {
		got := &reply{}
		body := newBoundedBody(textBody{strings.NewReader(`{"isPartial":true,"data":{"result":[` + text + `],"resultType":"matrix"},"status":"success"}`)}, answerBounds, got)
		rest, err := got.read(body)
		require.NoError(t, err, text)
		require.JSONEq(t, `{"status":"success","isPartial":true,"data":{"resultType":"matrix","result":[]}}`, string(rest))
		require.True(t, got.partial)
		require.Equal(t, want, strings.Join(strings.Fields(got.value(prommodel.Matrix{}).String()), " "), text)
	}
	for _, text := range []string{`{"values":[7]}`, `{"values":[["a","1"]]}`, `{"values":[[1,"x"]]}`, `{"values":[[1]]}`, `{"metric":7}`, `[`, `{"values":[[1,"1"]`} {
		got := &reply{}
		body := newBoundedBody(textBody{strings.NewReader(`{"status":"success","data":{"resultType":"matrix","result":[` + text + `]}}`)}, answerBounds, got)
		_, err := got.read(body)
		require.Error(t, err, text)
		require.NoError(t, got.broken)
	}
}

type textBody struct{ *strings.Reader }

func (textBody) Close() error { return nil }

// TestALoadIsBounded: what came before the bound counts.
func TestALoadIsBounded(t *testing.T) {
	address, _ := recorded(t, nil)
	s, _ := source(t, address, "--history-length=20d")
	s.memory = 1 << 18
	pods, err := s.Load(t.Context(), now)
	require.ErrorContains(t, err, "history takes more than 0 MiB of memory, and the rest is not read; read less, with --history-length or --history-resolution")
	require.Len(t, pods, 1)
	require.Less(t, len(pods[0].Samples()), (1<<18)/16)
}
