package history

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failing is an answer that is an error.
type failing struct {
	code int
	body string
}

func (f failing) write(w http.ResponseWriter) {
	w.WriteHeader(f.code)
	_, _ = w.Write([]byte(f.body))
}

func TestFailuresThatPassLoseNothing(t *testing.T) {
	for name, answer := range map[string]failing{
		"Mimir has too many queries":        {429, `{"status":"error","errorType":"too_many_requests","error":"too many outstanding requests"}`},
		"a proxy has too many queries":      {429, `slow down`},
		"a replica of Mimir restarts":       {500, `{"status":"error","errorType":"internal","error":"at least 2 live replicas required, could only find 1"}`},
		"Prometheus starts":                 {503, `{"status":"error","errorType":"unavailable","error":"TSDB not ready"}`},
		"a store restarts":                  {422, `{"status":"error","errorType":"execution","error":"expanding series: proxy Series(): rpc error: code = Unavailable desc = transport is closing"}`},
		"a store cannot be reached in time": {422, `{"status":"error","errorType":"execution","error":"expanding series: rpc error: code = Unavailable desc = connection error: dial tcp: i/o timeout"}`},
		"nobody says which store":           {422, `{"status":"error","errorType":"execution","error":"expanding series: proxy Series(): EOF"}`},
		"VictoriaMetrics lacks a node":      {422, `{"status":"error","errorType":"422","error":"cannot fetch data from vmstorage nodes"}`},
		"a proxy finds nobody":              {502, `<html>Bad Gateway, which exceeds a limit</html>`},
		"an error that is not a failure":    {200, `{"status":"error","errorType":"internal","error":"a store went"}`},
	} {
		t.Run(name, func(t *testing.T) {
			failures := 0
			address, asked := recorded(t, func(w http.ResponseWriter, of request) bool {
				if failures == 3 || of.steps < 16 || !strings.HasPrefix(of.query, cpu) {
					return false
				}
				failures++
				answer.write(w)
				return true
			})
			s, clk := source(t, address, "--history-length=1d")
			pods, _ := s.Load(t.Context(), now)
			require.Len(t, pods[0].Samples(), 2*(24*60+1))
			require.Equal(t, []time.Duration{1e9, 2e9, 4e9}, clk.waited)
			require.Len(t, asked(cpu), len(asked(memory))+3, "what came is not asked for again, and not in halves")
		})
	}
}

func TestWhatIsTooLargeOrTooSlowIsAskedForInHalves(t *testing.T) {
	for name, answer := range map[string]failing{
		"Prometheus has samples":         {422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`},
		"Prometheus has time":            {503, `{"status":"error","errorType":"timeout","error":"query timed out in query execution"}`},
		"Mimir has chunks":               {422, `{"status":"error","errorType":"bad_data","error":"the query exceeded the maximum number of chunks (limit: 2000000 chunks)"}`},
		"Mimir has an answer's size":     {413, `{"status":"error","errorType":"too_large_entry","error":"response larger than the max message size (104857700 vs 104857600)"}`},
		"VictoriaMetrics has samples":    {422, `{"status":"error","errorType":"422","error":"cannot select more than -search.maxSamplesPerQuery=1000000000 samples"}`},
		"a querier has a message's size": {500, `{"status":"error","errorType":"internal","error":"rpc error: code = ResourceExhausted desc = grpc: received message larger than max (115 vs 104)"}`},
		"a store has a deadline":         {422, `{"status":"error","errorType":"execution","error":"expanding series: rpc error: code = DeadlineExceeded desc = context deadline exceeded"}`},
		"a proxy has a size":             {413, `<html>Request Entity Too Large</html>`},
		"a proxy has a time-out":         {504, `<html>Gateway Time-out</html>`},
	} {
		t.Run(name, func(t *testing.T) {
			address, asked := recorded(t, func(w http.ResponseWriter, of request) bool {
				if of.steps > 15 {
					answer.write(w)
				}
				return of.steps > 15
			})
			s, clk := source(t, address, "--history-length=12h")
			pods, _ := s.Load(t.Context(), now)
			require.Len(t, pods[0].Samples(), 2*(12*60+1))
			require.Empty(t, clk.waited)
			require.Less(t, len(asked(cpu)), 120)
		})
	}
}

func TestAnAnswerThatIsCutIsAskedForAgain(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		asked := 0
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked == 3 {
				_, _ = w.Write([]byte(nothing[:40]))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write([]byte(within(r, matrix(series("a", "p", "c", -60, "1", -30, "1", 0, "1")))))
		}))
		server.EnableHTTP2 = http2
		server.StartTLS()
		s, clk := source(t, server.URL, "--prometheus-insecure")
		pods, _ := s.Load(t.Context(), now)
		server.Close()
		require.Len(t, pods[0].Samples(), 6)
		require.Len(t, clk.waited, 1)
	}
}

// TestOnlyAQuerysOwnTimeIsItsTimeOut: time-outs of a connection and of a look-up of a name say that they
// are deadlines, too.
func TestOnlyAQuerysOwnTimeIsItsTimeOut(t *testing.T) {
	_, err := (&net.Dialer{Deadline: time.Now().Add(-time.Second)}).DialContext(t.Context(), "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	err = &url.Error{Op: "Post", URL: "http://a", Err: err}
	f := (&Config{}).failureOf(err, 0, false)
	require.Equal(t, away, f.class)
	require.True(t, f.unreachable)
	f = (&Config{}).failureOf(err, 0, true)
	require.Equal(t, slow, f.class)
	require.False(t, f.unreachable)
}
