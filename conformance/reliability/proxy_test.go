package reliability

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/hang"
)

// TestWithoutAnyFault is what the other tests compare with: their scene does what it should.
func TestWithoutAnyFault(t *testing.T) {
	t.Parallel()
	s := newScene(t, "rel-none", newProxy(t))
	s.begin()
	s.ends()
	s.losesNothing()
	require.Empty(t, s.proxy.Counts())
}

// TestAnAPIServerThatIsGoneFor30Seconds in the midst of a rollout.
func TestAnAPIServerThatIsGoneFor30Seconds(t *testing.T) {
	t.Parallel()
	s := newScene(t, "rel-outage", newProxy(t))
	s.begin()
	s.rollsOut()
	end, err := s.proxy.Outage()
	require.NoError(t, err)
	lasts(t, 30*time.Second)
	require.NoError(t, end())
	s.ends()
	s.losesNothing()
	for component, p := range map[string]*program{"recommender": s.recommender, "updater": s.updater} {
		require.True(t, p.Says("connection refused"), component)
	}
}

// lasts waits until a fault has lasted for some time, which is what it is about.
func lasts(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// TestSomeCallsFail of all calls but watches, for as long as the rollout takes.
func TestSomeCallsFail(t *testing.T) {
	t.Parallel()
	effects := []faults.Effect{faults.Answer(409), faults.Answer(429), faults.AnswerLater(429, 1), faults.Answer(500), faults.Answer(504), faults.Reset(), faults.Hang(), faults.Lose()}
	for name, share := range map[string]float64{"1%": 0.01, "20%": 0.2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]string{"1%": "rel-1-percent", "20%": "rel-20-percent"}[name], newProxy(t))
			end := s.proxy.Inject(faults.Fault{On: faults.Calls, Share: share, Effects: effects})
			s.begin()
			lasts(t, 20*time.Second)
			hang.Eventually(t, "a failure", func(context.Context) (bool, error) { return len(s.proxy.Counts()) > 0, nil })
			if share > 0.1 { // a write that hangs takes the rest of its cycle
				end()
			}
			s.ends()
			end()
			s.losesNothing()
			t.Logf("requests %v, of which %v", s.proxy.Requests(), s.proxy.Counts())
		})
	}
}

// TestAnswersThatAreLost: the API server does what it is asked, and nobody hears of it.
func TestAnswersThatAreLost(t *testing.T) {
	t.Parallel()
	s := newScene(t, "rel-lost", newProxy(t))
	writes := func(r faults.Request) bool {
		return faults.On("pods/eviction")(r) || faults.On("pods/resize")(r) || faults.On("verticalpodautoscalers/status")(r) || faults.On("verticalpodautoscalercheckpoints")(r)
	}
	end := s.proxy.Inject(faults.Fault{On: writes, Share: 0.5, Effects: []faults.Effect{faults.Lose()}})
	s.begin()
	s.ends()
	require.Positive(t, s.proxy.Counts()["lose"])
	end()
	s.losesNothing()
}

// TestAnAPIServerThatEndsInEachWrite carries out the first write of each kind, answers nobody, and is gone for some seconds.
func TestAnAPIServerThatEndsInEachWrite(t *testing.T) {
	t.Parallel()
	s := newScene(t, "rel-each-write", newProxy(t))
	writes := map[string]faults.Match{"events": faults.On("events", "create"), "pods": faults.On("pods", "patch")}
	for _, name := range []string{"verticalpodautoscalers/status", "verticalpodautoscalercheckpoints", "pods/eviction", "pods/resize"} {
		writes[name] = faults.On(name, "create", "update", "patch")
	}
	ended := make(chan string, len(writes))
	var mutex sync.Mutex
	left := maps.Clone(writes)
	defer s.proxy.Inject(faults.Fault{Share: 1, Effects: []faults.Effect{faults.Lose()}, On: func(r faults.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		for name, is := range left {
			if is(r) {
				delete(left, name)
				ended <- name
				return true
			}
		}
		return false
	}})()
	s.begin()
	for range writes {
		select {
		case one := <-ended:
			t.Log("ends in a write of " + one)
		case <-time.After(hang.Limit):
			mutex.Lock()
			defer mutex.Unlock()
			require.FailNow(t, "some writes never came", "%v", slices.Collect(maps.Keys(left)))
		}
		end, err := s.proxy.Outage()
		require.NoError(t, err)
		lasts(t, 3*time.Second)
		require.NoError(t, end())
	}
	s.ends()
	s.losesNothing()
}

