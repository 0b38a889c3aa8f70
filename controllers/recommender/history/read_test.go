package history

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// request is what a server was asked for.
type request struct {
	query             string
	start, end, steps int64 // unix seconds; a query for one time has only end
}

// recorded answers with one sample of one container at each time, and remembers what it was asked.
func recorded(t *testing.T, before func(w http.ResponseWriter, of request) bool) (address string, asked func(query string) []request) {
	var all []request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := func(name string) int64 {
			out, _ := strconv.ParseFloat(r.FormValue(name), 64)
			return int64(out)
		}
		of := request{query: r.FormValue("query"), start: number("start"), end: max(number("end"), number("time"))}
		if step := number("step"); step > 0 {
			of.steps = (of.end-of.start)/step + 1
		}
		all = append(all, of)
		switch {
		case before != nil && before(w, of):
		case strings.HasPrefix(of.query, cpu), strings.HasPrefix(of.query, memory):
			var values []any
			for at := range of.steps {
				values = append(values, int((of.start-now.Unix())/60+at), at)
			}
			_, _ = w.Write([]byte(matrix(series("a", "p", "c", values...))))
		default:
			_, _ = w.Write([]byte(nothing))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func(query string) (out []request) {
		for _, request := range all {
			if strings.HasPrefix(request.query, query) {
				out = append(out, request)
			}
		}
		return out
	}
}

// covered requires that requests cover the time once, each with at most so many steps.
func covered(t *testing.T, list []request, from, to time.Time, most int64) {
	t.Helper()
	next := from.Unix()
	for _, request := range list {
		require.Equal(t, next, request.start)
		require.LessOrEqual(t, request.steps, most)
		next = request.start + request.steps*60
	}
	require.Greater(t, next, to.Unix())
}

func TestALoadAsksForEachTimeOnce(t *testing.T) {
	address, asked := recorded(t, nil)
	s, _ := source(t, address, "--history-length=20d")
	pods, _ := s.Load(t.Context(), now)
	require.Len(t, pods, 1)
	require.Len(t, pods[0].Samples(), 2*(20*24*60+1))
	for _, query := range []string{cpu, memory} {
		list := asked(query)
		covered(t, list, now.Add(-20*24*time.Hour), now, 10_000)
		require.EqualValues(t, 1, list[0].steps, "little of the largest cluster")
		require.Less(t, len(list), 15)
	}
}

func TestASizeThatWasTooLargeIsSeldomAskedAgain(t *testing.T) {
	var refused int
	address, asked := recorded(t, func(w http.ResponseWriter, of request) bool {
		if of.steps <= 100 {
			return false
		}
		refused++
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`))
		return true
	})
	s, _ := source(t, address, "--history-length=10d")
	pods, _ := s.Load(t.Context(), now)
	require.Len(t, pods[0].Samples(), 2*(10*24*60+1))
	require.Equal(t, 16, refused, "256 and 128 of each, and again after 16, 32 and 64 parts")
	var good []request
	for _, request := range asked(memory) {
		if request.steps <= 100 {
			good = append(good, request)
		}
	}
	covered(t, good, now.Add(-10*24*time.Hour), now, 64)
}

func TestLoadsGiveUpSlowMetrics(t *testing.T) {
	address, asked := recorded(t, func(w http.ResponseWriter, of request) bool {
		if of.steps < 16 || !strings.HasPrefix(of.query, cpu) {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"status":"error","errorType":"timeout","error":"query timed out"}`))
		return true
	})
	s, _ := source(t, address, "--history-length=1d")
	pods, err := s.Load(t.Context(), now)
	require.NotContains(t, err.Error(), "failed", "15 at a time are fine")
	require.Len(t, pods[0].Samples(), 2*(24*60+1))
	require.Less(t, len(asked(cpu)), 200)
}

