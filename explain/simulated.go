package explain

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/recommender/model"
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
	set, notes, unread := reader.Read(ctx, append(manifests.PodKinds, manifests.VPAKind, manifests.PDBKind, manifests.CheckpointKind)...)
	cluster, unusable := simulate.Load(set, book, simulate.At(now))
	plan, unplanned := cluster.Plan(true)
	u := &answers.Updater{}
	for _, item := range plan.Items {
		if item.VPA == v.Namespace+"/"+v.Name {
			u.Pods = append(u.Pods, answers.RunningPod{PlannedPod: item})
		}
	}
	out := Simulated{Updater: u, Notes: notes}
	restored, unrestored := cluster.Restored(remember)
	errs := faults.Join(unread, unusable, unplanned, unrestored)
	if w := restored.Workload(v.Namespace, v.Name); w != nil {
		told, err := restored.State.ExplainAlone(ctx, w, now, sampled)
		out.Recommender, errs = &told, faults.Join(errs, err)
	}
	return out, errs
}
