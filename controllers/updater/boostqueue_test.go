package updater

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestBoostedPodsAreRequeued(t *testing.T) {
	pinned := sixty(t)
	pinned.Annotations = map[string]string{policy.AnnotationPipeline: "nobody-knows@1.0.0"}
	unreadable := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if vpas, ok := list.(*vpav1.VerticalPodAutoscalerList); ok {
			for i := range vpas.Items {
				vpas.Items[i].SpecUnreadable = "minReplicas is not a number"
			}
		}
		return err
	}}
	other := sixty(t)
	other.Spec.TargetRef.Name = "other"
	in := func(mode string) *vpav1.VerticalPodAutoscaler {
		return webVPA(t, `,"updatePolicy":{"updateMode":"`+mode+`"},`+boost60)
	}
	fails := func(what string) interceptor.Funcs {
		return interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, pod := o.(*corev1.Pod); pod && what == "pod" {
					return errors.New("no answer")
				}
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if strings.Contains(fmt.Sprintf("%T", list), what) {
					return errors.New("no answer")
				}
				return c.List(ctx, list, opts...)
			},
		}
	}
	const replicas = 3
	for name, tt := range map[string]struct {
		hooks interceptor.Funcs
		vpa   *vpav1.VerticalPodAutoscaler
		pods  []*corev1.Pod // the first is looked at
		only  string        // namespace that is served
		want  again
		sent  bool
	}{
		"when the boost is over":                  {pods: []*corev1.Pod{webPod(t, "p", 20*time.Second)}, want: again{after: 40*time.Second + slack}},
		"soon at the very moment":                 {pods: []*corev1.Pod{webPod(t, "p", 60*time.Second)}, want: again{backOff: true}},
		"when the end has settled":                {want: again{after: time.Minute}, sent: true},
		"as in any mode: Off":                     {vpa: in("Off"), want: again{after: time.Minute}, sent: true},
		"as in any mode: Initial":                 {vpa: in("Initial"), want: again{after: time.Minute}, sent: true},
		"as in any mode: InPlace, gate off":       {vpa: in("InPlace"), want: again{after: time.Minute}, sent: true},
		"also when its rules cannot be used":      {vpa: pinned, want: again{after: time.Minute}, sent: true},
		"also where the VPA boosts no more":       {vpa: webVPA(t, ""), want: again{after: time.Minute}, sent: true},
		"while others wait on their nodes":        {pods: []*corev1.Pod{webPod(t, "p", time.Hour), webPod(t, "q", time.Hour, deferred), webPod(t, "r", time.Hour, deferred)}, want: again{after: time.Minute}, sent: true},
		"ever later while others are resized":     {pods: []*corev1.Pod{webPod(t, "p", time.Hour), webPod(t, "q", time.Hour, inProgress), webPod(t, "r", time.Hour)}, want: again{backOff: true}},
		"while others are missing":                {pods: []*corev1.Pod{webPod(t, "p", time.Hour)}, want: again{after: time.Minute}, sent: true},
		"ever later while it is being resized":    {pods: []*corev1.Pod{webPod(t, "p", time.Hour, inProgress)}, want: again{backOff: true}},
		"never when it is gone":                   {pods: []*corev1.Pod{webPod(t, "q", time.Hour)}},
		"never when it is not ready":              {pods: []*corev1.Pod{webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.Status.Conditions = nil })}},
		"never when it terminates":                {pods: []*corev1.Pod{webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.Now()), []string{"x/y"} })}},
		"never when it has finished":              {pods: []*corev1.Pod{webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}},
		"never when it is not boosted":            {pods: []*corev1.Pod{webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.Annotations = nil })}},
		"never in a namespace of others":          {only: "theirs"},
		"a few times when it has no VPA":          {vpa: other, want: again{backOff: true, limited: true}},
		"a few times when the VPA is unreadable":  {hooks: unreadable, want: again{backOff: true, limited: true}},
		"a few times when nothing owns it":        {pods: []*corev1.Pod{webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.OwnerReferences = nil })}, want: again{backOff: true, limited: true}},
		"ever later when it cannot be read":       {hooks: fails("pod"), want: again{backOff: true}},
		"ever later when VPAs cannot be listed":   {hooks: fails("VerticalPodAutoscalerList"), want: again{backOff: true}},
		"ever later when limits cannot be listed": {hooks: fails("LimitRangeList"), want: again{backOff: true}},
		"ever later when pods cannot be listed":   {hooks: fails("PodList"), want: again{backOff: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.vpa == nil {
				tt.vpa = sixty(t)
			}
			if tt.pods == nil {
				tt.pods = []*corev1.Pod{webPod(t, "p", time.Hour), webPod(t, "q", time.Hour), webPod(t, "r", time.Hour)}
			}
			objects := []client.Object{tt.vpa}
			for _, pod := range tt.pods {
				objects = append(objects, pod)
			}
			l := labWith(t, tt.hooks, replicas, objects...)
			l.Namespaces.Only = tt.only
			require.Equal(t, tt.want, l.look(t.Context(), keyOf("p")))
			require.Equal(t, tt.sent, len(l.resized) > 0)
		})
	}
}

