package updater

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestExplainSaysWhatTheNextCycleDoes with random workloads, after cycles in which the API server
// refused some of what it was asked for. In the compared cycle it carries out everything.
func TestExplainSaysWhatTheNextCycleDoes(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 30
	}
	rules := map[string]int{}
	for seed := range uint64(seeds) {
		f := newFuzzed(t, seed)
		for range 5 {
			f.happen()
			f.disturbed()
			said := f.explainAll()
			require.Equal(t, said, f.explainAll(), "seed %d: explaining changes nothing", seed)
			done := f.compared()
			for pod, line := range said {
				want, decided := done[pod]
				if !decided {
					require.Equal(t, "Skip", line.Action, "seed %d: pod %s is not decided on", seed, pod)
					continue
				}
				require.Equal(t, want, line.Action+" "+line.Rule, "seed %d: pod %s: %s", seed, pod, line.Reason)
				rules[line.Rule]++
				delete(done, pod)
			}
			require.Empty(t, done, "seed %d: pods that were not explained", seed)
			require.Equal(t, f.carriedOut(said), slices.Sorted(slices.Values(f.done)), "seed %d", seed)
			f.replace()
		}
	}
	t.Logf("rules compared, seeds 0 to %d: %v", seeds-1, rules)
	for _, rule := range []string{"eligibility/too-few-replicas", "eligibility/within-recommended-range", "resize/known-infeasible", "resize/resize-under-way",
		"resize/resize-refused-lately", "resize/pending-pod", "eviction/eviction-refused-lately", "eviction/successors-unchanged", "eviction/admission-down",
		"update/disruption-budget", "update/budget-spent", "update/resize", "update/evict"} {
		require.NotZero(t, rules[rule], rule)
	}
}

// fuzzed is a world of random workloads.
type fuzzed struct {
	*world
	*rand.Rand
	names   []string          // of its VPAs
	decided map[string]string // last decision of a cycle, by pod
	down    bool              // the admission controller
	cached  *staleReader
}

// staleReader is a cache of pods that may lag behind.
type staleReader struct {
	client.Reader
	pods *corev1.PodList // nil = up to date
}

// List implements client.Reader.
func (s *staleReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if pods, ok := list.(*corev1.PodList); ok && s.pods != nil {
		s.pods.DeepCopyInto(pods)
		return nil
	}
	return s.Reader.List(ctx, list, options...)
}

var decidedLine = regexp.MustCompile(`"msg"="decided".* "pod"="([^"]*)" "do"="([^"]*)" "rule"="([^"]*)"`)

func newFuzzed(t *testing.T, seed uint64) *fuzzed {
	t.Helper()
	f := &fuzzed{Rand: rand.New(rand.NewPCG(seed, 19)), decided: map[string]string{}, cached: &staleReader{}}
	workloads, first := 1+f.IntN(3), 0
	if workloads == 1 { // several VPAs share the limit
		first = f.IntN(3)
	}
	f.world = newWorld(t, func(o *Options) {
		o.FirstCycle, o.Concurrent = first, 1
		f.cached.Reader, o.Client = o.Client, f.cached
		o.Admission = func(context.Context) error {
			if f.down {
				return errors.New("its lease expired")
			}
			return nil
		}
		o.Log = funcr.New(func(_, args string) {
			if m := decidedLine.FindStringSubmatch(args); m != nil {
				f.decided[m[1]] = actionsOf[m[2]] + " " + m[3]
			}
		}, funcr.Options{Verbosity: 5})
	}, "InPlace")
	for i := range workloads {
		name := fmt.Sprintf("web%d", i)
		f.names = append(f.names, name)
		f.workload(name, 1+f.IntN(6), one(f, vpav1.UpdateModeRecreate, vpav1.UpdateModeInPlaceOrRecreate, vpav1.UpdateModeInPlace, vpav1.UpdateModeInPlace, vpav1.UpdateModeOff))
	}
	return f
}

// actionsOf are the actions that plans show for outcomes.
var actionsOf = map[string]string{"Evict": "Evict", "InPlace": "InPlace", "Wait": "Wait", "RememberInfeasible": "Wait", "Skip": "Skip", "SkipInfeasible": "Skip"}

func one[T any](f *fuzzed, list ...T) T { return list[f.IntN(len(list))] }

func (f *fuzzed) often(percent int) bool { return f.IntN(100) < percent }

func (f *fuzzed) podList() (list corev1.PodList) {
	require.NoError(f.t, f.WithWatch.List(f.t.Context(), &list))
	return list
}

