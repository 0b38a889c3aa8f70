package facts

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/lang"
)

var (
	vpaLabels      = labelsFrom("labels", func(v *vpav1.VerticalPodAutoscaler) map[string]string { return v.Labels })
	vpaAnnotations = labelsFrom("annotations", func(v *vpav1.VerticalPodAutoscaler) map[string]string { return v.Annotations })
)

// labelsFrom is a field with labels or annotations.
func labelsFrom[T any](name string, get func(T) map[string]string) lang.FieldFrom[T] {
	return lang.OpaqueFrom(name, lang.Texts, "by key", func(from T) ref.Val {
		if all := get(from); len(all) > 0 {
			return types.NewStringStringMap(types.DefaultTypeAdapter, all)
		}
		return noLabels
	})
}

var noLabels = types.NewStringStringMap(types.DefaultTypeAdapter, nil)
