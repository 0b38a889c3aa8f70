package webhook

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestALineIsShownSeldomWithTheNumberOfThoseSuppressed(t *testing.T) {
	clk := testclock.NewFakePassiveClock(time.Now())
	s := &limited{clock: clk, every: 10 * time.Second}
	_, ok := s.allow("a")
	require.True(t, ok)
	for range 5 {
		_, ok = s.allow("a")
		require.False(t, ok)
	}
	_, ok = s.allow("b")
	require.True(t, ok, "another line")
	clk.SetTime(clk.Now().Add(10 * time.Second))
	suppressed, ok := s.allow("a")
	require.True(t, ok)
	require.Equal(t, 5, suppressed)
}

// TestTextsOfClientsAreCutInTheLog: names, UIDs, headers and the errors that quote them.
func TestTextsOfClientsAreCutInTheLog(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	m := newMemo()
	log := ShortValues(m.log()).WithName("admission").WithValues("pod", long)
	log.Info("a line", "uid", types.UID(long), "names", []string{"a", long}, "short", "kept", "n", 7, "error", errors.New(long))
	log.Error(errors.New(long), "a line")
	log.Info("a line", stackKey, strings.Repeat("s", 1000))
	lines := m.written()
	require.Len(t, lines, 3)
	for _, line := range lines[:2] {
		require.Less(t, len(line), 2000)
		require.Contains(t, line, strings.Repeat("é", 100)+"… (200000 bytes)")
	}
	require.Contains(t, lines[0], `"short"="kept" "n"=7`)
	require.Contains(t, lines[2], strings.Repeat("s", 1000), "a stack is whole")
}

// TestAFloodOfMalformedReviewsIsOneLine, which says how many were suppressed once it is shown again.
func TestAFloodOfMalformedReviewsIsOneLine(t *testing.T) {
	clk := testclock.NewFakePassiveClock(time.Now())
	s, log := testServer(t, func(context.Context, admission.Request) admission.Response { return admission.Denied("") },
		func(o *ServerOptions) { o.Clock = clk })
	send := func() {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(reviewHead+`{"uid":"`+strings.Repeat("u", 1<<20)+`"}}`))
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	for range 20 {
		send()
	}
	lines := log.written()
	require.Len(t, lines, 1)
	require.Less(t, len(lines[0]), 1000)
	clk.SetTime(clk.Now().Add(10 * time.Second))
	send()
	lines = log.written()
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], `"suppressed"=19`)
}
