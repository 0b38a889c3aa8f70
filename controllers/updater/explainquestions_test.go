package updater

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// explained asks about a VPA.
func (w *world) explained(vpa string) answers.Updater {
	w.t.Helper()
	said, err := w.Explain(w.t.Context(), "ns", vpa)
	require.NoError(w.t, err)
	return said
}

// edit changes a pod and its status.
func (w *world) edit(name string, change func(*corev1.Pod)) {
	w.t.Helper()
	var p corev1.Pod
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &p))
	change(&p)
	status := p.Status
	require.NoError(w.t, w.WithWatch.Update(w.t.Context(), &p))
	p.Status = status
	require.NoError(w.t, w.WithWatch.Status().Update(w.t.Context(), &p))
}

func condition(kind corev1.PodConditionType, reason, message string, since time.Time) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(since)}}
}

// TestExplainAnswersWhatUsersAsk: the questions that upstream's tracker is asked most, each with the rule and the numbers that
// answer it.
func TestExplainAnswersWhatUsersAsk(t *testing.T) {
	for _, tt := range []struct {
		question string
		replicas int
		mode     vpav1.UpdateMode
		options  func(*Options)
		before   func(w *world) // a cycle that went wrong, and more
		action   string
		rule     string
		class    string
		reason   string
	}{
		{question: "a new target, but no eviction: within bounds, and too young", replicas: 2, mode: vpav1.UpdateModeRecreate,
			before: func(w *world) {
				w.edit("web-01", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = amounts("440m", "512Mi") })
				w.clock.Step(3 * time.Hour)
			},
			action: "Skip", rule: "eligibility/within-recommended-range", class: "Settled", reason: "Its requests are within the recommended range, and it is only 3h old"},
		{question: "a new target, but no eviction: old enough, but too little to gain", replicas: 2, mode: vpav1.UpdateModeRecreate,
			before: func(w *world) {
				w.edit("web-01", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = amounts("480m", "512Mi") })
				w.clock.Step(13 * time.Hour)
			},
			action: "Skip", rule: "eligibility/within-recommended-range", class: "Settled", reason: "differ from the target by only 4%"},
		{question: "evicted, but unchanged: the webhook is down", replicas: 2, mode: vpav1.UpdateModeRecreate,
			options: func(o *Options) {
				o.Admission = func(context.Context) error { return errors.New("not renewed for 2m0s") }
			},
			action: "Wait", rule: "eviction/admission-down", class: "Misconfigured", reason: "The admission controller's status lease expired"},
		{question: "evicted, but unchanged: replacements keep their resources", replicas: 2, mode: vpav1.UpdateModeRecreate,
			before: func(w *world) {
				for range 3 {
					w.cycle()
					w.clock.Step(10 * time.Second)
					w.pod("web", nil)
					w.clock.Step(time.Minute)
				}
			},
			action: "Wait", rule: "eviction/successors-unchanged", class: "Misconfigured", reason: "The replacement pods of the last 3 evictions kept their old resources"},
		{question: "what blocks it: minReplicas", replicas: 1, mode: vpav1.UpdateModeRecreate,
			action: "Skip", rule: "eligibility/too-few-replicas", class: "Misconfigured", reason: "The workload has 1 live pod, fewer than minReplicas (2, set by --min-replicas)"},
		{question: "what blocks it: a PodDisruptionBudget", replicas: 2, mode: vpav1.UpdateModeRecreate,
			before: func(w *world) {
				w.refusing("evict", budgetRefusal(2))
				w.cycle()
				w.clock.Step(30 * time.Second)
			},
			action: "Wait", rule: "update/disruption-budget", class: "Waiting", reason: "A PodDisruptionBudget last refused to evict a pod of the workload 30s ago"},
		{question: "why its startup boost does not end: the gate is off", replicas: 2, mode: vpav1.UpdateModeOff,
			before: func(w *world) {
				w.edit("web-01", func(p *corev1.Pod) {
					p.Annotations = map[string]string{"vpaCpuStartupBoost/app": `{"requests":{"cpu":"50m"},"limits":{}}`}
				})
			},
			action: "Skip", rule: "unboost/gate-off", class: "Misconfigured", reason: "Startup boosts need --feature-gates=CPUStartupBoost=true"},
		{question: "in place refused: QoS", replicas: 2, mode: vpav1.UpdateModeInPlace,
			before: func(w *world) {
				w.edit("web-01", func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSGuaranteed })
			},
			action: "Wait", rule: "resize/qos-class-never-evict", class: "Misconfigured", reason: "The resize would change the QoS class of the pod, and the mode never evicts"},
		{question: "in place refused: deferred by the node", replicas: 2, mode: vpav1.UpdateModeInPlaceOrRecreate,
			before: func(w *world) {
				w.edit("web-01", func(p *corev1.Pod) {
					p.Status.Conditions = condition(corev1.PodResizePending, corev1.PodReasonDeferred, "Node didn't have enough resource: cpu", w.clock.Now().Add(-2*time.Minute))
				})
			},
			action: "Wait", rule: "resize/resize-under-way", class: "Waiting", reason: "A resize of this pod is under way (Deferred, 2m)"},
		{question: "in place skipped: a remembered attempt", replicas: 2, mode: vpav1.UpdateModeInPlace,
			before: func(w *world) {
				w.refusing("resize", forbidden("Node capacity exceeded", "NodeCapacity"))
				w.cycle()
				w.clock.Step(time.Minute)
			},
			action: "Skip", rule: "resize/known-infeasible", class: "Misconfigured", reason: "The node could not carry out an earlier resize, and this one asks for no less"},
	} {
		t.Run(tt.question, func(t *testing.T) {
			w := newWorld(t, tt.options, "InPlace")
			w.workload("web", tt.replicas, tt.mode)
			if tt.before != nil {
				tt.before(w)
			}
			var pod *answers.RunningPod
			said := w.explained("web")
			for i := range said.Pods {
				if pod == nil || said.Pods[i].Pod < pod.Pod {
					pod = &said.Pods[i]
				}
			}
			require.NotNil(t, pod)
			require.Equal(t, tt.rule, pod.Rule, pod.Reason)
			require.Equal(t, tt.action, pod.Action)
			require.Equal(t, tt.class, pod.Class)
			require.Contains(t, pod.Reason, tt.reason)
			require.NotEmpty(t, pod.Steps, "the way of the decision")
			require.NotEmpty(t, said.Rules.Digest)
			switch tt.rule {
			case "eviction/admission-down":
				require.Equal(t, "not renewed for 2m0s", said.NoAdmission)
			case "eviction/successors-unchanged":
				require.Equal(t, 3, said.Groups[0].Unchanged)
			case "update/disruption-budget":
				require.Equal(t, 1, said.Groups[0].Evictions.Times)
				require.Contains(t, said.Groups[0].Evictions.Message, "needs 2 healthy pods and has 2 currently")
			case "resize/known-infeasible":
				require.Equal(t, "app: cpu 500m, memory 512Mi", pod.Infeasible)
			}
		})
	}
}

