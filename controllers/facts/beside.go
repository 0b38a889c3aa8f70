package facts

import (
	"slices"
	"strings"

	autoscaling "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// ValidateFacts binds the VPAs and HPAs with v's target, by name, for vpa.validate; v may be among
// them.
func ValidateFacts(v *vpav1.VerticalPodAutoscaler, vpas []vpav1.VerticalPodAutoscaler, hpas []autoscalingv2.HorizontalPodAutoscaler) *registry.Facts {
	var others, scalers []*lang.Record
	if target := v.Spec.TargetRef; target != nil {
		for i := range vpas {
			if o := &vpas[i]; o.Namespace == v.Namespace && o.Name != v.Name && o.Spec.TargetRef != nil && sameTarget(target, o.Spec.TargetRef) {
				others = append(others, besideSchema.Of(o))
			}
		}
		for i := range hpas {
			ref := hpas[i].Spec.ScaleTargetRef
			if hpas[i].Namespace == v.Namespace && sameTarget(target, &autoscaling.CrossVersionObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}) {
				scalers = append(scalers, hpaSchema.Of(&hpas[i]))
			}
		}
		sortByName(others)
		sortByName(scalers)
	}
	return validatePoint.NewFacts().Set("vpas", lang.Records(others)).Set("hpas", lang.Records(scalers))
}

func sortByName(list []*lang.Record) {
	slices.SortFunc(list, func(a, b *lang.Record) int { return strings.Compare(a.Text("name"), b.Text("name")) })
}

// sameTarget ignores the version, and the group where either side omits it.
func sameTarget(a, b *autoscaling.CrossVersionObjectReference) bool {
	group := func(r *autoscaling.CrossVersionObjectReference) string {
		gv, err := schema.ParseGroupVersion(r.APIVersion)
		if err != nil {
			return r.APIVersion
		}
		return gv.Group
	}
	return a.Kind == b.Kind && a.Name == b.Name && (a.APIVersion == "" || b.APIVersion == "" || group(a) == group(b))
}

var besideSchema = lang.Bind("OtherVPA",
	lang.TextFrom("name", "", func(v *vpav1.VerticalPodAutoscaler) string { return v.Name }),
	lang.TextIf("updateMode", "as written; unset without updatePolicy", updateMode))

var hpaSchema = lang.Bind("HPA",
	lang.TextFrom("name", "", func(h *autoscalingv2.HorizontalPodAutoscaler) string { return h.Name }),
	// The API server defaults missing metrics to 80% CPU.
	lang.BoolFrom("cpu", "it scales on CPU", func(h *autoscalingv2.HorizontalPodAutoscaler) bool {
		return scalesOn(h, corev1.ResourceCPU) || len(h.Spec.Metrics) == 0
	}),
	lang.BoolFrom("memory", "it scales on memory", func(h *autoscalingv2.HorizontalPodAutoscaler) bool { return scalesOn(h, corev1.ResourceMemory) }))

func scalesOn(h *autoscalingv2.HorizontalPodAutoscaler, name corev1.ResourceName) bool {
	return slices.ContainsFunc(h.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return (m.Resource != nil && m.Resource.Name == name) || (m.ContainerResource != nil && m.ContainerResource.Name == name)
	})
}
