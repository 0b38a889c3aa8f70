package facts

import (
	"cmp"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// VPAOrder is the point that decides which of several matching VPAs controls a pod.
const VPAOrder = "vpa.order"

var vpaOrder = &registry.Point{
	Name: VPAOrder, Kind: registry.StagePoint,
	Doc: "Which VPA has a pod that several select; run by the recommender for every VPA, and by the webhook and the updater if more than one selects a pod.",
	Vars: []registry.Var{
		{Name: "vpa", Type: lang.RecordOf(vpaSchema.Schema)},
		{Name: "created", Type: lang.IntOf(Duration), Doc: "when it was created, as the time since 1970"},
		{Name: "order", Type: lang.RecordOf(orderSchema), Writable: true, Doc: "the VPA with the larger value has the pod; by name if both are equal"},
	},
}

// Order ranks VPAs: the larger one comes first.
type Order struct {
	First int64
	Then  float64
}

// Compare is negative if o comes before other, and 0 if they tie.
func (o Order) Compare(other Order) int {
	return cmp.Or(cmp.Compare(other.First, o.First), cmp.Compare(other.Then, o.Then))
}

// OrderOf runs vpa.order. It also returns the rules that failed.
func OrderOf(plan *engine.Plan, v *vpav1.VerticalPodAutoscaler) (Order, []*engine.RuleError) {
	created := int64(0)
	if !v.CreationTimestamp.IsZero() {
		created = v.CreationTimestamp.UnixNano()
	}
	order := orderSchema.New()
	f := vpaOrder.NewFacts().Set("vpa", VPA(v)).Set("created", lang.Number(created)).Set("order", order)
	failed := plan.RunStages(VPAOrder, f, nil)
	first, _ := order.Int("first")
	return Order{First: first, Then: order.Double("then")}, failed
}
