package explain

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// Simulate computes from the objects of the VPA's namespace what the updater would do, by rules that
// need not be those of the processes.
func Simulate(ctx context.Context, c client.Client, book *compile.Rulebook, v *vpav1.VerticalPodAutoscaler, now time.Time) (Simulated, error) {
	set, notes, unread := manifests.ReadCluster(ctx, c, v.Namespace, append(manifests.PodKinds, manifests.VPAKind, manifests.PDBKind)...)
	cluster, unusable := simulate.Load(set, book, simulate.At(now))
	plan, unplanned := cluster.Plan(true)
	u := &answers.Updater{}
	for _, item := range plan.Items {
		if item.VPA == v.Namespace+"/"+v.Name {
			u.Pods = append(u.Pods, answers.RunningPod{PlannedPod: item})
		}
	}
	return Simulated{Updater: u, Notes: notes}, faults.Join(unread, unusable, unplanned)
}
