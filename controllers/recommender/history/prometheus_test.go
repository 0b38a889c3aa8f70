package history

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// hasty is a clock that waits for nothing, and remembers for how long it should have.
type hasty struct {
	clock.RealClock
	waited []time.Duration
}

func (h *hasty) After(d time.Duration) <-chan time.Time {
	h.waited = append(h.waited, d)
	return time.After(0)
}

// answers say what the server returns to each query: the part before the first "{" is what the
// query begins with.
type answers map[string]string

const (
	cpu     = "max by (namespace, pod_name, name) (rate("
	memory  = "max by (namespace, pod_name, name) (container_memory"
	ofPods  = "up{"
	nothing = `{"status":"success","data":{"resultType":"matrix","result":[]}}`
)

func matrix(series ...string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(series, ",") + `]}}`
}

func vector(series ...string) string {
	return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(series, ",") + `]}}`
}

// series is one series of a container, with [time, value] pairs; minutes count from now.
func series(namespace, pod, container string, minutesAndValues ...any) string {
	var values []string
	for i := 0; i < len(minutesAndValues); i += 2 {
		at := now.Add(time.Duration(minutesAndValues[i].(int)) * time.Minute)
		values = append(values, fmt.Sprintf(`[%d,"%v"]`, at.Unix(), minutesAndValues[i+1]))
	}
	return fmt.Sprintf(`{"metric":{"namespace":%q,"pod_name":%q,"name":%q},"values":[%s]}`, namespace, pod, container, strings.Join(values, ","))
}

// serve is a Prometheus that gives prepared answers; status codes other than 200 stand before the
// answer, as in "503 …".
func serve(t *testing.T, a answers) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for begin, answer := range a {
			if !strings.HasPrefix(r.FormValue("query"), begin) {
				continue
			}
			status, body := http.StatusOK, answer
			if _, err := fmt.Sscanf(answer, "%d ", &status); err == nil {
				_, body, _ = strings.Cut(answer, " ")
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(within(r, body)))
			return
		}
		_, _ = w.Write([]byte(nothing))
	}))
	t.Cleanup(server.Close)
	return server
}

var (
	valuesOf = regexp.MustCompile(`"values":\[((?:\[\d+,"[^"]*"\],?)*)\]`)
	oneValue = regexp.MustCompile(`\[(\d+),"[^"]*"\]`)
)

// within leaves the values of the time that a request asks for.
func within(r *http.Request, answer string) string {
	start, err := strconv.ParseFloat(r.FormValue("start"), 64)
	if err != nil {
		return answer // not of a range
	}
	end, _ := strconv.ParseFloat(r.FormValue("end"), 64)
	return valuesOf.ReplaceAllStringFunc(answer, func(values string) string {
		var kept []string
		for _, match := range oneValue.FindAllStringSubmatch(values, -1) {
			if at, _ := strconv.ParseFloat(match[1], 64); start <= at && at <= end {
				kept = append(kept, match[0])
			}
		}
		return `"values":[` + strings.Join(kept, ",") + "]"
	})
}

// source reads one hour from an address, at one minute's resolution.
func source(t testing.TB, address string, args ...string) (*Source, *hasty) {
	t.Helper()
	c := parsed(t, append([]string{"--prometheus-address=" + address, "--history-length=1h", "--history-resolution=1m"}, args...)...)
	clk := &hasty{}
	s, err := New(c, clk, logr.Discard())
	require.NoError(t, err)
	return s, clk
}
