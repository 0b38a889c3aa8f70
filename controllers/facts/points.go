// Package facts defines what policy rules know about vertical pod autoscaling: units, feature
// gates, functions, and points with their facts. The recommender, the updater and the webhook bind
// Kubernetes objects here, so all three run the same policy on the same facts.
//
// No policy may live here: a fact says what is, never what to do about it.
package facts

import (
	"fmt"

	"github.com/celvpa/celvpa/crds/schema"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Points at which rule sets plug in.
const (
	VPAValidate        = "vpa.validate"
	VPADefault         = "vpa.default"
	UsageWindow        = "usage.window"
	UsageOOM           = "usage.oom"
	ContainerSelect    = "container.select"
	ContainerEstimate  = "container.estimate"
	ContainerRecommend = "container.recommend"
	PodRecommend       = "pod.recommend"
	VPAUpdate          = "vpa.update"
	PodValidate        = "pod.validate"
	PodAdmit           = "pod.admit"
	PodFit             = "pod.fit"
	PodResources       = "pod.resources"
	PodPriority        = "pod.priority"
	PodUpdate          = "pod.update"
	PodUnboost         = "pod.unboost"
)

// Outcomes of decision points.
const (
	DoScale   = "Scale"
	DoIgnore  = "Ignore"
	DoApply   = "Apply"
	DoSkip    = "Skip"
	DoWait    = "Wait"
	DoEvict   = "Evict"
	DoInPlace = "InPlace"
	// DoInPlaceCPU resizes CPU only.
	DoInPlaceCPU = "InPlaceCPU"
	// DoInPlaceBefore gives CPU that was boosted back what it was before.
	DoInPlaceBefore = "InPlaceBefore"

	DoRememberInfeasible = "RememberInfeasible"
	DoSkipInfeasible     = "SkipInfeasible"
)

// Gates are the feature gates, all alpha and off, with what each turns on. rules/vpa-gates.yaml refuses the fields of those that
// are off.
var Gates = map[string]string{
	"InPlace":             "update mode InPlace (AEP-8818)",
	"PerVPAConfig":        "per-VPA OOM and aggregation parameters (AEP-8026)",
	"CPUStartupBoost":     "CPU startup boost",
	"MemoryPerCPURatio":   "memoryPerCPU (AEP-8459)",
	"RequestToLimitRatio": "requestToLimitRatio (AEP-8515)",
	"PodLevelResources":   "pod-level resources (AEP-7571)",
}

// BoundNames are the items of scope `bound`, in the order in which rules see them.
var BoundNames = []string{"target", "lowerBound", "upperBound", "uncappedTarget"}

var (
	prioritySchema = lang.NewSchema("Priority",
		lang.Field{Name: "outsideRecommendedRange", Type: lang.Bool, Doc: "a request is below its lower or above its upper bound"},
		lang.Field{Name: "scaleUp", Type: lang.Bool, Doc: "a target exceeds its request"},
		lang.Field{Name: "resourceDiff", Type: lang.Double, Doc: "relative difference of the pod's totals, summed over resources"},
		lang.Field{Name: "mayEvict", Type: lang.Bool, Doc: "the pod may come to be evicted, so explanations name PodDisruptionBudgets that block it; unset is false"})

	orderSchema = lang.NewSchema("Order",
		lang.Field{Name: "first", Type: lang.Int, Doc: "more comes first; unset is 0"},
		lang.Field{Name: "then", Type: lang.Double, Doc: "among equals, more comes first; unset is 0"})
)

// Classes of decisions that leave a pod as it is.
const (
	ClassSettled       = "Settled"
	ClassWaiting       = "Waiting"
	ClassMisconfigured = "Misconfigured"
)

var classes = []registry.Class{
	{Name: ClassSettled, Doc: "there is nothing to do"},
	{Name: ClassWaiting, Doc: "time or the cluster resolves it"},
	{Name: ClassMisconfigured, Doc: "somebody has to change something"},
}

// The points. They are read-only after start-up.
var (
	containerVar = registry.Var{Name: "container", Type: lang.String, Doc: "the container's name"}

	besideVars = []registry.Var{
		{Name: "hpas", Type: lang.ListOf(lang.RecordOf(hpaSchema.Schema)), Doc: "HorizontalPodAutoscalers of the same target, and in manifests ScaledObjects"},
		{Name: "vpas", Type: lang.ListOf(lang.RecordOf(besideSchema.Schema)), Doc: "other VPAs of the same target"},
		{Name: "target", Type: lang.RecordOf(targetSchema.Schema), Doc: "what is known of the target; the webhook knows what targetRef says, and celvpa validate what the manifests or the cluster have, too"},
		{Name: "integerCPU", Type: lang.ListOf(lang.RecordOf(policyOfSchema.Schema)), Doc: "containers for which the VPA asks for whole cores (annotation vpa-post-processor.kubernetes.io/CONTAINER_integerCPU: \"true\")"},
	}
	validatePoint = &registry.Point{Name: VPAValidate, Kind: registry.ValidationPoint, Doc: validateDoc(), Vars: besideVars}
	vpaUpdate     = &registry.Point{
		Name: VPAUpdate, Kind: registry.DecisionPoint,
		Doc:      "Whether a VPA changes running pods at all; run by the updater before vpa.order says which VPA has a pod.",
		Vars:     []registry.Var{{Name: "vpa", Type: lang.RecordOf(vpaSchema.Schema)}},
		Outcomes: []registry.Outcome{{Name: DoApply, Doc: "it may control pods"}, {Name: DoIgnore, Doc: "its pods are left alone, or another VPA controls them", Classed: true}},
		FailSafe: DoIgnore,
		Classes:  classes,
	}
	podAdmit = &registry.Point{
		Name: PodAdmit, Kind: registry.DecisionPoint,
		Doc:      "Whether a VPA changes new pods; run by the webhook, and by the updater before it evicts a pod.",
		Vars:     []registry.Var{{Name: "vpa", Type: lang.RecordOf(vpaSchema.Schema)}},
		Outcomes: []registry.Outcome{{Name: DoApply, Doc: "set resources"}, {Name: DoIgnore, Doc: "admit the pod as it is", Classed: true}},
		FailSafe: DoIgnore,
		Classes:  classes,
	}
	podPriority = &registry.Point{
		Name: PodPriority, Kind: registry.StagePoint,
		Doc: "How far a running pod is from its recommendation; run by the updater.",
		Vars: []registry.Var{
			{Name: "vpa", Type: lang.RecordOf(vpaSchema.Schema)},
			{Name: "containers", Type: lang.ListOf(lang.RecordOf(comparedSchema.Schema)), Doc: "all containers of the pod, in their order"},
			{Name: "podLevel", Type: lang.RecordOf(comparedPodSchema.Schema), Doc: "the pod as a whole; unset for pods without resources at pod level"},
			{Name: "priority", Type: lang.RecordOf(prioritySchema), Writable: true},
			{Name: "order", Type: lang.RecordOf(orderSchema), Writable: true, Doc: "the order in which a VPA's pods are updated; by name if both are equal"},
		},
	}
	podUpdate = &registry.Point{
		Name: PodUpdate, Kind: registry.DecisionPoint,
		Doc: "What to do with a running pod; run by the updater, and again after a refused resize.",
		Vars: []registry.Var{
			{Name: "vpa", Type: lang.RecordOf(vpaSchema.Schema)},
			{Name: "pod", Type: lang.RecordOf(podSchema.Schema)},
			{Name: "containers", Type: lang.ListOf(lang.RecordOf(comparedSchema.Schema)), Doc: "all containers of the pod, in their order"},
			{Name: "podLevel", Type: lang.RecordOf(comparedPodSchema.Schema), Doc: "the pod as a whole; unset for pods without resources at pod level"},
			{Name: "priority", Type: lang.RecordOf(prioritySchema)},
			{Name: "change", Type: lang.RecordOf(changeSchema.Schema), Doc: "what the pod would be given"},
			{Name: "group", Type: lang.RecordOf(groupSchema.Schema), Doc: "the pods of the same direct owner"},
			{Name: "resize", Type: lang.RecordOf(resizeSchema.Schema), Doc: "a resize under way"},
			{Name: "attempt", Type: lang.RecordOf(attemptSchema.Schema), Doc: "past resize attempts"},
			{Name: "admission", Type: lang.RecordOf(admissionSchema.Schema), Doc: "the admission controller"},
		},
		Outcomes: []registry.Outcome{
			{Name: DoSkip, Doc: "nothing to do", Classed: true},
			{Name: DoWait, Doc: "do nothing now, look again next cycle", Classed: true},
			{Name: DoEvict, Doc: "evict the pod"},
			{Name: DoInPlace, Doc: "resize the running pod"},
			{Name: DoInPlaceCPU, Doc: "the same, but memory stays as it is"},
			{Name: DoRememberInfeasible, Doc: "do nothing, and remember that the resize is infeasible on the node: sets attempt.infeasible", Classed: true},
			{Name: DoSkipInfeasible, Doc: "do nothing, because the resize would be infeasible on the node; counted, and reported in an event of the pod", Classed: true},
		},
		FailSafe: DoSkip,
		Classes:  classes,
	}
	podUnboost = &registry.Point{
		Name: PodUnboost, Kind: registry.DecisionPoint,
		Doc: "Whether to end the startup boost of a running pod; run by the updater when such a pod is ready and when a boost is over.",
		Vars: []registry.Var{
			{Name: "pod", Type: lang.RecordOf(podSchema.Schema)},
			{Name: "boost", Type: lang.RecordOf(podBoostSchema.Schema), Doc: "the startup boosts of its containers, as pod.resources decided"},
			{Name: "change", Type: lang.RecordOf(changeSchema.Schema), Doc: "what the pod would be given"},
			{Name: "group", Type: lang.RecordOf(groupSchema.Schema), Doc: "the pods of the same direct owner"},
			{Name: "resize", Type: lang.RecordOf(resizeSchema.Schema), Doc: "a resize under way"},
		},
		Outcomes: []registry.Outcome{
			{Name: DoSkip, Doc: "nothing to do", Classed: true},
			{Name: DoWait, Doc: "do nothing now, look again", Classed: true},
			{Name: DoInPlace, Doc: "resize the running pod, and remove the annotations of boosts that are over"},
			{Name: DoInPlaceCPU, Doc: "the same, but memory stays as it is"},
			{Name: DoInPlaceBefore, Doc: "the same, but boosted CPU becomes what it was before, whatever is recommended, and nothing else changes; it stays where even that would change the QoS class"},
		},
		FailSafe: DoSkip,
		Classes:  classes,
	}
)

// VPAValidateFacts names the facts beside the object that validations can read.
func VPAValidateFacts() []string {
	var out []string
	for _, v := range besideVars {
		out = append(out, v.Name)
	}
	return out
}

// NewRegistry returns all the engine must know; objects and pods type what validations read.
func NewRegistry(objects *schema.Objects, pods registry.ObjectTypes) *registry.Registry {
	r := registry.New()
	addUnits(r)
	addFunctions(r)
	addPodFunctions(r)
	for name, doc := range Gates {
		r.AddGate(name, doc)
	}
	r.AddAxis(lang.Axis{Name: "resource", Plural: "resources", Values: []string{"cpu", "memory"}, Doc: "the resources of containers and pods"})
	validatePoint.Objects, validatePod.Objects = objects, pods
	describeDefaults(objects.Root())
	for _, p := range []*registry.Point{
		validatePoint, vpaDefault, usageWindow, usageOOM, containerPolicy, containerSelect, containerEstimate, containerRecommend, vpaUpdate, vpaOrder, validatePod, podAdmit, podFit, podResources, podPriority, podUpdate, podRefused, podEvicted, podUnboost,
		podRecommend,
	} {
		r.AddPoint(p)
	}
	return r
}

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
