package oom

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// killedAt are two states of a pod whose container was killed some minutes past noon.
func killedAt(namespace, name string, minutes int) (old, now *corev1.Pod) {
	old, now = pod("1Gi", status("app", 0, running(), corev1.ContainerState{})), pod("1Gi", status("app", 0, ended(killed, minutes), corev1.ContainerState{}))
	for _, p := range []*corev1.Pod{old, now} {
		p.Namespace, p.Name = namespace, name
	}
	return old, now
}

func where(ooms []model.OOM) []string {
	var out []string
	for _, o := range ooms {
		out = append(out, fmt.Sprintf("%s/%s/%s +%s", o.Pod.Namespace, o.Pod.Name, o.Container, o.At.Sub(noon)))
	}
	return out
}

func TestWhatWasSeenIsDrainedOnceAndInOrder(t *testing.T) {
	o := NewObserver(logr.Discard(), func(namespace string) bool { return namespace != "hidden" })
	pods, evictions := testutil.ToFloat64(ooms.WithLabelValues(fromPod)), testutil.ToFloat64(ooms.WithLabelValues(fromEviction))
	o.OnUpdate(killedAt("shop", "web-2", 3))
	o.OnUpdate(killedAt("shop", "web-1", 3))
	o.OnUpdate(killedAt("mail", "web-9", 3))
	o.OnUpdate(killedAt("hidden", "web-1", 1))
	e := eviction("side,app", "1Gi,2Gi", "memory")
	o.OnAdd(e, true)
	o.OnAdd(e.DeepCopy(), false) // a list after a broken watch
	hidden := eviction("app", "1Gi", "memory")
	hidden.UID, hidden.InvolvedObject.Namespace = "18", "hidden"
	o.OnAdd(hidden, false)
	want := []string{"shop/web-1/app +0s", "shop/web-1/side +0s", "mail/web-9/app +3m0s", "shop/web-1/app +3m0s", "shop/web-2/app +3m0s"}
	require.Equal(t, want, where(o.Drain()))
	require.Empty(t, o.Drain())
	o.OnAdd(e, false)
	require.Empty(t, o.Drain(), "what was drained is still remembered")
	require.Equal(t, pods+3, testutil.ToFloat64(ooms.WithLabelValues(fromPod)))
	require.Equal(t, evictions+2, testutil.ToFloat64(ooms.WithLabelValues(fromEviction)))
}

// TestKillsOfBeforeAPodWasSeenAreReported: of a process that starts, and of pods whose first minute
// nobody saw.
func TestKillsOfBeforeAPodWasSeenAreReported(t *testing.T) {
	o := NewObserver(logr.Discard(), func(namespace string) bool { return namespace != "hidden" })
	_, killed := killedAt("shop", "web-1", 3)
	o.OnAdd(killed, true)
	_, other := killedAt("hidden", "web-1", 3)
	o.OnAdd(other, true)
	again := killed.DeepCopy() // it runs again, and reports the same kill
	again.Status.ContainerStatuses = []corev1.ContainerStatus{status("app", 1, running(), killed.Status.ContainerStatuses[0].State)}
	o.OnUpdate(killed, again)
	got := o.Drain()
	require.Equal(t, []string{"shop/web-1/app +3m0s"}, where(got))
	require.True(t, got[0].Late, "it may have been counted before")
}

func TestOnlyPodsAndAddedEventsCount(t *testing.T) {
	o := NewObserver(logr.Discard(), nil)
	old, now := killedAt("shop", "web-1", 1)
	e := eviction("app", "1Gi", "memory")
	o.OnAdd(old, false)
	o.OnAdd((*corev1.Pod)(nil), false)
	o.OnDelete(now)
	o.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: now})
	o.OnUpdate(e, e)
	o.OnDelete(e)
	o.OnUpdate(old, nil)
	o.OnUpdate(nil, now)
	o.OnUpdate(toolscache.DeletedFinalStateUnknown{}, "text")
	o.OnAdd(nil, true)
	o.OnAdd((*corev1.Event)(nil), true)
	require.Empty(t, o.Drain())
}

func TestTooManyAreForgottenFromTheOldestOnAndSaidOnce(t *testing.T) {
	var lines []string
	o := NewObserver(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}), nil)
	before := testutil.ToFloat64(dropped)
	for i := range maxWaiting + 7 {
		o.OnUpdate(killedAt("shop", fmt.Sprintf("web-%d", i), 1))
	}
	got := o.Drain()
	require.Len(t, got, maxWaiting)
	for _, oom := range got {
		require.NotContains(t, []string{"web-0", "web-6"}, oom.Pod.Name)
	}
	require.Equal(t, before+7, testutil.ToFloat64(dropped))
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], `"lostKills"=7 "lostEvictions"=0`)
	o.Drain()
	require.Len(t, lines, 1)
}

