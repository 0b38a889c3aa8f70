package facts

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	autoscalingv1 "k8s.io/api/autoscaling/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/lang"
)

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
