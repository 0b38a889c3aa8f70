package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/celvpa/celvpa/conformance/hang"
)

func TestAFaultMeetsItsShareOfTheRequestsOfItsKind(t *testing.T) {
	outcomes := func(seed uint64) (out []string) {
		p := between(t, newBackend(t), seed)
		c := clientOf(t, p, asIs)
		p.Inject(Fault{On: On("pods", "get"), Share: 0.2, Effects: []Effect{Answer(409), Answer(500)}})
		for range 500 {
			out = append(out, string(apierrors.ReasonForError(get(t.Context(), c))))
		}
		for range 100 {
			_, err := c.CoreV1().Pods("ns").Create(t.Context(), pod("p", ""), metav1.CreateOptions{})
			require.NoError(t, err, "another verb")
			_, err = c.CoreV1().Secrets("ns").Get(t.Context(), "p", metav1.GetOptions{})
			require.NotEqual(t, metav1.StatusReasonConflict, apierrors.ReasonForError(err), "another resource")
		}
		counts := p.Counts()
		require.InDelta(t, 50, counts["409"], 20)
		require.InDelta(t, 50, counts["500"], 20)
		require.Len(t, counts, 2)
		n := 0
		for _, reason := range out {
			if reason != "" {
				n++
			}
		}
		require.Equal(t, counts["409"]+counts["500"], n)
		return out
	}
	require.Equal(t, outcomes(7), outcomes(7), "a seed decides")
	require.NotEqual(t, outcomes(7), outcomes(8))
}

func TestEffects(t *testing.T) {
	const reached, unreached = 1, 0
	for _, c := range []struct {
		effect  Effect
		name    string
		want    func(error) bool
		reached int // requests that the API server saw
	}{
		{Answer(409), "409", apierrors.IsConflict, unreached},
		{Answer(410), "410", apierrors.IsResourceExpired, unreached},
		{Answer(429), "429", apierrors.IsTooManyRequests, unreached},
		{Answer(500), "500", apierrors.IsInternalError, unreached},
		{Answer(503), "503", apierrors.IsServiceUnavailable, unreached},
		{Answer(504), "504", apierrors.IsTimeout, unreached},
		{Hang(), "hang", func(err error) bool { return errors.Is(err, context.Canceled) }, unreached},
		{Reset(), "reset", noAnswer, unreached},
		{Lose(), "lose", noAnswer, reached},
		{Delay(time.Millisecond), "delay", func(err error) bool { return err == nil }, reached},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t)
			p := between(t, b, 1)
			client := clientOf(t, p, asIs)
			end := p.Inject(Fault{Share: 1, Effects: []Effect{c.effect}})
			ctx, cancel := context.WithCancel(hang.Context(t))
			defer cancel()
			answered := make(chan error, 1)
			go func() { answered <- create(ctx, client) }()
			if c.name == "hang" {
				soon(t, c.name, func() bool { return p.Counts()[c.name] == 1 })
				cancel()
			}
			err := <-answered
			require.True(t, c.want(err), "%v", err)
			require.Len(t, b.requests(), c.reached)
			require.Equal(t, map[string]int{c.name: 1}, p.Counts())
			end()
			require.NoError(t, create(t.Context(), client))
			require.Equal(t, map[string]int{c.name: 1}, p.Counts())
		})
	}
}

func TestARequestThatHangsEndsWithTheFault(t *testing.T) {
	p := between(t, newBackend(t), 1)
	c := clientOf(t, p, asIs)
	end := p.Inject(Fault{Share: 1, Effects: []Effect{Hang()}})
	answered := make(chan error)
	go func() { answered <- create(t.Context(), c) }()
	soon(t, "a request that hangs", func() bool { return p.Counts()["hang"] == 1 })
	end()
	require.ErrorContains(t, <-answered, "stream error")
}

// A client tries again by itself after the time that the answer says.
func TestARetryAfterIsHeeded(t *testing.T) {
	b := newBackend(t)
	p := between(t, b, 1)
	c := clientOf(t, p, asIs)
	end := p.Inject(Fault{Share: 1, Effects: []Effect{AnswerLater(429, 1)}})
	answered := make(chan error)
	go func() { answered <- create(t.Context(), c) }()
	soon(t, "a refusal", func() bool { return p.Counts()["429 Retry-After"] == 1 })
	end()
	require.NoError(t, <-answered)
	require.Len(t, b.requests(), 1)
}

func TestOnSelectsSubresourcesByTheirName(t *testing.T) {
	p := between(t, newBackend(t), 1)
	c := clientOf(t, p, asIs)
	p.Inject(Fault{On: On("pods/status"), Share: 1, Effects: []Effect{Answer(409)}})
	_, err := c.CoreV1().Pods("ns").UpdateStatus(t.Context(), pod("p", "1"), metav1.UpdateOptions{})
	require.True(t, apierrors.IsConflict(err), "%v", err)
	_, err = c.CoreV1().Pods("ns").Update(t.Context(), pod("p", "1"), metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"update pods/status": 1, "update pods": 1}, p.Requests())
}

// create is a request that no client repeats by itself.
func create(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.CoreV1().Pods("ns").Create(ctx, &corev1.Pod{}, metav1.CreateOptions{})
	return err
}
