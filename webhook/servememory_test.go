package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/conformance/hang"
)

// serve asks a server and returns what it answers.
func serve(s http.Handler, body io.Reader, length int64) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = length
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// reviewOfContainers is a review of a pod with a list of containers, as JSON.
func reviewOfContainers(containers string) string {
	return strings.Replace(podReview, `{"metadata":{"name":"p"}}`, `{"metadata":{"name":"p"},"spec":{"containers":[`+containers+`]}}`, 1)
}

// TestLengthsThatAreOnlyClaimedTakeNoMemory: 150 requests of which one byte arrived, each with a Content-Length of 5 MiB, took 755 MiB.
func TestLengthsThatAreOnlyClaimedTakeNoMemory(t *testing.T) {
	s, _ := testServer(t, func(context.Context, admission.Request) admission.Response { return admission.Denied("asked") }, nil)
	s.memory.wait = 0
	const slow = 150
	var group sync.WaitGroup
	var ends []*io.PipeWriter
	for range slow {
		body, end := io.Pipe()
		ends = append(ends, end)
		group.Go(func() { serve(s, body, maxBody) })
		_, err := end.Write([]byte("{")) // returns once it is read
		require.NoError(t, err)
	}
	var held runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&held)
	require.Less(t, held.HeapAlloc, uint64(64<<20))
	require.Contains(t, serve(s, strings.NewReader(podReview), int64(len(podReview))).Body.String(), `"allowed":false`, "an honest review is answered meanwhile")
	for _, end := range ends {
		require.NoError(t, end.Close())
	}
	group.Wait()
	requireAllFree(t, s)
}

func requireAllFree(t *testing.T, s *Server) {
	t.Helper()
	require.True(t, s.memory.small.TryAcquire(s.memory.half), "all is given back")
	require.True(t, s.memory.large.TryAcquire(s.memory.half), "all is given back")
}

// TestReviewsBeyondTheMemoryAreShed, before they are read with 503, and after it as admitted; and small ones find room beside large ones.
func TestReviewsBeyondTheMemoryAreShed(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s, log := testServer(t, func(_ context.Context, req admission.Request) admission.Response {
		if req.UID == "slow" {
			close(started)
			<-release
		}
		return admission.Denied("asked")
	}, func(o *ServerOptions) { o.Memory = 8 << 20 })
	s.memory.wait = 0
	large := reviewOfContainers(strings.TrimSuffix(strings.Repeat(`{"name":"c"},`, 1500), ",")) // some 3 MiB
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(s, strings.NewReader(strings.Replace(large, `"u1"`, `"slow"`, 1)), -1)
	}()
	<-started
	before := shedBy(shedMemory)
	w := serve(s, strings.NewReader(large), -1)
	require.JSONEq(t, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u1","allowed":true}}`, w.Body.String())
	require.Contains(t, serve(s, strings.NewReader(podReview), -1).Body.String(), `"allowed":false`, "a small one finds room")

	taken := s.memory.reserve()
	for s.memory.small.TryAcquire(1 << 10) {
		taken.small += 1 << 10
	}
	w = serve(s, strings.NewReader(podReview), -1)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.EqualValues(t, 2, shedBy(shedMemory)-before)
	lines := strings.Join(log.written(), "\n")
	require.Contains(t, lines, "--max-review-memory")
	require.Contains(t, lines, `"uid"="u1"`)
	taken.release()
	close(release)
	<-done
	requireAllFree(t, s)
}

// TestAReviewWaitsForMemoryForAMoment, and is then reviewed.
func TestAReviewWaitsForMemoryForAMoment(t *testing.T) {
	onItsClock(t, func(t *testing.T) {
		s, _ := testServer(t, func(context.Context, admission.Request) admission.Response { return admission.Denied("asked") }, nil)
		taken := &reservation{of: s.memory, small: s.memory.half}
		require.True(t, s.memory.small.TryAcquire(taken.small))
		answered := make(chan string, 1)
		go func() { answered <- serve(s, strings.NewReader(podReview), -1).Body.String() }()
		time.Sleep(queueWait - 1)
		taken.release()
		require.Contains(t, <-answered, `"allowed":false`)
	})
}