// TestWatchesAreCutAndRepeated all the time, abruptly and with 410 Gone.
func TestWatchesAreCutAndRepeated(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(*testing.T, *faults.Proxy){
		"cut":      func(_ *testing.T, p *faults.Proxy) { p.CutWatches(nil) },
		"replayed": func(_ *testing.T, p *faults.Proxy) { p.ReplayWatches(nil, 20) },
		"410 Gone": func(t *testing.T, p *faults.Proxy) {
			end := p.Inject(faults.Fault{On: faults.Watches, Share: 0.5, Effects: []faults.Effect{faults.Answer(410)}})
			_, err := p.ExpireWatches(nil)
			require.NoError(t, err)
			lasts(t, 300*time.Millisecond)
			end()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, "rel-watches-"+name[:3], newProxy(t))
			s.begin()
			for range 20 {
				disturb(t, s.proxy)
				lasts(t, 700*time.Millisecond)
			}
			s.ends()
			s.losesNothing()
			t.Logf("%v", s.proxy.Counts())
		})
	}
}

// TestWatchesThatAreLate report pods only seconds after they changed.
func TestWatchesThatAreLate(t *testing.T) {
	t.Parallel()
	s := newScene(t, "rel-late", newProxy(t))
	s.begin()
	for range 4 {
		release := s.proxy.HoldWatches(faults.On("pods", "watch"))
		lasts(t, 4*time.Second)
		release()
		lasts(t, time.Second)
	}
	s.ends()
	require.Positive(t, s.proxy.Counts()["event held"])
	s.losesNothing()
}

// TestPodsThatAreLostDuringAnOutage count as lost as soon as it is over, although what the updater knows is from before.
func TestPodsThatAreLostDuringAnOutage(t *testing.T) {
	t.Parallel()
	s := newScene(t, "rel-unseen", newProxy(t))
	end, err := s.proxy.Outage()
	require.NoError(t, err)
	s.begin()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1")}}}
	create(t, quota)
	lasts(t, 5*time.Second) // the longer it is, the later clients try again
	pods, err := s.pods(t.Context(), "web")
	require.NoError(t, err)
	for i := range 2 { // not those that the updater would begin with, and find gone
		require.NoError(t, cluster.Delete(t.Context(), &pods[len(pods)-1-i]))
	}
	hang.Eventually(t, "two pods to be gone", func(ctx context.Context) (bool, error) {
		left, err := s.pods(ctx, "web")
		return len(left) == 2, err
	})
	// The watch of pods takes longest to come back.
	refused := s.proxy.Inject(faults.Fault{On: faults.On("pods", "watch", "list"), Share: 1, Effects: []faults.Effect{faults.Answer(500)}})
	require.NoError(t, end())
	s.moreCycles(s.updater, "updater", 20)
	refused()
	s.moreCycles(s.updater, "updater", 20)
	require.Equal(t, 2, s.fewest("web"), "the other two stay")
	evicted, _ := s.audited()
	require.Empty(t, evicted)
	require.NoError(t, cluster.Delete(t.Context(), quota))
	// Its controller waits the longer the more often it was refused, unless something changes.
	var sets appsv1.ReplicaSetList
	require.NoError(t, cluster.List(t.Context(), &sets, client.InNamespace(s.ns), client.MatchingLabels{"app": "web"}))
	for i := range sets.Items {
		changed := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"quota":"gone"}}}`))
		require.NoError(t, cluster.Patch(t.Context(), &sets.Items[i], changed))
	}
	s.ends()
}
