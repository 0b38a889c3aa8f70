package history

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	prommodel "github.com/prometheus/common/model"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// What a real Prometheus can be made to say is tested against one, in conformance/history. Here
// are servers that fail.

func TestAHistoryIsReadInPiecesThatGrow(t *testing.T) {
	s := serve(t, 3)
	to, clk, err := read(t, s.URL, "--history-length=30d")
	require.NoError(t, err)
	require.Empty(t, to.notes)
	require.Empty(t, clk.waited)
	require.Len(t, to.points, 6, "CPU and memory of three containers")
	for of, points := range to.points {
		require.Len(t, points, days(30), of)
		at := until.Add(-time.Hour)
		want := at.Unix() / 60 % 1000
		if of.Kind == usagefile.CPU {
			want *= 1000
		}
		require.Equal(t, want, points[at.UnixNano()], of)
	}
	require.Less(t, s.asked, 20, "pieces grow while they are small")
	require.IsNonDecreasing(t, to.done)
	require.EqualValues(t, 30*24*3600, to.of)
	require.Equal(t, to.of, to.done[len(to.done)-1])
	for _, of := range s.answers {
		require.Zero(t, of.from%of.step, "caches serve aligned times")
	}
	require.Equal(t, `max by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{pod=~".+", container!="POD", container!="", cpu=~"|total"}[5m]) or sum without (cpu) (rate(container_cpu_usage_seconds_total{pod=~".+", container!="POD", container!="", cpu!~"|total"}[5m])))`, s.answers[0].query)
}

func TestAPieceIsBoundedByItsSamples(t *testing.T) {
	s := serve(t, 1000)
	to, _, err := read(t, s.URL, "--history-length=2d")
	require.NoError(t, err)
	require.Len(t, to.points, 2000)
	for _, of := range s.answers {
		require.LessOrEqual(t, (of.to-of.from)/of.step+1, int64(250))
	}
}

func TestAServerThatEndsHalfWayIsAskedForTheRest(t *testing.T) {
	s := serve(t, 2)
	s.before = func(w http.ResponseWriter, _ *http.Request, n int, of span) bool {
		switch n {
		case 5: // ends within an answer
			body := s.body(of)
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			_, _ = w.Write(body[:len(body)/2])
		case 6: // ends before one
			panic(http.ErrAbortHandler)
		case 7:
			http.Error(w, "starting", http.StatusServiceUnavailable)
		case 8:
			http.Error(w, "slow down", http.StatusTooManyRequests)
		default:
			return false
		}
		return true
	}
	to, clk, err := read(t, s.URL, "--history-length=7d")
	require.NoError(t, err)
	require.Len(t, to.points[cpuOf("shop-1")], days(7))
	require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}, clk.waited)
	require.Len(t, to.notes, 4)
	require.Contains(t, to.notes[0], "Prometheus did not answer, and was asked again after 1s: ")
	last := map[string]int64{}
	for _, of := range s.answers {
		metric, _, _ := strings.Cut(of.query, "{")
		require.Greater(t, of.from, last[metric], "what came is not asked for again")
		last[metric] = of.to
	}
}

// TestWhyAServerIsWaitedForIsReportedAtOnce: one that is not there was waited for in silence.
func TestWhyAServerIsWaitedForIsReportedAtOnce(t *testing.T) {
	s := serve(t, 1)
	var reported []string
	s.before = func(w http.ResponseWriter, _ *http.Request, n int, _ span) bool {
		if n == 1 {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return true
		}
		require.Equal(t, []string{"Prometheus did not answer, and is asked again in 1s: server_error: server error: 503: starting"}, reported)
		return false
	}
	var c history.Config
	history.AddReadFlags(pflag.NewFlagSet("", pflag.ContinueOnError), &c, "history")
	c.Address = s.URL
	to := &taken{T: t, points: map[usagefile.Series]map[int64]int64{}}
	source := &Prometheus{History: c, From: until.Add(-time.Hour), To: until, Clock: &hasty{}, Waiting: func(text string) { reported = append(reported, text) }}
	require.NoError(t, source.Read(t.Context(), to))
	require.Empty(t, to.notes)
}

