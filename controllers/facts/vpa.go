package facts

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	autoscalingv1 "k8s.io/api/autoscaling/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// The points that decide whether a VPA acts.
var (
	vpaUpdate = &registry.Point{
		Name: VPAUpdate, Kind: registry.DecisionPoint,
		Doc:      "Whether a VPA changes running pods at all; run by the updater before vpa.order says which VPA has a pod.",
		Vars:     []registry.Var{vpaVar},
		Outcomes: []registry.Outcome{{Name: DoApply, Doc: "it may control pods"}, {Name: DoIgnore, Doc: "its pods are left alone, or another VPA controls them", Classed: true}},
		FailSafe: DoIgnore,
		Classes:  classes,
	}
	podAdmit = &registry.Point{
		Name: PodAdmit, Kind: registry.DecisionPoint,
		Doc:      "Whether a VPA changes new pods; run by the webhook, and by the updater before it evicts a pod.",
		Vars:     []registry.Var{vpaVar},
		Outcomes: []registry.Outcome{{Name: DoApply, Doc: "set resources"}, {Name: DoIgnore, Doc: "admit the pod as it is", Classed: true}},
		FailSafe: DoIgnore,
		Classes:  classes,
	}
)

// UpdateFacts binds the facts of vpa.update.
func UpdateFacts(v *vpav1.VerticalPodAutoscaler) *registry.Facts {
	return vpaUpdate.NewFacts().Set("vpa", VPA(v))
}

// AdmitFacts binds the facts of pod.admit.
func AdmitFacts(v *vpav1.VerticalPodAutoscaler) *registry.Facts {
	return podAdmit.NewFacts().Set("vpa", VPA(v))
}

var vpaSchema = lang.Bind("VPA", append(vpaMetadata,
	lang.TextIf("updateMode", "as written; unset without updatePolicy", updateMode),
	lang.IntIf("minReplicas", lang.Int, "", func(v *vpav1.VerticalPodAutoscaler) (int32, bool) { return given(updatePolicy(v).MinReplicas) }),
	lang.IntIf("evictAfterOOM", lang.IntOf(Duration), "evictAfterOOMSeconds, even with gate PerVPAConfig off",
		func(v *vpav1.VerticalPodAutoscaler) (time.Duration, bool) {
			seconds, ok := given(updatePolicy(v).EvictAfterOOMSeconds)
			return time.Duration(seconds) * time.Second, ok
		}),
	lang.RecordFrom("startupBoost", boostSchema.Schema, "of the VPA as a whole, even with gate CPUStartupBoost off",
		func(v *vpav1.VerticalPodAutoscaler) *lang.Record {
			if v.Spec.StartupBoost == nil || v.Spec.StartupBoost.CPU == nil {
				return nil
			}
			return boostSchema.Of(v.Spec.StartupBoost)
		}),
	lang.BoolFrom("recommended", "its status has a recommendation, even if for no container",
		func(v *vpav1.VerticalPodAutoscaler) bool { return v.Status.Recommendation != nil }),
	lang.BoolIf("podRecommended", "its status has a recommendation for the pod as a whole, even with gate PodLevelResources off; unset if not",
		func(v *vpav1.VerticalPodAutoscaler) (bool, bool) {
			has := v.Status.Recommendation != nil && v.Status.Recommendation.PodRecommendation != nil
			return has, has
		}),
	lang.BoolFrom("boosts", "the VPA or one of its container policies has a startup boost", boosts),
	lang.RecordsFrom("evictionRequirements", requirementSchema.Schema, "empty when there are none",
		func(v *vpav1.VerticalPodAutoscaler) (out []*lang.Record) {
			for _, e := range updatePolicy(v).EvictionRequirements {
				if e != nil {
					out = append(out, requirementSchema.Of(e))
				}
			}
			return out
		}))...)

var requirementSchema = lang.Bind("EvictionRequirement",
	lang.TextsFrom("resources", "cpu, memory or both; one of them must change in this direction", func(e *vpav1.EvictionRequirement) []string { return resourceNames(&e.Resources) }),
	lang.TextFrom("change", "TargetHigherThanRequests or TargetLowerThanRequests",
		func(e *vpav1.EvictionRequirement) vpav1.EvictionChangeRequirement { return e.ChangeRequirement }))

// VPA binds the fields of a VPA that decide when it acts.
func VPA(v *vpav1.VerticalPodAutoscaler) *lang.Record { return vpaSchema.Of(v) }

var noUpdatePolicy = &vpav1.PodUpdatePolicy{}

// updatePolicy is never nil.
func updatePolicy(v *vpav1.VerticalPodAutoscaler) *vpav1.PodUpdatePolicy {
	if v.Spec.UpdatePolicy == nil {
		return noUpdatePolicy
	}
	return v.Spec.UpdatePolicy
}

func updateMode(v *vpav1.VerticalPodAutoscaler) (vpav1.UpdateMode, bool) {
	return given(updatePolicy(v).UpdateMode)
}

// boosts reports whether a VPA has any startup boost, even an empty one (UPSTREAM.md §4.2).
func boosts(v *vpav1.VerticalPodAutoscaler) bool {
	return v.Spec.StartupBoost != nil || v.Spec.ResourcePolicy != nil &&
		slices.ContainsFunc(v.Spec.ResourcePolicy.ContainerPolicies, func(p vpav1.ContainerResourcePolicy) bool { return p.StartupBoost != nil })
}

// VPAOrder is the point that decides which of several matching VPAs controls a pod.
const VPAOrder = "vpa.order"

var vpaOrder = &registry.Point{
	Name: VPAOrder, Kind: registry.StagePoint,
	Doc: "Which VPA has a pod that several select; run by the recommender for every VPA, and by the webhook and the updater if more than one selects a pod.",
	Vars: []registry.Var{
		vpaVar,
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

// vpaMetadata are the fields that name a VPA, at all points.
var vpaMetadata = []lang.FieldFrom[*vpav1.VerticalPodAutoscaler]{
	lang.TextFrom("name", "", func(v *vpav1.VerticalPodAutoscaler) string { return v.Name }),
	lang.TextFrom("namespace", "", func(v *vpav1.VerticalPodAutoscaler) string { return v.Namespace }),
	lang.RecordFrom("target", targetRefSchema.Schema, "the workload (spec.targetRef); unset without one", func(v *vpav1.VerticalPodAutoscaler) *lang.Record {
		if v.Spec.TargetRef == nil {
			return nil
		}
		return targetRefSchema.Of(v.Spec.TargetRef)
	}),
	labelsFrom("labels", "by key", func(v *vpav1.VerticalPodAutoscaler) map[string]string { return v.Labels }),
	labelsFrom("annotations", "by key", func(v *vpav1.VerticalPodAutoscaler) map[string]string { return v.Annotations }),
}

var targetRefSchema = lang.Bind("TargetRef",
	lang.TextFrom("kind", "such as Deployment", func(r *autoscalingv1.CrossVersionObjectReference) string { return r.Kind }),
	lang.TextFrom("name", "", func(r *autoscalingv1.CrossVersionObjectReference) string { return r.Name }))

// labelsFrom is a field with labels or annotations.
func labelsFrom[T any](name, doc string, get func(T) map[string]string) lang.FieldFrom[T] {
	return lang.OpaqueFrom(name, lang.Texts, doc, func(from T) ref.Val {
		if all := get(from); len(all) > 0 {
			return types.NewStringStringMap(types.DefaultTypeAdapter, all)
		}
		return noLabels
	})
}

var noLabels = types.NewStringStringMap(types.DefaultTypeAdapter, nil)