func TestExplainOfAVPAThatLeavesPodsAlone(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 2, vpav1.UpdateModeOff)
	said := w.explained("web")
	require.Equal(t, "Update mode Off leaves running pods alone", said.Ignored)
	require.Equal(t, "update-mode/not-in-this-mode", said.IgnoredRule)
	require.Len(t, said.Pods, 2)
	require.Equal(t, "Skip update-mode/not-in-this-mode Settled", said.Pods[0].Action+" "+said.Pods[0].Rule+" "+said.Pods[0].Class)
	require.Equal(t, []answers.Group{{Owner: "ReplicaSet/web-rs", Configured: 2, Live: 2, Running: 2}}, said.Groups)

	_, err := w.Explain(t.Context(), "ns", "wb")
	require.EqualError(t, err, "there is no VerticalPodAutoscaler ns/wb")
	w.Namespaces.Ignored = []string{"ns"}
	_, err = w.Explain(t.Context(), "ns", "web")
	require.EqualError(t, err, "this updater does not serve namespace ns")
}

func TestExplainNamesTheVPAThatHasThePods(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 2, vpav1.UpdateModeRecreate)
	var v vpav1.VerticalPodAutoscaler
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web"}, &v))
	second := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "zweb", UID: "zweb-uid"}, Spec: v.Spec}
	require.NoError(t, w.Create(t.Context(), second))
	for _, pod := range w.explained("zweb").Pods {
		require.Equal(t, "ns/web", pod.VPA)
		require.Equal(t, "VerticalPodAutoscaler ns/web controls it (point vpa.order)", pod.Reason)
	}
	require.Equal(t, "ns/web", w.explained("web").Pods[0].VPA)
}

func TestExplainIncludesPodsThatCyclesIgnore(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 2, vpav1.UpdateModeRecreate)
	w.edit("web-01", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	said := w.explained("web")
	require.Len(t, said.Pods, 2)
	require.Equal(t, "ns/web-01", said.Pods[1].Pod, "it comes last")
	require.Equal(t, "The pod has finished", said.Pods[1].Reason)
	require.Equal(t, 1, said.Groups[0].Live)
}

func TestExplainIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 0, vpav1.UpdateModeRecreate)
	list := &corev1.PodList{}
	w.pod("web", nil)
	require.NoError(t, w.List(t.Context(), list))
	for i := range maxExplained + 20 {
		p := list.Items[0].DeepCopy()
		p.Name, p.UID = fmt.Sprintf("web-%04d", i+2), types.UID(fmt.Sprintf("uid-%d", i+2))
		list.Items = append(list.Items, *p)
	}
	w.Options.Client = &staleReader{Reader: w.Options.Client, pods: list}
	said := w.explained("web")
	require.Len(t, said.Pods, maxExplained)
	require.Equal(t, 21, said.MorePods)
}

func TestAPanicOfAnExplanationIsItsError(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Admission = func(context.Context) error { panic("odd") } })
	w.workload("web", 1, vpav1.UpdateModeRecreate)
	_, err := w.Explain(t.Context(), "ns", "web")
	require.EqualError(t, err, "explaining VerticalPodAutoscaler ns/web: panic: odd; please report this with the log of the updater")
}