// TestALateHandlerKeepsItsRequest: other reviews use its buffer only once it has returned.
func TestALateHandlerKeepsItsRequest(t *testing.T) {
	onItsClock(t, func(t *testing.T) {
		release, kept := make(chan struct{}), make(chan string, 1)
		s, _ := testServer(t, func(_ context.Context, req admission.Request) admission.Response {
			if req.UID == "slow" {
				<-release
				kept <- string(req.Object.Raw)
			}
			return admission.Allowed("")
		}, nil)
		serve(s, strings.NewReader(strings.Replace(podReview, `"u1"`, `"slow"`, 1)), -1)
		var group sync.WaitGroup
		for range 100 { // on all CPUs, of which each has its own free buffers
			group.Go(func() { serve(s, strings.NewReader(strings.ReplaceAll(podReview, `"p"`, `"another"`)), -1) })
		}
		group.Wait()
		close(release)
		require.JSONEq(t, `{"metadata":{"name":"p"}}`, <-kept)
	})
}

// TestSmallTextsThatBecomeMuchAreNotDecoded: 1.5 million containers in 4.5 MB took up to 1.8 GB.
func TestSmallTextsThatBecomeMuchAreNotDecoded(t *testing.T) {
	for name, test := range map[string]struct{ body, why string }{
		"containers": {
			body: reviewOfContainers(strings.TrimSuffix(strings.Repeat(`{},`, 1_500_000), ",")),
			why:  "more values than fit into --max-review-memory",
		},
		"lists": {
			body: strings.Replace(podReview, `{"metadata":{"name":"p"}}`, `{"metadata":{"labels":`+strings.Repeat("[", 1_500_000)+strings.Repeat("]", 1_500_000)+`}}`, 1),
			why:  "exceeded max depth",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, log := testServer(t, func(context.Context, admission.Request) admission.Response {
				t.Error("the handler is asked")
				return admission.Denied("")
			}, nil)
			var w *httptest.ResponseRecorder
			require.Less(t, hang.Bytes(t, func() { w = serve(s, strings.NewReader(test.body), -1) }), uint64(64<<20))
			require.JSONEq(t, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u1","allowed":true}}`, w.Body.String())
			require.Contains(t, strings.Join(log.written(), ""), test.why)
		})
	}
}

// TestTheSizeOfWhatIsDecodedIsNotUnderestimated: what decoding allocates stays within the estimate, whatever the object is made of.
func TestTheSizeOfWhatIsDecodedIsNotUnderestimated(t *testing.T) {
	for name, pod := range map[string]string{
		"containers":  `{"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat(`{},`, 10_000), ",") + `]}}`,
		"labels":      `{"metadata":{"labels":{` + manyMembers(`"%d":""`) + `}}}`,
		"annotations": `{"metadata":{"annotations":{` + manyMembers(`"%d":"x"`) + `}}}`,
		"owners":      `{"metadata":{"ownerReferences":[` + strings.TrimSuffix(strings.Repeat(`{},`, 10_000), ",") + `]}}`,
		"requests":    `{"spec":{"containers":[{"resources":{"requests":{` + manyMembers(`"%d":"1"`) + `}}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			bytes := hang.Bytes(t, func() {
				read, err := decodePod([]byte(pod))
				require.NoError(t, err)
				require.NotNil(t, read)
			})
			require.Less(t, int64(bytes), 3*decodedSize([]byte(pod)), "with what growing lists leave behind")
		})
	}
	many := `{"a":"` + strings.Repeat(`{[,\\\"`, 1000) + `","b":[1,2]}`
	require.EqualValues(t, len(many)+5*valueWeight, decodedSize([]byte(many)), "texts are one value")
	require.NotPanics(t, func() { decodedSize([]byte(`"\`)) })
	require.True(t, json.Valid([]byte(many)))
}

func manyMembers(format string) string {
	var out []string
	for i := range 10_000 {
		out = append(out, fmt.Sprintf(format, i))
	}
	return strings.Join(out, ",")
}
