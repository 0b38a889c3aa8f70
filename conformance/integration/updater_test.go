package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// TestUpdater covers running pods. Each test starts an updater for a namespace of its own, and
// writes the recommendations itself. One admission controller serves them all; the shared celvpa is
// stopped first.
func TestUpdater(t *testing.T) {
	withoutCelvpa(t)
	t.Cleanup(func() { noneLeft(t, "up-") }) // other tests need not look after these
	// These VPAs are created before the webhook is registered, or before a gate is turned off, so
	// none is refused.
	early := newEarlier(t)
	stage := func(name string, flags []string, tests map[string]func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			startWebhook(t, namespace(t, "up-"+strings.ReplaceAll(name, " ", "-")), flags...)
			t.Run("side by side", func(t *testing.T) {
				for name, test := range tests {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						test(t)
					})
				}
			})
		})
	}
	stage("gates off", nil, map[string]func(*testing.T){
		"AEP-8818 Feature Gate Disabled": early.inPlaceIsOff,
	})
	stage("gates on", []string{updaterGates, "--ignored-vpa-object-namespaces=" + strings.Join([]string{forgotten, forgottenToo, forgottenByTheDocs}, ",")}, map[string]func(*testing.T){
		"AEP-8818 Basic In-Place Update":                               basicInPlaceUpdate,
		"AEP-8818 No Eviction on Failure":                              noEvictionOnFailure,
		"AEP-8818 Indefinite Wait for In-Progress Updates":             indefiniteWaitForInProgressUpdates,
		"AEP-8818 Failed Update - Retry Success":                       failedUpdateRetrySuccess,
		"AEP-8818 Infeasible Resize Handling":                          infeasibleResizeHandling,
		"resizes that a policy changes":                                resizesThatAPolicyChanges,
		"a memory limit below what is used heals when more is wanted":  aMemoryLimitBelowUsage,
		"AEP-8818 Infeasible Status Storage":                           infeasibleStatusStorage,
		"AEP-8818 Infeasible Patch Rejection with NodeCapacity Cause":  infeasiblePatchRejection,
		"AEP-8818 No Retry for Unchanged Recommendation":               noRetryForUnchangedRecommendation,
		"AEP-8818 Retry After Recommendation Change":                   retryAfterRecommendationChange,
		"AEP-8818 Successful Update Clears Stored Attempt":             successfulUpdateClearsStoredAttempt,
		"one retry of an infeasible resize after a restart":            oneRetryAfterARestart,
		"AEP-8515 QoS class changes":                                   qosClassChanges,
		"AEP-8515 QoS class does not change":                           qosClassDoesNotChange,
		"AEP-7571 Recreate replaces pods with resources of their own":  recreateReplacesPodsWithTheirOwn,
		"AEP-7571 InPlaceOrRecreate resizes both stanzas in one go":    bothStanzasInOneGo,
		"AEP-7571 a pod with nothing but resources of its own":         nothingButResourcesOfItsOwn,
		"AEP-7571 nobody is evicted who would be refused":              nobodyIsEvictedWhoWouldBeRefused,
		"AEP-7571 containers that share are given no defaults":         containersThatShareAreGivenNoDefaults,
		"AEP-7571 annotations of a resized pod describe the resize":    annotationsDescribeTheResize,
		"a rollout keeps to its budget":                                aRolloutKeepsToItsBudget,
		"a PodDisruptionBudget of 0 evicts nothing and says why":       aPodDisruptionBudgetOfZero,
		"pods that come back unchanged are given up":                   podsThatComeBackUnchanged,
		"new pods that are refused stop evictions":                     newPodsThatAreRefused,
		"pods of a custom owner are not all lost at once":              podsOfACustomOwner,
		"a boosted pod does not lift the guard of a small workload":    aBoostedPodLiftsNoGuard,
		"a new pod of a StatefulSet has a resize clock of its own":     aNewPodHasAClockOfItsOwn,
		"without admission evictions stop and resizes go on":           withoutAdmission,
		"a quota refuses a resize, and nobody is evicted for it":       aQuotaRefusesAResize,
		"a node without the feature of pod-level resizes":              aNodeWithoutTheFeature,
		"a resize that is not answered is waited for":                  aResizeThatIsNotAnswered,
		"a boosted pod is resized to its recommendation once it is up": aBoostedPodIsResized,
		"a boosted pod has its own resources back without one":         aBoostedPodHasItsOwnBack,
		"a pod is not evicted while it is boosted":                     aPodIsNotEvictedWhileBoosted,
		"some modes never evict":                                       someModesNeverEvict,
		"a spent budget holds up resizes":                              aSpentBudgetHoldsUpResizes,
		"a rollout survives restarts":                                  aRolloutSurvivesRestarts,
		"a VPA that is turned off has its pods left alone":             aVPAThatIsTurnedOff,
		"upstream's permissions are enough":                            upstreamsPermissionsAreEnough,
		"which pods within their range are updated":                    whichPodsWithinTheirRange,
		"a boost ends when the VPA says so":                            aBoostEndsWhenTheVPASaysSo,
		"what the cache does not show yet is not done twice":           whatTheCacheDoesNotShowIsNotDoneTwice,
		"answers that come too late":                                   answersThatComeTooLate,
		"celvpa plan says what the updater then does":                  thePlanIsWhatTheUpdaterDoes,
		"an eviction without an answer counts as one":                  anEvictionWithoutAnAnswer,
		"the end of a boost is waited for":                             theEndOfABoostIsWaitedFor,
		"the permissions in the docs are those it needs":               thePermissionsOfTheUpdaterInTheDocsAreThoseItNeeds,
		"without permission to resize nobody is evicted":               withoutPermissionToResize,
		"core events are enough":                                       whereOnlyCoreEventsAreAllowed,
		"a patch for another pod of the name":                          aPatchForAnotherPodOfTheName,
		"bad input stops nobody else":                                  badInputStopsNobodyElse,
	})
}