// flood are events about pods of a namespace, each with 1000 containers.
func flood(o *Observer, namespace string, events int) {
	for i := range events {
		e := eviction(strings.Repeat("x,", 999)+"x", strings.Repeat("1,", 999)+"1", "memory")
		e.UID = types.UID(fmt.Sprint(namespace, i))
		e.Namespace, e.InvolvedObject.Namespace = namespace, namespace
		o.OnAdd(e, false)
	}
}

func perNamespace(ooms []model.OOM) map[string]int {
	out := map[string]int{}
	for _, oom := range ooms {
		out[oom.Pod.Namespace]++
	}
	return out
}

func TestEventsPushOutNoKills(t *testing.T) {
	o := NewObserver(logr.Discard(), nil)
	o.OnUpdate(killedAt("shop", "web-1", 1))
	flood(o, "forger", 30)
	require.Equal(t, map[string]int{"shop": 1, "forger": maxWaiting}, perNamespace(o.Drain()))
}

func TestNoNamespacePushesOutOthers(t *testing.T) {
	o := NewObserver(logr.Discard(), nil)
	o.OnAdd(eviction("app", "1Gi", "memory"), false)
	flood(o, "forger", 30)
	flood(o, "second", 3)
	flood(o, "third", 1)
	require.Equal(t, map[string]int{"shop": 1, "third": 1000, "forger": 1999, "second": 1999}, perNamespace(o.Drain()))

	for i := range maxWaiting + 7 { // more namespaces than places
		o.OnUpdate(killedAt(fmt.Sprint(i), "web", 1))
	}
	got := perNamespace(o.Drain())
	require.Len(t, got, maxWaiting)
	require.NotContains(t, got, "6", "those that came first")
}

func TestFaultyEventsAreSaidOncePerCycle(t *testing.T) {
	var lines []string
	o := NewObserver(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}), nil)
	for i := range 50 {
		e := eviction("app,side", "lots,1Gi", "memory")
		e.UID, e.Name = types.UID(fmt.Sprint(i)), fmt.Sprintf("web.%d", i)
		o.OnAdd(e, false)
	}
	require.Len(t, o.Drain(), 50, "the good entries count")
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "shop/web.0")
	require.Contains(t, lines[0], `"events"=50`)
}

func TestManyInformersAndTheCycleMayUseItAtOnce(t *testing.T) {
	o := NewObserver(logr.Discard(), nil)
	var all sync.WaitGroup
	got := make([]int, 4)
	for g := range got {
		all.Go(func() {
			for i := range 500 {
				o.OnUpdate(killedAt("shop", "web-1", 1))
				e := eviction("app", "1Gi", "memory")
				e.UID = types.UID(fmt.Sprint(i)) // the same from all
				o.OnAdd(e, false)
				if i%50 == 0 {
					got[g] += len(o.Drain())
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, 4*500+500, got[0]+got[1]+got[2]+got[3]+len(o.Drain()))
}

func TestCachedEventsKeepWhatIsReadOfThem(t *testing.T) {
	e := eviction("app", "1Gi", "memory")
	e.Annotations["more"] = "x"
	e.Message, e.ManagedFields, e.ResourceVersion = "The node was low on resource: memory.", []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}, "5"
	kept, err := Events().Transform(e)
	require.NoError(t, err)
	want, _ := FromEviction(e)
	got, err := FromEviction(kept.(*corev1.Event))
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, e.UID, kept.(*corev1.Event).UID)
	require.Empty(t, kept.(*corev1.Event).Message)
	require.Len(t, kept.(*corev1.Event).Annotations, 3)
	other, err := Events().Transform("text")
	require.NoError(t, err)
	require.Equal(t, "text", other)
	require.Equal(t, "reason=Evicted", Events().Field.String())
}

// TestCachedEventsHoldNoLongTexts: anyone who may edit a namespace can write such events.
func TestCachedEventsHoldNoLongTexts(t *testing.T) {
	long := strings.Repeat("x", 250_000)
	for name, change := range map[string]func(*corev1.Event){
		"containers": func(e *corev1.Event) { e.Annotations[containersAnnotation] = long },
		"usage":      func(e *corev1.Event) { e.Annotations[usageAnnotation] = long },
		"starved":    func(e *corev1.Event) { e.Annotations[starvedAnnotation] = long },
		"pod":        func(e *corev1.Event) { e.InvolvedObject.Name = long },
		"kind":       func(e *corev1.Event) { e.InvolvedObject.Kind = long },
	} {
		t.Run(name, func(t *testing.T) {
			e := eviction("app", "1Gi", "memory")
			change(e)
			_, whole := FromEviction(e)
			kept, err := Events().Transform(e)
			require.NoError(t, err)
			require.Less(t, kept.(*corev1.Event).Size(), 5000)
			got, err := FromEviction(kept.(*corev1.Event))
			require.Empty(t, got)
			require.Equal(t, whole, err, "the same as of the whole event")
		})
	}
}