// All VPAs of the namespace were listed for each boosted pod.
func TestOnlyVPAsOfItsTargetAreListedForABoostedPod(t *testing.T) {
	other, without, elsewhere := sixty(t), sixty(t), sixty(t)
	other.Name, without.Name, elsewhere.Name, elsewhere.Namespace = "other", "without", "elsewhere", "ns2"
	other.Spec.TargetRef.Name, without.Spec.TargetRef = "other", nil
	unversioned := sixty(t) // a user left the group out
	unversioned.Name, unversioned.Spec.TargetRef.APIVersion = "unversioned", ""
	var listed []string
	hooks := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if vpas, ok := list.(*vpav1.VerticalPodAutoscalerList); ok {
			for i := range vpas.Items {
				listed = append(listed, vpas.Items[i].Name)
			}
		}
		return err
	}}
	v := sixty(t)
	l := labWith(t, hooks, 1, v, other, without, elsewhere, unversioned, webPod(t, "p", time.Hour))
	l.look(t.Context(), keyOf("p"))
	require.ElementsMatch(t, []string{v.Name, "unversioned"}, listed)
}

// A failure because the process ends is not counted.
func TestShutdownIsNoFailureToEndABoost(t *testing.T) {
	v := sixty(t)
	v.Name = "stopped"
	l := newLab(t, 1, v, webPod(t, "p", time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	l.onSent = func(string) error { cancel(); return context.Canceled }
	require.Equal(t, again{}, l.look(ctx, keyOf("p")))
	require.InDelta(t, 0, testutil.ToFloat64(failedResizes.WithLabelValues("0", "stopped", "ns", "UnboostError")), 0)
}

// Without a VPA a pod is processed once and retried five times with growing delays, and then no
// more.
func TestPodWithoutAVPAIsRetriedAFewTimes(t *testing.T) {
	l := newLab(t, 1, webPod(t, "p", time.Hour))
	queue := l.queue()
	defer queue.ShutDown()
	queue.Add(keyOf("p"))
	for times := 1; times <= fewTries; times++ {
		require.True(t, l.next(t.Context(), queue))
		require.Equal(t, times, queue.NumRequeues(keyOf("p")))
		l.clock.Step(firstBackOff << (times - 1))
	}
	require.True(t, l.next(t.Context(), queue))
	require.Zero(t, queue.NumRequeues(keyOf("p")))
	require.Zero(t, queue.Len())

	require.NoError(t, l.Client.Create(t.Context(), sixty(t)))
	queue.Add(keyOf("p"))
	require.True(t, l.next(t.Context(), queue))
	require.Len(t, l.resized, 1)
}

// TestBoostsOfOneNamespaceDelayNoOther: a thousand pods that start at once are no reason to leave another's boosted for long.
func TestBoostsOfOneNamespaceDelayNoOther(t *testing.T) {
	queue := newLab(t, 1).queue()
	defer queue.ShutDown()
	for i := range 1000 {
		queue.Add(client.ObjectKey{Namespace: "loud", Name: fmt.Sprint(i)})
	}
	queue.Add(client.ObjectKey{Namespace: "quiet", Name: "p"})
	var got []string
	for range 3 {
		key, _ := queue.Get()
		got = append(got, key.String())
		queue.Done(key)
	}
	require.Equal(t, []string{"loud/0", "quiet/p", "loud/1"}, got)
}

func TestChangesOfPodsAndVPAsQueueBoostedPods(t *testing.T) {
	v := sixty(t)
	p := webPod(t, "p", 20*time.Second)
	for name, happens := range map[string]func(l *lab){
		"a pod is there at the start, and its boost ends later": func(l *lab) {
			looked := make(chan struct{}, 10)
			l.turn = func(context.Context) error { looked <- struct{}{}; return nil }
			l.pods.Add(p)
			l.eventually("to be waited for", func() bool { l.clock.Step(slack); return len(looked) > 0 })
		},
		"a pod is ready": func(l *lab) {
			l.clock.Step(time.Hour)
			before := p.DeepCopy()
			before.Status.Conditions = nil
			l.pods.Update(before, p)
		},
		"the VPA has another boost": func(l *lab) {
			l.clock.Step(time.Minute)
			now := v.DeepCopy()
			now.Generation++
			l.vpas.Update(v, now)
		},
		"the VPA has other rules": func(l *lab) {
			l.clock.Step(time.Minute)
			now := v.DeepCopy()
			now.Labels = map[string]string{"tier": "gold"}
			l.vpas.Update(v, now)
		},
		"there is another VPA": func(l *lab) {
			l.clock.Step(time.Minute)
			l.vpas.Add(v)
		},
		"ten minutes have passed": func(l *lab) { l.clock.Step(roundTime) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, v, p)
			l.work()
			happens(l)
			l.eventuallySent(1, name)
		})
	}
}

