package explain

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// sampled is how often usage is assumed to arrive where predictions need it: at the default
// --recommender-interval.
const sampled = time.Minute

// Simulate computes from the objects of the VPA's namespace what the recommender and the updater
// would say, by rules that need not be those of the processes. remember says for how long usage
// counts.
func Simulate(ctx context.Context, c client.Client, book *compile.Rulebook, remember model.Settings, v *vpav1.VerticalPodAutoscaler, now time.Time) (Simulated, error) {
	reader := manifests.Reader{Client: c, Namespace: v.Namespace}
	set, notes, unread := reader.Read(ctx, append(manifests.PodKinds, manifests.VPAKind, manifests.ScaleKind, manifests.PDBKind, manifests.CheckpointKind)...)
	cluster, unusable := simulate.Load(set, book, simulate.At(now))
	plan, unplanned := cluster.Plan(true)
	all, _ := cluster.VPAs() // the plan has reported what cannot be read
	out := Simulated{Updater: updaterOf(v, all, plan), Notes: notes}
	m := Manifests{Cluster: cluster, Set: set, Remember: remember, Now: now}
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