// happen lets time pass, and changes pods and recommendations.
func (f *fuzzed) happen() {
	f.down = f.often(10)
	f.clock.Step(one(f, time.Minute, time.Minute, 7*time.Minute, 13*time.Hour))
	pods := f.podList()
	for i := range pods.Items {
		if p := &pods.Items[i]; f.often(40) {
			f.change(p)
		}
	}
	for _, name := range f.names {
		if !f.often(30) {
			continue
		}
		var v vpav1.VerticalPodAutoscaler
		require.NoError(f.t, f.Get(f.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &v))
		v.Status.Recommendation.ContainerRecommendations[0].Target = one(f, amounts("500m", "512Mi"), amounts("450m", "450Mi"), amounts("600m", "1Gi"))
		require.NoError(f.t, f.WithWatch.Status().Update(f.t.Context(), &v))
	}
}

// change changes the spec or the status of a pod.
func (f *fuzzed) change(p *corev1.Pod) {
	resizing := func(kind corev1.PodConditionType, reason string) func() {
		return func() {
			p.Status.Conditions = []corev1.PodCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(f.clock.Now().Add(-one(f, time.Minute, time.Hour)))}}
		}
	}
	one(f,
		func() { p.Status.Conditions = nil },
		resizing(corev1.PodResizePending, corev1.PodReasonDeferred),
		resizing(corev1.PodResizePending, corev1.PodReasonInfeasible),
		resizing(corev1.PodResizeInProgress, ""),
		resizing(corev1.PodResizeInProgress, corev1.PodReasonError),
		func() {
			p.Status.Phase = one(f, corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded)
		},
		func() {
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.RestartContainer}}
		},
		func() {
			p.Spec.Containers[0].Resources.Requests = one(f, amounts("480m", "512Mi"), amounts("100m", "128Mi"), amounts("500m", "512Mi"))
		},
		func() { p.Status.StartTime = ptr.To(metav1.NewTime(f.clock.Now().Add(-24 * time.Hour))) },
	)()
	status := p.Status
	require.NoError(f.t, f.WithWatch.Update(f.t.Context(), p))
	p.Status = status
	require.NoError(f.t, f.WithWatch.Status().Update(f.t.Context(), p))
}

// disturbed runs a cycle in which the API server refuses some of what it is asked for.
func (f *fuzzed) disturbed() {
	before := f.podList()
	refuse := map[string]error{
		"evict":  one[error](f, nil, nil, budgetRefusal(2), forbidden("admission webhook denied the request", ""), apierrors.NewInternalError(errors.New("down"))),
		"resize": one[error](f, nil, nil, forbidden("too much", "NodeCapacity"), forbidden("exceeded quota: small", ""), forbidden("admission webhook denied the request", ""), apierrors.NewInternalError(errors.New("down"))),
	}
	f.refuse = func(ask, _ string) error {
		if f.often(70) {
			return refuse[ask]
		}
		return nil
	}
	f.cycle()
	f.refuse = func(string, string) error { return nil }
	if f.often(25) {
		f.cached.pods = &before
		f.clock.Step(10 * time.Second)
		return
	}
	f.replace()
	f.clock.Step(one(f, 30*time.Second, time.Minute, 11*time.Minute, 2*time.Hour))
}

// replace creates the pods that workloads lack, with old or new resources.
func (f *fuzzed) replace() {
	f.cached.pods = nil
	pods := f.podList()
	has := map[string]int{}
	for i := range pods.Items {
		has[pods.Items[i].Labels["app"]]++
	}
	for _, name := range f.names {
		var rs appsv1.ReplicaSet
		require.NoError(f.t, f.Get(f.t.Context(), client.ObjectKey{Namespace: "ns", Name: name + "-rs"}, &rs))
		same := f.often(60)
		for range int(*rs.Spec.Replicas) - has[name] {
			f.pod(name, func(p *corev1.Pod) {
				if !same {
					p.Spec.Containers[0].Resources.Requests = amounts("500m", "512Mi")
				}
			})
		}
	}
}

// explainAll explains all VPAs, and returns what is said by pod.
func (f *fuzzed) explainAll() map[string]answers.RunningPod {
	out := map[string]answers.RunningPod{}
	for _, name := range f.names {
		said, err := f.Explain(f.t.Context(), "ns", name)
		require.NoError(f.t, err)
		for _, p := range said.Pods {
			out[strings.TrimPrefix(p.Pod, "ns/")] = p
		}
	}
	return out
}

// compared runs a cycle and returns the last decision on each pod.
func (f *fuzzed) compared() map[string]string {
	clear(f.decided)
	f.cycle()
	return maps.Clone(f.decided)
}

// carriedOut is what is sent for what is said.
func (f *fuzzed) carriedOut(said map[string]answers.RunningPod) (out []string) {
	for pod, p := range said {
		switch {
		case p.Later != "":
		case p.Action == "Evict":
			out = append(out, "evict "+pod)
		case p.Action == "InPlace":
			out = append(out, "resize "+pod)
		}
	}
	slices.Sort(out)
	return out
}
