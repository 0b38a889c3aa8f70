package history

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

var until = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// hasty is a clock that waits for nothing, and remembers for how long it should have.
type hasty struct {
	clock.RealClock
	waited []time.Duration
}

func (h *hasty) After(d time.Duration) <-chan time.Time {
	h.waited = append(h.waited, d)
	return time.After(0)
}

// span is what a request asks for.
type span struct {
	query    string
	from, to int64 // unix seconds
	step     int64
}

// server is a Prometheus with pods of one container, whose usage is the minute.
type server struct {
	*httptest.Server
	pods int
	// before answers in place of the server; false = it does not.
	before func(w http.ResponseWriter, r *http.Request, n int, of span) bool

	mu      sync.Mutex
	asked   int
	answers []span
}

func serve(t *testing.T, pods int) *server {
	s := &server{pods: pods}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if query := r.FormValue("query"); strings.Contains(query, " > 1.1 * ") || strings.HasPrefix(query, "count by (cluster)") {
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[]}}`)) // no series contradict each other
			return
		}
		seconds := func(name string) int64 {
			at, err := strconv.ParseFloat(r.FormValue(name), 64)
			require.NoError(t, err, name)
			return int64(at)
		}
		of := span{r.FormValue("query"), seconds("start"), seconds("end"), seconds("step")}
		s.mu.Lock()
		s.asked++
		n := s.asked
		s.mu.Unlock()
		if s.before != nil && s.before(w, r, n, of) {
			return
		}
		s.mu.Lock()
		s.answers = append(s.answers, of)
		s.mu.Unlock()
		_, _ = w.Write(s.body(of))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) body(of span, more ...string) []byte {
	series := more
	for pod := range s.pods {
		var values []string
		for at := of.from; at <= of.to; at += of.step {
			values = append(values, fmt.Sprintf(`[%d,"%d"]`, at, at/60%1000))
		}
		series = append(series, fmt.Sprintf(`{"metric":{"namespace":"web","pod":"shop-%d","container":"app"},"values":[%s]}`, pod, strings.Join(values, ",")))
	}
	return []byte(`{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(series, ",") + `]}}`)
}

// taken is a sink that requires that no point comes twice.
type taken struct {
	*testing.T
	points map[usagefile.Series]map[int64]int64
	notes  []string
	done   []int64
	of     int64
	room   int // points; 0 = no end
}

func (s *taken) Add(of usagefile.Series, points ...Point) error {
	if s.points[of] == nil {
		s.points[of] = map[int64]int64{}
	}
	for _, p := range points {
		if s.room > 0 && len(s.points[of]) == s.room {
			return fmt.Errorf("no room")
		}
		if _, twice := s.points[of][p.At]; twice {
			require.Fail(s, "a point that came is asked for again")
		}
		s.points[of][p.At] = p.Amount
	}
	return nil
}
func (s *taken) Note(text string) { s.notes = append(s.notes, text) }
func (s *taken) Progress(done, of int64) {
	s.done, s.of = append(s.done, done), of
}

// read reads from a server, with flags.
func read(t *testing.T, address string, args ...string) (*taken, *hasty, error) {
	t.Helper()
	var c history.Config
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	history.AddReadFlags(flags, &c, "history")
	require.NoError(t, flags.Parse(args))
	c.Address = address
	clk, to := &hasty{}, &taken{T: t, points: map[usagefile.Series]map[int64]int64{}}
	return to, clk, (&Prometheus{History: c, To: until, Clock: clk}).Read(t.Context(), to)
}

func cpuOf(pod string) usagefile.Series {
	return usagefile.Series{Pod: model.PodID{Namespace: "web", Name: pod}, Container: "app", Kind: usagefile.CPU}
}

// days of points, one every 5 minutes, both ends among them.
func days(n int) int { return n*288 + 1 }