// Frequent changes of VPAs and pods, such as of their status, queue nothing.
func TestIrrelevantChangesQueueNothing(t *testing.T) {
	v := sixty(t)
	l := newLab(t, 1, v, webPod(t, "p", time.Hour))
	queue := l.queue()
	defer queue.ShutDown()
	pods, vpas := l.podEvents(queue), l.vpaEvents(t.Context(), queue)
	now := v.DeepCopy()
	now.Status = vpav1.VerticalPodAutoscalerStatus{}
	vpas.OnUpdate(v, now)
	vpas.OnAdd(v, true)
	vpas.OnDelete(v)
	vpas.OnAdd(&corev1.Node{}, false)
	vpas.OnUpdate(&corev1.Node{}, v)
	plain := webPod(t, "q", time.Hour, func(p *corev1.Pod) { p.Annotations = nil })
	pods.OnAdd(plain, false)
	pods.OnUpdate(plain, webPod(t, "p", 0, func(p *corev1.Pod) { p.Status.Conditions = nil }))
	pods.OnDelete(webPod(t, "p", time.Hour))
	pods.OnAdd(&corev1.Node{}, true)
	elsewhere := sixty(t)
	elsewhere.Namespace = "elsewhere"
	vpas.OnAdd(elsewhere, false)
	require.Zero(t, queue.Len())
	pods.OnAdd(webPod(t, "p", time.Hour), true)
	require.Equal(t, 1, queue.Len())
}

// If pods cannot be listed, the next round retries.
func TestRoundThatCannotListChangesNothing(t *testing.T) {
	hooks := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return io.ErrUnexpectedEOF
	}}
	l := labWith(t, hooks, 1, sixty(t), webPod(t, "p", time.Hour))
	queue := l.queue()
	defer queue.ShutDown()
	l.all(t.Context(), queue)
	require.Zero(t, queue.Len())
}