// updaterGates are the gates that affect running pods.
const updaterGates = "--feature-gates=InPlace=true,PodLevelResources=true,RequestToLimitRatio=true,CPUStartupBoost=true,PerVPAConfig=true"

// anUpdater runs for a single namespace. A proxy counts its requests to the API server.
type anUpdater struct {
	*harness.Celvpa
	harness.Log
	t        *testing.T
	requests *requests
	killed   bool
}

// startUpdater runs celvpa's updater with all permissions until the test ends.
func startUpdater(t *testing.T, ns string, flags ...string) *anUpdater {
	t.Helper()
	return startUpdaterAs(t, clientcmdapi.AuthInfo{}, ns, flags...)
}

// startUpdaterAs runs it as a user; empty = with all permissions.
func startUpdaterAs(t *testing.T, as clientcmdapi.AuthInfo, ns string, flags ...string) *anUpdater {
	t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	u := &anUpdater{t: t, requests: newRequests(t)}
	own := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, u.requests.WriteKubeconfig(own, as))
	interval, err := harness.Pace(t.Context(), own, 2500*time.Millisecond)
	require.NoError(t, err)
	args := append([]string{"updater", "--kubeconfig=" + own, "--address=" + address, "--vpa-object-namespace=" + ns,
		"--updater-interval=" + interval.String(), "--admission-controller-status-lease-timeout=10m", "-v=5", updaterGates}, flags...)
	u.Celvpa, err = harness.Start(program, address, logOf(t, ns), args, u.Add)
	require.NoError(t, err)
	t.Cleanup(u.stop)
	require.NoError(t, u.WaitReady(t.Context()))
	return u
}

// stop stops the process and requires a clean exit.
func (u *anUpdater) stop() {
	if u.killed {
		return
	}
	if err := u.Stop(); err != nil || u.Count("please report this") > 0 {
		u.t.Errorf("the updater ended with %v; see %s", err, u.LogFile)
	}
}

// kill kills the process.
func (u *anUpdater) kill() {
	u.killed = true
	u.Kill()
}

// cycles waits until n cycles have started and ended from now on.
func (u *anUpdater) cycles(n int) {
	u.t.Helper()
	const finished = `vpa_updater_execution_latency_seconds_count{step="total"}`
	for until, begun := harness.Metric(u.Address, finished)+1, 0; begun <= n; begun++ { // one may be under way
		hang.Eventually(u.t, "a cycle", func(context.Context) (bool, error) {
			return harness.Metric(u.Address, finished) >= until+float64(begun), nil
		})
	}
}

// counted is the value of a metric, summed over all series with these labels, each written as
// name="value".
func (u *anUpdater) counted(metric string, labels ...string) (sum int) {
	text, err := harness.Get(u.t.Context(), "http://"+u.Address+"/metrics")
	require.NoError(u.t, err)
series:
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, metric+"{")
		have, value, closed := strings.Cut(rest, "} ")
		if !found || !closed {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(","+have+",", ","+label+",") {
				continue series
			}
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		require.NoError(u.t, err, line)
		sum += int(v)
	}
	return sum
}

// hasCounted requires the value of a metric: what was done, or less if an answer came too late for its cycle.
func (u *anUpdater) hasCounted(want int, metric string, labels ...string) {
	u.t.Helper()
	if u.requests.allHeard() {
		require.Equal(u.t, want, u.counted(metric, labels...))
	}
	require.LessOrEqual(u.t, u.counted(metric, labels...), want)
}

// tries is how often something may have been tried since a time, if it is tried again after a minute.
func tries(since time.Time) int { return 1 + int(time.Since(since)/time.Minute) }

// decided waits until the log has a decision of a rule about a pod of a workload.
func (u *anUpdater) decided(app, rule string) {
	u.t.Helper()
	hang.Eventually(u.t, "rule "+rule+" for "+app, func(context.Context) (bool, error) {
		for _, line := range u.Lines() {
			if line.Text("rule") == rule && strings.HasPrefix(line.Text("pod"), app+"-") {
				return true, nil
			}
		}
		return false, nil
	})
}

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