func TestSizesGrowAgainOnceTheServerCan(t *testing.T) {
	n := 0
	address, asked := recorded(t, func(w http.ResponseWriter, of request) bool {
		if n++; n > 40 || of.steps <= 4 {
			return false
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"too many samples"}`))
		return true
	})
	s, _ := source(t, address, "--history-length=20d")
	pods, _ := s.Load(t.Context(), now)
	require.Len(t, pods[0].Samples(), 2*(20*24*60+1))
	require.Less(t, len(asked(cpu)), 400, "4 at a time are 7,200")
}

func TestATimeWithoutUsageMakesNoLargeAnswer(t *testing.T) {
	const pods = 300
	begin, gap, end := now.Add(-5*24*time.Hour).Unix(), now.Add(-3*24*time.Hour).Unix(), now.Add(-24*time.Hour).Unix()
	most, all := 0, 0
	address, _ := recorded(t, func(w http.ResponseWriter, of request) bool {
		if of.steps == 0 || !strings.HasPrefix(of.query, memory) {
			_, _ = w.Write([]byte(nothing))
			return true
		}
		var values []any
		for step := range of.steps {
			if at := of.start + step*300; at >= begin && at < gap || at >= end {
				values = append(values, int(at-now.Unix())/60, 1)
			}
		}
		var list []string
		for i := range pods {
			list = append(list, series("a", fmt.Sprint("p", i), "c", values...))
		}
		most, all = max(most, pods*len(values)/2), all+pods*len(values)/2
		_, _ = w.Write([]byte(matrix(list...)))
		return true
	})
	s, _ := source(t, address, "--history-length=10d", "--history-resolution=5m")
	_, _ = s.Load(t.Context(), now)
	require.Equal(t, pods*(3*288+1), all)
	require.LessOrEqual(t, most, 250_000)
}

func TestOneSlowQueryLosesNothing(t *testing.T) {
	n := 0
	address, asked := recorded(t, func(w http.ResponseWriter, of request) bool {
		if !strings.HasPrefix(of.query, cpu) {
			return false
		}
		if n++; n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":"error","errorType":"timeout","error":"query timed out"}`))
		}
		return n == 1
	})
	s, _ := source(t, address)
	pods, _ := s.Load(t.Context(), now)
	require.Len(t, pods[0].Samples(), 2*61)
	require.Len(t, asked(cpu), len(asked(memory))+1)
}

func TestAPieceThatNeverComesLosesOnlyItself(t *testing.T) {
	n := 0
	address, _ := recorded(t, func(w http.ResponseWriter, of request) bool {
		if of.steps < 16 || !strings.HasPrefix(of.query, cpu) || n == 8 {
			return false
		}
		n++
		http.Error(w, "too many outstanding requests", http.StatusTooManyRequests)
		return true
	})
	s, clk := source(t, address, "--history-length=1d")
	pods, err := s.Load(t.Context(), now)
	require.Len(t, pods[0].Samples(), 2*(24*60+1)-16)
	require.Len(t, clk.waited, 7, "two minutes")
	require.ErrorContains(t, err, "queries for container_cpu_usage_seconds_total failed (ask less often, with --prometheus-qps): 1, e.g. from 2026-11-20T12:05:00Z to 2026-11-20T12:20:00Z: client_error: client error: 429: too many outstanding requests")
	require.NotContains(t, err.Error(), "on was read")
}

func TestAMetricThatFailsDoesNotEndTheOther(t *testing.T) {
	address, asked := recorded(t, func(w http.ResponseWriter, of request) bool {
		if !strings.HasPrefix(of.query, cpu) || of.start < now.Add(-23*time.Hour).Unix() {
			return false
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		why := "expanding series: EOF"
		if of.steps > 4 {
			why = "too many samples" // so that one piece of memory comes with many of CPU
		}
		_, _ = fmt.Fprintf(w, `{"status":"error","errorType":"execution","error":%q}`, why)
		return true
	})
	s, _ := source(t, address, "--history-length=1d")
	pods, err := s.Load(t.Context(), now)
	require.ErrorContains(t, err, "; nothing from 2026-11-20T13:")
	require.NotContains(t, err.Error(), "container_memory")
	covered(t, asked(memory), now.Add(-24*time.Hour), now, 10_000)
	require.Greater(t, len(pods[0].Samples()), 24*60)
}

func TestAServerSaysWhenToAskAgain(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":         time.Second,
		"nonsense": time.Second,
		"-5":       time.Second,
		"0":        time.Second,
		"30":       30 * time.Second,
		"86400":    2 * time.Minute,
	} {
		t.Run(text, func(t *testing.T) {
			refused := false
			address, _ := recorded(t, func(w http.ResponseWriter, _ request) bool {
				if refused {
					return false
				}
				refused = true
				w.Header().Set("Retry-After", text)
				http.Error(w, "the rate limit is exceeded", http.StatusTooManyRequests)
				return true
			})
			s, clk := source(t, address)
			pods, _ := s.Load(t.Context(), now)
			require.Len(t, pods[0].Samples(), 2*61, "a limit of the rate is no limit of the size")
			require.Equal(t, []time.Duration{want}, clk.waited)
		})
	}
}

func TestQueriesHaveARate(t *testing.T) {
	address, asked := recorded(t, nil)
	s, clk := source(t, address, "--prometheus-qps=0.01")
	_, _ = s.Load(t.Context(), now)
	require.Len(t, clk.waited, len(asked(""))-1, "the first need not wait")
	for i, d := range clk.waited {
		require.InDelta(t, 100*(i+1), d.Seconds(), 5, "this clock does not go on, so waits add up")
	}
}
