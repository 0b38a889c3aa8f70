package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/explain/ask"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// Manifests stand for a cluster.
type Manifests struct {
	Cluster *simulate.Cluster
	Set     *manifests.Set
	// Usage is what a recommender sees, whose recommendations then replace those in the status of VPAs; nil = it starts with the
	// VerticalPodAutoscalerCheckpoints.
	Usage    *usagefile.Usage
	Now      time.Time
	Selector labels.Selector // see Options
}

// Offline reports on a subject in manifests, or on their only VPA if the subject has no name. There
// are no processes to ask: the updater and the recommender answer by the same code. The error says what cannot
// be used; the report is nil if that is the subject.
func Offline(ctx context.Context, m Manifests, s Subject) (*Report, error) {
	recommends, written, unfed := m.recommender()
	plan, unplanned := m.Cluster.Plan(true)
	list, _ := m.Cluster.VPAs() // the plan has reported what cannot be read
	scalers, unreadScalers := m.Set.HPAs()
	wrong := faults.Once(unfed, unplanned, unreadScalers) // all of them read the VPAs
	var objects []client.Object
	for i := range scalers {
		objects = append(objects, &scalers[i])
	}
	o := Options{
		Client: plan.Client(objects...), Rules: m.Cluster.Rules(), Now: m.Now, Selector: m.Selector, plan: plan, written: written,
		Unknown: []string{"refused resizes and evictions, events, and whether the webhook is registered: only manifests were read"},
		Ask: func(ctx context.Context, namespace, name string) (*ask.Result, error) {
			v := list[slices.IndexFunc(list, func(v *vpav1.VerticalPodAutoscaler) bool { return v.Namespace == namespace && v.Name == name })]
			out := &ask.Result{Updater: updaterOf(v, list, plan)}
			var unexplained error
			out.Recommender, unexplained = recommends(ctx, v)
			wrong = faults.Join(wrong, unexplained)
			if m.Usage == nil && out.Recommender != nil {
				out.Unknown = []string{"the usage since the last checkpoints: the numbers are computed from VerticalPodAutoscalerCheckpoints; name a file of usage with --usage"}
			}
			return out, nil
		},
	}
	r, err := Explain(ctx, o, s)
	return r, faults.Join(wrong, err)
}

// recommender answers for a VPA as a recommender with the usage would; its answer is nil where nothing is known of any. written is when
// the checkpoints of a VPA were, by container, if it starts with those.
func (m *Manifests) recommender() (recommends func(context.Context, *vpav1.VerticalPodAutoscaler) (*answers.Recommender, error), written func(namespace, name string) map[string]time.Time, wrong error) {
	var r *simulate.Recommender
	if m.Usage != nil {
		r, wrong = m.Cluster.Feed(m.Usage)
	} else {
		r, wrong = m.Cluster.Restored()
	}
	return func(ctx context.Context, v *vpav1.VerticalPodAutoscaler) (*answers.Recommender, error) {
		w := r.Workload(v.Namespace, v.Name)
		if w == nil {
			return nil, nil
		}
		answer, err := r.State.ExplainAlone(ctx, w, m.Now, sampled)
		return &answer, err
	}, r.Written, wrong
}

// sampled is how often usage is assumed to arrive where predictions need it: at the default
// --recommender-interval.
const sampled = time.Minute

// Simulate computes from the objects of the VPA's namespace what the recommender and the updater
// would say, by rules that need not be those of the processes. remember says for how long usage
// counts.
func Simulate(ctx context.Context, c client.Client, book *compile.Rulebook, v *vpav1.VerticalPodAutoscaler, now time.Time) (Simulated, error) {
	reader := manifests.Reader{Client: c, Namespace: v.Namespace}
	set, notes, unread := reader.Read(ctx, append(manifests.PodKinds, manifests.VPAKind, manifests.PDBKind, manifests.CheckpointKind)...)
	cluster, unusable := simulate.Load(set, book, simulate.At(now))
	plan, unplanned := cluster.Plan(true)
	all, _ := cluster.VPAs() // the plan has reported what cannot be read
	out := Simulated{Updater: updaterOf(v, all, plan), Notes: notes}
	m := Manifests{Cluster: cluster, Set: set, Now: now}
	recommends, _, unrestored := m.recommender()
	answer, unexplained := recommends(ctx, v)
	out.Recommender = answer
	return out, faults.Once(unread, unusable, unplanned, unrestored, unexplained)
}

// updaterOf is what the updater would say about a VPA, by a plan. As the updater does, it names the
// VPA that controls a pod if another one of the same target does.
func updaterOf(v *vpav1.VerticalPodAutoscaler, all []*vpav1.VerticalPodAutoscaler, plan *simulate.Plan) *answers.Updater {
	key, beside := v.Namespace+"/"+v.Name, map[string]bool{}
	for _, other := range all {
		beside[other.Namespace+"/"+other.Name] = target.Of(other) == target.Of(v)
	}
	u := &answers.Updater{}
	if why, left := plan.Left[key]; left {
		u.Ignored, u.IgnoredRule = why.Reason, why.Rule
	}
	for _, item := range plan.Items {
		if item.VPA != key && !beside[item.VPA] {
			continue
		}
		if item.VPA != key {
			reason := fmt.Sprintf("VerticalPodAutoscaler %s controls it (point vpa.order)", item.VPA)
			item = answers.PlannedPod{Pod: item.Pod, VPA: item.VPA, Action: facts.DoSkip, Reason: reason, Why: item.Why}
		}
		u.Pods = append(u.Pods, answers.RunningPod{PlannedPod: item})
	}
	return u
}