func TestAServerThatStaysAwayLosesOnlyTheRest(t *testing.T) {
	s := serve(t, 1)
	s.before = func(w http.ResponseWriter, _ *http.Request, n int, _ span) bool {
		if n > 4 {
			http.Error(w, "gone", http.StatusBadGateway)
		}
		return n > 4
	}
	to, clk, err := read(t, s.URL, "--history-length=30d")
	require.ErrorContains(t, err, "reading usage from "+s.URL)
	require.ErrorContains(t, err, "on was read")
	require.ErrorContains(t, err, "server error: 502: gone")
	require.Less(t, len(err.Error()), 2000)
	require.Len(t, to.points[cpuOf("shop-0")], 1+4+16+64, "four pieces came")
	require.Len(t, clk.waited, 7, "about two minutes")
}

func TestWhatNeverWorksIsNotTriedAgain(t *testing.T) {
	s := serve(t, 1)
	s.before = func(w http.ResponseWriter, _ *http.Request, _ int, _ span) bool {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return true
	}
	to, clk, err := read(t, s.URL)
	require.ErrorContains(t, err, "failed (see --history and the flags for credentials): 1, e.g. from 2026-10-22T12:00:00Z to 2026-10-22T12:00:00Z: client_error: client error: 401: who are you?")
	require.Empty(t, to.points)
	require.Empty(t, clk.waited)
	require.Equal(t, 2, s.asked, "once for CPU and once for memory")

	_, _, err = read(t, "http://user:secret@[::1")
	require.ErrorContains(t, err, "--history: use a URL with http or https")
	require.NotContains(t, err.Error(), "secret")
}

func TestGapsStayAndOddSeriesAreNoted(t *testing.T) {
	s := serve(t, 1)
	s.before = func(w http.ResponseWriter, _ *http.Request, n int, of span) bool {
		lacks := fmt.Sprintf(`{"metric":{"pod":"lonely","container":"app"},"values":[[%d,"1"]]}`, of.to)
		odd := fmt.Sprintf(`{"metric":{"namespace":"web","pod":"odd","container":"app"},"values":[[%d,"NaN"]]}`, of.to)
		answering := &server{pods: 1}
		if n == 2 {
			answering.pods = 0 // a gap
		}
		body := answering.body(of, lacks, odd)
		_, _ = w.Write([]byte(strings.Replace(string(body), `"status":"success"`, `"status":"success","warnings":["PromQL info: metric might not be a counter"]`, 1)))
		return true
	}
	to, _, err := read(t, s.URL, "--history-length=3d")
	require.NoError(t, err)
	require.Len(t, to.points, 2)
	require.Len(t, to.points[cpuOf("shop-0")], days(3)-4)
	all := strings.Join(to.notes, "\n")
	require.Contains(t, all, "series without label namespace in answers about container_memory_working_set_bytes: ")
	require.Contains(t, all, "that are not amounts")
	require.Contains(t, all, "warnings of Prometheus about container_cpu_usage_seconds_total: 6, e.g. PromQL info: metric might not be a counter")
}

