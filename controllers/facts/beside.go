package facts

import (
	"cmp"
	"maps"
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

// Beside is what is known when a VPA is judged, besides itself: its target, and objects of its
// namespace that may have the same one. The VPA may be among them.
type Beside struct {
	VPAs   []vpav1.VerticalPodAutoscaler
	HPAs   []autoscalingv2.HorizontalPodAutoscaler // those of one name, as of several clusters, are one
	Target Target
}

// ValidateFacts binds what is beside v for vpa.validate, and the policies of containers.
func ValidateFacts(v *vpav1.VerticalPodAutoscaler, beside Beside, policies PolicyRules) *registry.Facts {
	var others []*lang.Record
	var scalers []*autoscalingv2.HorizontalPodAutoscaler
	if target := v.Spec.TargetRef; target != nil {
		for i := range beside.VPAs {
			if o := &beside.VPAs[i]; o.Namespace == v.Namespace && o.Name != v.Name && o.Spec.TargetRef != nil && sameTarget(target, o.Spec.TargetRef) {
				others = append(others, besideSchema.Of(o))
			}
		}
		for i := range beside.HPAs {
			h := &beside.HPAs[i]
			ref := autoscaling.CrossVersionObjectReference(h.Spec.ScaleTargetRef)
			if h.Namespace == v.Namespace && sameTarget(target, &ref) {
				scalers = append(scalers, h)
			}
		}
	}
	of := func(container string) policyOf {
		return policyOf{container, policies.For(v.Spec.ResourcePolicy, container)}
	}
	var ofTarget []*lang.Record
	for _, container := range beside.Target.Containers {
		ofTarget = append(ofTarget, scope(of(container).policy))
	}
	return validatePoint.NewFacts().Set("vpas", lang.Records(sortedByName(others))).Set("hpas", lang.Records(hpasByName(scalers, of))).
		Set("target", targetOf(v.Spec.TargetRef, beside.Target, ofTarget)).Set("integerCPU", lang.Records(integerCPUs(v, of)))
}

// policyOf is a container and its policy, nil without one.
type policyOf struct {
	container string
	policy    *vpav1.ContainerResourcePolicy
}

var policyOfSchema = lang.Bind("ContainerWithPolicy",
	lang.TextFrom("name", "the container's", func(c policyOf) string { return c.container }),
	lang.RecordFrom("policy", scopeSchema.Schema, "what its policy lets the VPA set", func(c policyOf) *lang.Record { return scope(c.policy) }))

// integerCPUs are the containers for which a VPA asks for whole cores, by name.
func integerCPUs(v *vpav1.VerticalPodAutoscaler, of func(string) policyOf) (out []*lang.Record) {
	for _, key := range slices.Sorted(maps.Keys(v.Annotations)) {
		container, prefixed := strings.CutPrefix(key, integerCPUPrefix)
		container, suffixed := strings.CutSuffix(container, integerCPUSuffix)
		if prefixed && suffixed && IntegerCPU(v, container) {
			out = append(out, policyOfSchema.Of(of(container)))
		}
	}
	return out
}

// sortedByName keeps the first of each name.
func sortedByName(list []*lang.Record) []*lang.Record {
	slices.SortStableFunc(list, func(a, b *lang.Record) int { return strings.Compare(a.Text("name"), b.Text("name")) })
	return slices.CompactFunc(list, func(a, b *lang.Record) bool { return a.Text("name") == b.Text("name") })
}

// hpasByName joins the metrics of those of one kind and name. Each container whose usage alone they
// scale on has a record of its own.
func hpasByName(list []*autoscalingv2.HorizontalPodAutoscaler, of func(string) policyOf) (out []*lang.Record) {
	order := func(a, b *autoscalingv2.HorizontalPodAutoscaler) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	}
	slices.SortStableFunc(list, order)
	for begin := 0; begin < len(list); {
		end := begin + 1
		for end < len(list) && order(list[begin], list[end]) == 0 {
			end++
		}
		whole, byContainer := scalerOf(list[begin:end])
		out = append(out, hpaSchema.Of(whole))
		for _, container := range slices.Sorted(maps.Keys(byContainer)) {
			one := byContainer[container]
			one.of = of(container)
			out = append(out, hpaSchema.Of(*one))
		}
		begin = end
	}
	return out
}

