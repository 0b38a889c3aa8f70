package facts

import (
	"slices"
	"time"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/lang"
)

var vpaSchema = lang.Bind("VPA",
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
		}))

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