// TestAnAnswerThatStoresFailedToAddToIsWaitedFor: a Thanos answers with what it has, and a warning; a VictoriaMetrics with
// isPartial.
func TestAnAnswerThatStoresFailedToAddToIsWaitedFor(t *testing.T) {
	const unavailable = "receive series from Addr: store-2:10901: rpc error: code = Unavailable"
	for name, row := range map[string]struct {
		partial func(n int) bool
		says    string // a key and its value
		waits   int
		lacks   string
	}{
		"for a moment":             {partial: func(n int) bool { return n == 5 || n == 6 }, says: `"warnings":["` + unavailable + `"]`, waits: 2},
		"of memory, for good":      {partial: func(n int) bool { return n > 4 }, says: `"warnings":["` + unavailable + `"]`, waits: 7, lacks: unavailable},
		"a remark on the query":    {partial: func(int) bool { return true }, says: `"warnings":["PromQL warning: bucket label le is missing"]`},
		"a time before the store":  {partial: func(n int) bool { return n < 9 }, says: `"warnings":["No StoreAPIs matched for this query"]`},
		"nodes fail for a moment":  {partial: func(n int) bool { return n == 5 || n == 6 }, says: `"isPartial":true`, waits: 2},
		"nodes lack it, for good":  {partial: func(n int) bool { return n > 4 }, says: `"isPartial":true`, waits: 7, lacks: "isPartial is true"},
		"of nodes that are in use": {partial: func(int) bool { return true }, says: `"isPartial":false`},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, 2)
			s.before = func(w http.ResponseWriter, _ *http.Request, n int, of span) bool {
				if !row.partial(n) || row.lacks != "" && strings.Contains(of.query, "cpu") {
					return false
				}
				_, _ = w.Write([]byte(strings.Replace(string((&server{pods: 1}).body(of)), `"status":"success"`, `"status":"success",`+row.says, 1)))
				return true
			}
			var c history.Config
			history.AddReadFlags(pflag.NewFlagSet("", pflag.ContinueOnError), &c, "history")
			c.Address = s.URL
			clk, to := &hasty{}, &taken{T: t, points: map[usagefile.Series]map[int64]int64{}}
			err := (&Prometheus{History: c, To: until, Clock: clk}).Read(t.Context(), to)
			require.Len(t, clk.waited, row.waits)
			require.Len(t, to.points[cpuOf("shop-0")], days(30), "what came is kept")
			if row.lacks == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "answers about container_memory_working_set_bytes that lack what failed stores hold: ")
			require.ErrorContains(t, err, row.lacks)
		})
	}
}

func TestNothingIsSaidToBeNothing(t *testing.T) {
	s := serve(t, 0)
	_, _, err := read(t, s.URL, "--history-length=3d", `--prometheus-matchers=cluster="b"`)
	require.ErrorContains(t, err, "queries for container_cpu_usage_seconds_total that found no series (see the metric's name,")
	require.ErrorContains(t, err, `cluster="b"`)
}

func TestAFullSinkAndAnEndedContextEndTheReading(t *testing.T) {
	s := serve(t, 1)
	var c history.Config
	history.AddReadFlags(pflag.NewFlagSet("", pflag.ContinueOnError), &c, "history")
	c.Address, c.Length = s.URL, prommodel.Duration(24*time.Hour)
	to := &taken{T: t, points: map[usagefile.Series]map[int64]int64{}, room: 3}
	require.EqualError(t, (&Prometheus{History: c, To: until, Clock: &hasty{}}).Read(t.Context(), to), "no room")
	require.Equal(t, 2, s.asked)

	ctx, cancel := context.WithCancel(t.Context())
	s.before = func(_ http.ResponseWriter, r *http.Request, n int, _ span) bool {
		if n > 3 {
			cancel()
			<-r.Context().Done()
		}
		return n > 3
	}
	to.room = 0
	to.points = map[usagefile.Series]map[int64]int64{}
	require.ErrorIs(t, (&Prometheus{History: c, To: until, Clock: &hasty{}}).Read(ctx, to), context.Canceled)
}

// FuzzAnswers: whatever a server says, reading ends, and nothing panics.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"namespace":"a","pod":"b","container":"c"},"values":[[1,"1"]]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	f.Add([]byte(`{"status":"error"}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[null,{"metric":null,"histograms":[[1,{}]]}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
		defer s.Close()
		var c history.Config
		history.AddReadFlags(pflag.NewFlagSet("", pflag.ContinueOnError), &c, "history")
		c.Address, c.Length = s.URL, prommodel.Duration(time.Hour)
		store := NewStore(DefaultMemory, t.TempDir(), nil)
		defer func() { require.NoError(t, store.Close()) }()
		if err := (&Prometheus{History: c, To: until, Clock: &hasty{}}).Read(t.Context(), store); err == nil {
			require.True(t, json.Valid(body))
		}
	})
}
