package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/hang"
)

// requests is a proxy between an updater and the API server that counts resizes and evictions by answer.
type requests struct {
	*faults.Proxy

	mu      sync.Mutex
	late    time.Duration          // before what was done to a pod is answered
	unheard int                    // answers that came when the process no longer waited for them
	times   map[string][]time.Time // when those that are counted were answered, by "resize name" and "eviction name"
}

// newRequests starts the proxy, and stops it when the test ends.
func newRequests(t *testing.T) *requests {
	t.Helper()
	p, err := faults.Start(cluster.Config, 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	r := &requests{Proxy: p, times: map[string][]time.Time{}}
	for _, verb := range []string{"resize", "eviction"} {
		p.Rewrite(faults.On("pods/"+verb), func(request *http.Request, body []byte) []byte {
			r.answered(verb, request, body)
			return body
		})
	}
	return r
}

// answered waits as long as answers are delayed, and counts the request. A refusal that came when the cycle was over does not count: the
// process has not heard of it, and tries again. What was carried out counts in any case: the process must find out by itself.
func (r *requests) answered(verb string, request *http.Request, body []byte) {
	client := faults.Client(request)
	r.mu.Lock()
	late := r.late
	r.mu.Unlock()
	select {
	case <-time.After(late):
	case <-client.Done():
	}
	var status metav1.Status // or a pod
	refused := json.Unmarshal(body, &status) == nil && status.Status == metav1.StatusFailure
	r.mu.Lock()
	defer r.mu.Unlock()
	if client.Err() != nil {
		r.unheard++
	}
	if client.Err() == nil || !refused {
		parts := strings.Split(request.URL.Path, "/")
		r.count(verb, parts[len(parts)-2])
	}
}

func (r *requests) count(verb, pod string) {
	r.times[verb+" "+pod] = append(r.times[verb+" "+pod], time.Now())
}

// holdPods hides changes of pods from the process until release is called.
func (r *requests) holdPods() (release func()) { return r.HoldWatches(faults.On("pods", "watch")) }

// delay delays the answers to evictions and resizes.
func (r *requests) delay(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = by
}

// refuseAll answers resizes of the pods of a workload with a number behind its name by the status code of that index. It returns a
// function that waits until each was given, and has resizes carried out from then on.
func (u *anUpdater) refuseAll(app string, codes []int) (ends func()) {
	r, all := u.requests, []func(){}
	for i, code := range codes {
		prefix := fmt.Sprintf("%s%d", app, i)
		all = append(all, r.Inject(faults.Fault{Share: 1, Effects: []faults.Effect{faults.Answer(code)}, On: func(q faults.Request) bool {
			if !faults.On("pods/resize")(q) || !strings.HasPrefix(q.Name, prefix+"-") {
				return false
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.count("resize", q.Name)
			return true
		}}))
	}
	return func() {
		u.t.Helper()
		hang.Eventually(u.t, "each answer given", func(context.Context) (bool, error) {
			for i := range codes {
				if r.of("resize", fmt.Sprintf("%s%d", app, i)) == 0 {
					return false, nil
				}
			}
			return true, nil
		})
		for _, end := range all {
			end()
		}
	}
}

// longest is the longest time between the first and the last request of a kind for the same pod.
func (r *requests) longest(verb string) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, times := range r.times {
		if strings.HasPrefix(key, verb+" ") {
			longest = max(longest, times[len(times)-1].Sub(times[0]))
		}
	}
	return longest
}

// allHeard reports whether the process has heard all answers. On a busy machine one may come too late for its cycle.
func (r *requests) allHeard() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unheard == 0
}

// of counts the requests of a kind, resize or eviction, for pods of a workload; empty = all.
func (r *requests) of(verb, app string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, times := range r.times {
		if strings.HasPrefix(key, verb+" ") && (app == "" || strings.HasPrefix(key, verb+" "+app+"-")) {
			n += len(times)
		}
	}
	return n
}