// sameTarget ignores the version, and the group where either side omits it. Deployments and the
// like have moved from extensions to apps.
func sameTarget(a, b *autoscaling.CrossVersionObjectReference) bool {
	group := func(r *autoscaling.CrossVersionObjectReference) string {
		gv, err := schema.ParseGroupVersion(r.APIVersion)
		if err != nil {
			return r.APIVersion
		}
		if gv.Group == "extensions" {
			return "apps"
		}
		return gv.Group
	}
	return a.Kind == b.Kind && a.Name == b.Name && (a.APIVersion == "" || b.APIVersion == "" || group(a) == group(b))
}

var besideSchema = lang.Bind("OtherVPA",
	lang.TextFrom("name", "", func(v *vpav1.VerticalPodAutoscaler) string { return v.Name }),
	lang.TextIf("updateMode", "as written; unset without updatePolicy", updateMode))

// ScaledObject is the kind of KEDA's autoscalers, which are bound as HPAs of this kind.
const ScaledObject = "ScaledObject"

// scaler is what HPAs of one kind and name watch: whole pods, or a container.
type scaler struct {
	name, kind  string
	cpu, memory bool
	of          policyOf // zero for whole pods
}

// add adds a metric. Requests do not matter to a target that is an amount.
func (s *scaler) add(name corev1.ResourceName, aims autoscalingv2.MetricTarget) {
	if aims.Type != autoscalingv2.AverageValueMetricType {
		s.cpu, s.memory = s.cpu || name == corev1.ResourceCPU, s.memory || name == corev1.ResourceMemory
	}
}

// scalerOf is what HPAs of one kind and name watch. An API server gives HPAs without metrics a target
// of 80% CPU.
func scalerOf(all []*autoscalingv2.HorizontalPodAutoscaler) (whole scaler, byContainer map[string]*scaler) {
	whole, byContainer = scaler{name: all[0].Name, kind: all[0].Kind}, map[string]*scaler{}
	for _, h := range all {
		if len(h.Spec.Metrics) == 0 && h.Kind != ScaledObject {
			whole.add(corev1.ResourceCPU, autoscalingv2.MetricTarget{})
		}
		for i := range h.Spec.Metrics {
			switch m := &h.Spec.Metrics[i]; {
			case m.Resource != nil:
				whole.add(m.Resource.Name, m.Resource.Target)
			case m.ContainerResource != nil:
				one := byContainer[m.ContainerResource.Container]
				if one == nil {
					one = &scaler{name: whole.name, kind: whole.kind}
					byContainer[m.ContainerResource.Container] = one
				}
				one.add(m.ContainerResource.Name, m.ContainerResource.Target)
			}
		}
	}
	return whole, byContainer
}

var hpaSchema = lang.Bind("HPA",
	lang.TextFrom("name", "", func(s scaler) string { return s.name }),
	lang.TextIf("kind", "ScaledObject for one of KEDA, which makes a HorizontalPodAutoscaler; unset for HorizontalPodAutoscalers",
		func(s scaler) (string, bool) { return s.kind, s.kind == ScaledObject }),
	lang.BoolFrom("cpu", "it scales on CPU as a share of requests, not by averageValue", func(s scaler) bool { return s.cpu }),
	lang.BoolFrom("memory", "it scales on memory as a share of requests, not by averageValue", func(s scaler) bool { return s.memory }),
	lang.TextIf("container", "it scales on the usage of this container alone; unset for that of whole pods. An HPA that does both has several records",
		func(s scaler) (string, bool) { return s.of.container, s.of.container != "" }),
	lang.RecordFrom("policy", scopeSchema.Schema, "what the policy of that container lets the VPA set", func(s scaler) *lang.Record {
		if s.of.container == "" {
			return nil
		}
		return scope(s.of.policy)
	}))
