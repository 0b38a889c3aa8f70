package facts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscaling "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/crds/schema"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// The facts of vpa.validate beside the object.
var besideVars = []registry.Var{
	{Name: "hpas", Type: lang.ListOf(lang.RecordOf(hpaSchema.Schema)), Doc: "HorizontalPodAutoscalers of the same target, and in manifests ScaledObjects"},
	{Name: "vpas", Type: lang.ListOf(lang.RecordOf(besideSchema.Schema)), Doc: "other VPAs of the same target"},
	{Name: "target", Type: lang.RecordOf(targetSchema.Schema), Doc: "what is known of the target; the webhook knows what targetRef says, and celvpa validate what the manifests or the cluster have, too"},
	{Name: "integerCPU", Type: lang.ListOf(lang.RecordOf(policyOfSchema.Schema)), Doc: "containers for which the VPA asks for whole cores (annotation vpa-post-processor.kubernetes.io/CONTAINER_integerCPU: \"true\")"},
}

var validatePoint = &registry.Point{Name: VPAValidate, Kind: registry.ValidationPoint, Doc: validateDoc(), Vars: besideVars}

func validateDoc() string {
	doc := "Whether a VerticalPodAutoscaler is valid; run by the webhook and by `celvpa validate`, and by API servers where a rule is enforced in the schema. " +
		"`self` is typed by the CRD and written as in its manifest; of the metadata only the name can be read. " +
		"Quantities are text or a number: compare them with `quantity(string(self.maxAllowed['memory'])).compareTo(quantity('8Gi')) <= 0`. " +
		"The functions are those of CRD validation rules in Kubernetes 1.33, not those listed below. Rules that are not enforced in the schema have these besides:\n"
	for _, f := range schema.Functions {
		doc += fmt.Sprintf("\n- `%s`: %s", f.Signature, f.Doc)
	}
	return doc
}

// VPAValidateFacts names the facts beside the object that validations can read.
func VPAValidateFacts() []string {
	var out []string
	for _, v := range besideVars {
		out = append(out, v.Name)
	}
	return out
}

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
		if prefixed && suffixed && integerCPU(v, container) {
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
			policy := byContainer[container]
			policy.of = of(container)
			out = append(out, hpaSchema.Of(*policy))
		}
		begin = end
	}
	return out
}

// sameTarget ignores the version, and the group where either side omits it. Deployments and the
// like have moved from extensions to apps.
func sameTarget(a, b *autoscaling.CrossVersionObjectReference) bool {
	group := func(r *autoscaling.CrossVersionObjectReference) string {
		gv, err := apischema.ParseGroupVersion(r.APIVersion)
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
				policy := byContainer[m.ContainerResource.Container]
				if policy == nil {
					policy = &scaler{name: whole.name, kind: whole.kind}
					byContainer[m.ContainerResource.Container] = policy
				}
				policy.add(m.ContainerResource.Name, m.ContainerResource.Target)
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

// Target is what is known of the target of a VPA besides the targetRef. The zero Target is one of
// which nothing is known, as in the webhook.
type Target struct {
	APIVersion     string   // of its manifest; empty = unknown
	Containers     []string // of its pod template; nil = unknown
	InitContainers []string
	Unlabelled     bool     // its pod template has no labels
	Unselected     bool     // it has no selector, which API servers require, and is not a patch
	BackoffLimit   *int32   // of a Job, or of the Jobs of a CronJob
	Owner          string   // that controls it, e.g. Deployment web; empty = none, or unknown
	OwnerScales    *bool    // the owner is well known or has a scale subresource; nil = unknown
	Scales         *bool    // its kind is well known or has a scale subresource; nil = unknown
	Elsewhere      []string // other namespaces with an object of its kind and name, if its own has none
}

// builtIn are the kinds of targets that need no scale subresource, with their apiVersion.
var builtIn = map[string]string{
	"CronJob": "batch/v1", "DaemonSet": "apps/v1", "Deployment": "apps/v1", "Job": "batch/v1", "ReplicaSet": "apps/v1",
	"ReplicationController": "v1", "StatefulSet": "apps/v1",
}

// builtInKind is the kind of Kubernetes' own that a targetRef means, in any case or in the plural.
func builtInKind(written string) (kind string, ok bool) {
	if builtIn[written] != "" {
		return written, true
	}
	for kind := range builtIn {
		if strings.EqualFold(written, kind) || strings.EqualFold(written, kind+"s") {
			return kind, true
		}
	}
	return "", false
}

// namedTarget is a targetRef with what is known of the object.
type namedTarget struct {
	*autoscaling.CrossVersionObjectReference
	known    Target
	policies []*lang.Record // of its containers
}

var targetSchema = lang.Bind("Target",
	lang.TextIf("kind", "the kind of Kubernetes' own that targetRef.kind means, in any case or in the plural; unset for other kinds",
		func(t namedTarget) (string, bool) { return builtInKind(t.Kind) }),
	lang.TextIf("apiVersion", "the apiVersion of that kind", func(t namedTarget) (string, bool) {
		kind, ok := builtInKind(t.Kind)
		return builtIn[kind], ok
	}),
	lang.TextIf("writtenAs", "the apiVersion of its manifest", func(t namedTarget) (string, bool) { return t.known.APIVersion, t.known.APIVersion != "" }),
	lang.TextsFrom("containers", "of its pod template, without those that webhooks inject", func(t namedTarget) []string { return t.known.Containers }),
	lang.TextsFrom("initContainers", "of its pod template, sidecars among them; set with containers", func(t namedTarget) []string {
		if t.known.Containers == nil {
			return nil
		}
		return append([]string{}, t.known.InitContainers...)
	}),
	lang.RecordsFrom("policies", scopeSchema.Schema, "what the policies of its containers let the VPA set, in the order of containers",
		func(t namedTarget) []*lang.Record { return t.policies }),
	lang.BoolFrom("unlabelled", "its pod template has no labels", func(t namedTarget) bool { return t.known.Unlabelled }),
	lang.BoolFrom("unselected", "it has no selector, which API servers require", func(t namedTarget) bool { return t.known.Unselected }),
	lang.IntIf("backoffLimit", lang.Int, "of a Job, or of the Jobs of a CronJob", func(t namedTarget) (int32, bool) { return given(t.known.BackoffLimit) }),
	lang.TextIf("owner", "what controls it, e.g. Deployment web", func(t namedTarget) (string, bool) { return t.known.Owner, t.known.Owner != "" }),
	lang.BoolIf("ownerScales", "the owner is of a kind of Kubernetes' own, or has a scale subresource", func(t namedTarget) (bool, bool) { return given(t.known.OwnerScales) }),
	lang.BoolIf("scales", "it is of a kind of Kubernetes' own, or its kind has a scale subresource", func(t namedTarget) (bool, bool) { return given(t.known.Scales) }),
	lang.TextsFrom("elsewhere", "other namespaces that have an object of its kind and name, if its own has none",
		func(t namedTarget) []string { return t.known.Elsewhere }))

// targetOf binds a targetRef, which may be nil.
func targetOf(ref *autoscaling.CrossVersionObjectReference, known Target, policies []*lang.Record) *lang.Record {
	if ref == nil {
		ref = &autoscaling.CrossVersionObjectReference{}
	}
	return targetSchema.Of(namedTarget{ref, known, policies})
}
