package freshness

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
)

// server answers requests with a status and a body that ends when the test says so.
type server struct {
	t       *testing.T
	status  int
	refuse  error
	bodies  []*io.PipeWriter
	clock   *testclock.FakeClock
	watches *Watches
}

func newServer(t *testing.T) *server {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	return &server{t: t, status: http.StatusOK, clock: clk, watches: &Watches{Clock: clk}}
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	body, writer := io.Pipe()
	s.bodies = append(s.bodies, writer)
	return &http.Response{StatusCode: s.status, Body: body}, nil
}

// ask sends a request and returns the body of the answer.
func (s *server) ask(url string) io.ReadCloser {
	answer, err := s.watches.Wrap(s).RoundTrip(httptest.NewRequestWithContext(context.Background(), http.MethodGet, url, nil))
	if err != nil {
		return nil
	}
	return answer.Body
}

// ends ends the last watch, which its reader notices.
func (s *server) ends(body io.Reader) {
	s.bodies[len(s.bodies)-1].CloseWithError(errors.New("connection reset by peer"))
	_, err := io.ReadAll(body)
	require.Error(s.t, err)
}

func (s *server) behind() string { return s.watches.Behind("verticalpodautoscalers", "pods") }

const pods = "https://api/api/v1/namespaces/ns/pods?watch=true&resourceVersion=5"

func TestAWatchThatIsClosedForLongMakesItsResourceUnknown(t *testing.T) {
	s := newServer(t)
	require.Empty(t, s.behind(), "never watched")
	body := s.ask(pods)
	s.clock.Step(time.Hour)
	require.Empty(t, s.behind())
	s.ends(body)
	s.clock.Step(grace)
	require.Empty(t, s.behind(), "API servers end watches")
	s.clock.Step(27 * time.Second)
	require.Equal(t, "pods have not been watched for 30s", s.behind())

	s.refuse = errors.New("connection refused")
	s.ask(pods)
	require.NotEmpty(t, s.behind())
	s.refuse, s.status = nil, http.StatusGone
	s.ask(pods)
	require.NotEmpty(t, s.behind(), "refused")
	s.status = http.StatusOK
	s.ask("https://api/api/v1/namespaces/ns/pods?resourceVersion=5")
	s.ask("https://api/api/v1/namespaces/ns/secrets?watch=true")
	require.NotEmpty(t, s.behind(), "no watch of pods")
	s.ask(pods)
	require.Equal(t, "pods were not watched for 30s until 0s ago, and other components may still miss what changed", s.behind())
	s.clock.Step(longest - 1)
	require.NotEmpty(t, s.behind())
	s.clock.Step(1)
	require.Empty(t, s.behind())
}

func TestAWatchThatIsOpenedAgainAtOnceIsNoticedByNobody(t *testing.T) {
	s := newServer(t)
	for range 3 {
		body := s.ask(pods)
		require.Empty(t, s.behind())
		s.clock.Step(5 * time.Minute)
		require.NoError(t, body.Close())
		require.NoError(t, body.Close(), "twice does not count twice")
		s.clock.Step(time.Second)
		require.Empty(t, s.behind())
	}
	s.clock.Step(grace)
	require.NotEmpty(t, s.behind())
}

// The webhook may still wait before it watches VPAs again, for up to twice as long as it did in vain.
func TestAWatchThatWasClosedForMomentsSettlesWithinMoments(t *testing.T) {
	s := newServer(t)
	require.NoError(t, s.ask(pods).Close())
	s.clock.Step(5 * time.Second)
	s.ask(pods)
	s.clock.Step(9 * time.Second)
	require.NotEmpty(t, s.behind())
	s.clock.Step(time.Second)
	require.Empty(t, s.behind())
}

func TestOneOfSeveralWatchesIsEnough(t *testing.T) {
	s := newServer(t)
	first, second := s.ask(pods), s.ask("https://api/api/v1/pods?watch=1")
	require.NoError(t, first.Close())
	s.clock.Step(time.Hour)
	require.Empty(t, s.behind())
	require.NoError(t, second.Close())
	s.clock.Step(time.Hour)
	require.NotEmpty(t, s.behind())
}

// A watch that begins with all objects is up to date only after them.
func TestAWatchThatSendsAllObjectsFirstIsUpToDateAfterThem(t *testing.T) {
	const event = `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`
	for cut := range len(event) {
		s := newServer(t)
		require.NoError(t, s.ask(pods).Close())
		s.clock.Step(time.Minute)
		body := s.ask(pods + "&sendInitialEvents=true")
		go func() {
			for _, part := range []string{strings.Repeat("an object ", 1000), event[:cut], event[cut:]} {
				_, _ = io.WriteString(s.bodies[1], part)
			}
			_ = s.bodies[1].Close()
		}()
		read := make([]byte, 10_000)
		_, err := io.ReadFull(body, read)
		require.NoError(t, err)
		require.Contains(t, s.behind(), "pods have not been watched for 1m0s")
		_, err = io.ReadFull(body, make([]byte, len(event)))
		require.NoError(t, err)
		require.Contains(t, s.behind(), "until 0s ago", "cut at %d", cut)
		s.clock.Step(longest)
		require.Empty(t, s.behind())
	}
}
