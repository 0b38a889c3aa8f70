package facts

import (
	"fmt"

	"github.com/celvpa/celvpa/crds/schema"
	"github.com/celvpa/celvpa/engine"
)

// The points at which rule sets plug in.
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

// The outcomes of decision points.
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

	DoRememberInfeasible = "RememberInfeasible"
	DoSkipInfeasible     = "SkipInfeasible"
)

// Gates are the feature gates, all alpha and off (DESIGN.md §3), with what each turns on.
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
	resourcesSchema = engine.NewSchema("Resources",
		engine.Field{Name: "cpu", Type: engine.IntOf(CPU), Doc: "milli-cores"},
		engine.Field{Name: "memory", Type: engine.IntOf(Memory), Doc: "bytes"})

	policySchema = engine.NewSchema("Policy",
		engine.Field{Name: "mode", Type: engine.String, Doc: "Auto or Off"},
		engine.Field{Name: "minAllowed", Type: engine.RecordOf(resourcesSchema)},
		engine.Field{Name: "maxAllowed", Type: engine.RecordOf(resourcesSchema)},
		engine.Field{Name: "controlledResources", Type: engine.ListOf(engine.String)},
		engine.Field{Name: "controlledValues", Type: engine.String, Doc: "RequestsAndLimits or RequestsOnly"},
		engine.Field{Name: "oomBumpUpRatio", Type: engine.Double, Doc: "as written, also with gate PerVPAConfig off; likewise the three below"},
		engine.Field{Name: "oomMinBumpUp", Type: engine.IntOf(Memory), Doc: "bytes"},
		engine.Field{Name: "memoryAggregationInterval", Type: engine.IntOf(Duration), Doc: "in either spelling"},
		engine.Field{Name: "memoryAggregationIntervalCount", Type: engine.Int},
		engine.Field{Name: "memoryPerCPU", Type: engine.IntOf(Memory), Doc: "bytes that go with one core, as written, also with gate MemoryPerCPURatio off"},
		engine.Field{Name: "requestToLimitRatio", Type: engine.RecordOf(policyRatiosSchema), Doc: "how limits are to follow requests, in either spelling, also with gate RequestToLimitRatio off"},
		engine.Field{Name: "startupBoost", Type: engine.RecordOf(boostSchema), Doc: "the container's own, also with gate CPUStartupBoost off"})

	stanzaSchema = engine.NewSchema("ResourceStanza",
		engine.Field{Name: "requests", Type: engine.RecordOf(resourcesSchema)},
		engine.Field{Name: "limits", Type: engine.RecordOf(resourcesSchema)})

	requirementSchema = engine.NewSchema("EvictionRequirement",
		engine.Field{Name: "cpu", Type: engine.Bool, Doc: "it names CPU"},
		engine.Field{Name: "memory", Type: engine.Bool, Doc: "it names memory"},
		engine.Field{Name: "change", Type: engine.String, Doc: "TargetHigherThanRequests or TargetLowerThanRequests"})

	vpaSchema = engine.NewSchema("VPA",
		engine.Field{Name: "updateMode", Type: engine.String, Doc: "as written; unset without updatePolicy"},
		engine.Field{Name: "minReplicas", Type: engine.Int},
		engine.Field{Name: "evictAfterOOM", Type: engine.IntOf(Duration), Doc: "evictAfterOOMSeconds, also with gate PerVPAConfig off"},
		engine.Field{Name: "startupBoost", Type: engine.RecordOf(boostSchema), Doc: "that of the VPA as a whole, also with gate CPUStartupBoost off"},
		engine.Field{Name: "recommended", Type: engine.Bool, Doc: "its status has a recommendation, be it for no container"},
		engine.Field{Name: "boosts", Type: engine.Bool, Doc: "the VPA or one of its container policies has a startup boost"},
		engine.Field{Name: "evictionRequirements", Type: engine.ListOf(engine.RecordOf(requirementSchema)), Doc: "empty when there are none"})

	killedSchema = engine.NewSchema("OutOfMemory",
		engine.Field{Name: "lasted", Type: engine.IntOf(Duration), Doc: "from its start to its end"},
		engine.Field{Name: "age", Type: engine.IntOf(Duration), Doc: "since its end"})

	comparedSchema = engine.NewSchema("ComparedContainer",
		engine.Field{Name: "name", Type: engine.String},
		engine.Field{Name: "hasRecommendation", Type: engine.Bool, Doc: "the VPA has a recommendation for it"},
		engine.Field{Name: "seenByAdmission", Type: engine.Bool, Doc: "admission saw it, or did not say what it saw (annotation vpaObservedContainers)"},
		engine.Field{Name: "mode", Type: engine.String, Doc: "that of its policy: Auto or Off; unset without one"},
		engine.Field{Name: "oom", Type: engine.RecordOf(killedSchema), Doc: "how it ended last, where it ran out of memory"},
		engine.Field{Name: "requests", Type: engine.RecordOf(resourcesSchema), Doc: "what the node granted, else what the spec asks for"},
		engine.Field{Name: "target", Type: engine.RecordOf(resourcesSchema), Doc: "what the pod would be given"},
		engine.Field{Name: "withheld", Type: engine.Bool, Doc: "a part of the recommendation is not applied, because it cannot be right (rule set ceilings)"},
		engine.Field{Name: "lowerBound", Type: engine.RecordOf(resourcesSchema)},
		engine.Field{Name: "upperBound", Type: engine.RecordOf(resourcesSchema)})

	comparedPodSchema = engine.NewSchema("ComparedPod",
		engine.Field{Name: "requests", Type: engine.RecordOf(resourcesSchema), Doc: "what the node granted, else what the spec asks for"},
		engine.Field{Name: "target", Type: engine.RecordOf(resourcesSchema), Doc: "what the pod would be given"},
		engine.Field{Name: "withheld", Type: engine.Bool, Doc: "a part of the recommendation is not applied, because it cannot be right (rule set ceilings)"},
		engine.Field{Name: "lowerBound", Type: engine.RecordOf(resourcesSchema)},
		engine.Field{Name: "upperBound", Type: engine.RecordOf(resourcesSchema)})

	changeSchema = engine.NewSchema("Change",
		engine.Field{Name: "differs", Type: engine.Bool, Doc: "a new pod would be given other resources than this one has"},
		engine.Field{Name: "qosClass", Type: engine.Bool, Doc: "the pod would be of another QoS class, which no resize can make of it"},
		engine.Field{Name: "restarts", Type: engine.Bool, Doc: "a resize would restart one of its containers (resizePolicy RestartContainer)"},
		engine.Field{Name: "strainsMemory", Type: engine.Bool, Doc: "the node may not be able to do it at once: somewhere more memory would be requested than the pod has, or a memory limit would be lower"},
		engine.Field{Name: "defaulted", Type: engine.String, Doc: "names of containers to which API servers would give defaults of LimitRanges with a resize, because they ask for less than those have; unset where there are none"})

	podBoostSchema = engine.NewSchema("PodBoost",
		engine.Field{Name: "over", Type: engine.Bool, Doc: "that of one of its containers is over"},
		engine.Field{Name: "on", Type: engine.Bool, Doc: "that of one of its containers goes on"})

	prioritySchema = engine.NewSchema("Priority",
		engine.Field{Name: "outsideRecommendedRange", Type: engine.Bool, Doc: "a request is below its lower or above its upper bound"},
		engine.Field{Name: "scaleUp", Type: engine.Bool, Doc: "a target exceeds its request"},
		engine.Field{Name: "resourceDiff", Type: engine.Double, Doc: "relative difference of the pod's totals, summed over resources"})

	orderSchema = engine.NewSchema("Order",
		engine.Field{Name: "first", Type: engine.Int, Doc: "pods with more come first; unset is 0"},
		engine.Field{Name: "then", Type: engine.Double, Doc: "among those, pods with more come first; unset is 0"})

	podSchema = engine.NewSchema("Pod",
		engine.Field{Name: "phase", Type: engine.String},
		engine.Field{Name: "age", Type: engine.IntOf(Duration), Doc: "since status.startTime; unset before the start"},
		engine.Field{Name: "ready", Type: engine.Bool},
		engine.Field{Name: "boosted", Type: engine.Bool, Doc: "admission raised CPU of one of its containers for the start, as an annotation tells (vpaCpuStartupBoost)"})

	groupSchema = engine.NewSchema("Group",
		engine.Field{Name: "configured", Type: engine.Int, Doc: "replicas the owner asks for; unset when that is not known or none"},
		engine.Field{Name: "live", Type: engine.Int, Doc: "pods not terminating"},
		engine.Field{Name: "running", Type: engine.Int, Doc: "live pods that have started"},
		engine.Field{Name: "ready", Type: engine.Int, Doc: "live pods that are ready"},
		engine.Field{Name: "disrupted", Type: engine.Int, Doc: "pods of those running that were evicted or resized in this cycle"},
		engine.Field{Name: "refusals", Type: engine.Int, Doc: "evictions in a row that the API server refused: of any pod for a PodDisruptionBudget or missing permissions, else of this pod"},
		engine.Field{Name: "refusedAge", Type: engine.IntOf(Duration), Doc: "since the cycle of the last of them"},
		engine.Field{Name: "refusedFor", Type: engine.String, Doc: "why the last of them was refused: Budget (a PodDisruptionBudget), or as in attempt.refused"},
		engine.Field{Name: "refusedMessage", Type: engine.String, Doc: "what the API server said to it"},
		engine.Field{Name: "resizeRefusals", Type: engine.Int, Doc: "resizes in a row that the API server refused, and that were not followed by an eviction: of any pod for missing permissions, else of this pod"},
		engine.Field{Name: "resizeRefusedAge", Type: engine.IntOf(Duration), Doc: "since the cycle of the last of them"},
		engine.Field{Name: "resizeRefusedFor", Type: engine.String, Doc: "why the last of them was refused, as in attempt.refused"},
		engine.Field{Name: "resizeRefusedMessage", Type: engine.String, Doc: "what the API server said to it"},
		engine.Field{Name: "unchanged", Type: engine.Int, Doc: "pods in a row that were evicted, and whose successors came with the resources that those had had"},
		engine.Field{Name: "unchangedAge", Type: engine.IntOf(Duration), Doc: "since the last of them was evicted"})

	resizeSchema = engine.NewSchema("Resize",
		engine.Field{Name: "status", Type: engine.String, Doc: "empty, Sent (the node has not told anything of it yet), InProgress, Deferred, Infeasible, Error or Unknown"},
		engine.Field{Name: "age", Type: engine.IntOf(Duration), Doc: "since the updater first saw this pod being resized, or since its node tells of it, whichever is longer"},
		engine.Field{Name: "message", Type: engine.String, Doc: "what the node says about it"},
		engine.Field{Name: "requested", Type: engine.RecordOf(resourcesSchema), Doc: "what the pod as a whole requests by it, as the pod's spec has it; unset without one"},
		engine.Field{Name: "wanted", Type: engine.RecordOf(resourcesSchema), Doc: "what it would request by a resize that was sent now; unset without one"},
		engine.Field{Name: "differs", Type: engine.Bool, Doc: "a resize that was sent now would ask for other CPU or memory somewhere"},
		engine.Field{Name: "raisesMemoryLimit", Type: engine.Bool, Doc: "it would ask for a higher memory limit somewhere"},
		engine.Field{Name: "replaced", Type: engine.Int, Doc: "how many resizes the updater has sent over others since the pod was last without one"},
		engine.Field{Name: "replacedAge", Type: engine.IntOf(Duration), Doc: "since the cycle of the last of them"})

	admissionSchema = engine.NewSchema("Admission",
		engine.Field{Name: "alive", Type: engine.Bool, Doc: "the admission controller renews its status lease, or nobody asked"},
		engine.Field{Name: "refusal", Type: engine.String, Doc: "why pod.validate would refuse to create the pod anew; unset where it would not"},
		engine.Field{Name: "ignored", Type: engine.String, Doc: "why pod.admit would leave a new pod as it is; unset where it would not"})

	besideSchema = engine.NewSchema("OtherVPA",
		engine.Field{Name: "name", Type: engine.String},
		engine.Field{Name: "updateMode", Type: engine.String, Doc: "as written; unset without updatePolicy"})

	hpaSchema = engine.NewSchema("HPA",
		engine.Field{Name: "name", Type: engine.String},
		engine.Field{Name: "cpu", Type: engine.Bool, Doc: "it scales on CPU"},
		engine.Field{Name: "memory", Type: engine.Bool, Doc: "it scales on memory"})

	attemptSchema = engine.NewSchema("Attempt",
		engine.Field{Name: "refused", Type: engine.String, Doc: "why the API server refused the resize tried a moment ago: NodeCapacity, Quota, NotSupported, Invalid, Conflict, NotAnswered, Gone, NotPermitted or Forbidden; empty = it did not"},
		engine.Field{Name: "message", Type: engine.String, Doc: "what it said"},
		engine.Field{Name: "infeasible", Type: engine.Bool, Doc: "a resize of this pod was found to be more than its node has (AEP-8818)"},
		engine.Field{Name: "nowLower", Type: engine.Bool, Doc: "less CPU or memory would be requested now than that resize did"})
)

// The points. They are read-only after start-up.
var (
	containerVar = engine.Var{Name: "container", Type: engine.String, Doc: "the container's name"}

	besideVars = []engine.Var{
		{Name: "hpas", Type: engine.ListOf(engine.RecordOf(hpaSchema)), Doc: "HorizontalPodAutoscalers of the same target"},
		{Name: "vpas", Type: engine.ListOf(engine.RecordOf(besideSchema)), Doc: "other VPAs of the same target"},
	}
	validatePoint = &engine.Point{Name: VPAValidate, Kind: engine.ValidationPoint, Doc: validateDoc(), Vars: besideVars}
	vpaUpdate     = &engine.Point{
		Name: VPAUpdate, Kind: engine.DecisionPoint,
		Doc:      "Whether a VPA changes running pods at all; run by the updater before pods are given to the oldest VPA that matches.",
		Vars:     []engine.Var{{Name: "vpa", Type: engine.RecordOf(vpaSchema)}},
		Outcomes: []engine.Outcome{{Name: DoApply, Doc: "pods may be given to it"}, {Name: DoIgnore, Doc: "its pods are left alone, or to another VPA"}},
		FailSafe: DoIgnore,
	}
	podAdmit = &engine.Point{
		Name: PodAdmit, Kind: engine.DecisionPoint,
		Doc:      "Whether a VPA changes new pods; run by the webhook, and by the updater before it evicts a pod.",
		Vars:     []engine.Var{{Name: "vpa", Type: engine.RecordOf(vpaSchema)}},
		Outcomes: []engine.Outcome{{Name: DoApply, Doc: "set resources"}, {Name: DoIgnore, Doc: "admit the pod as it is"}},
		FailSafe: DoIgnore,
	}
	podPriority = &engine.Point{
		Name: PodPriority, Kind: engine.StagePoint,
		Doc: "How far a running pod is from its recommendation; run by the updater.",
		Vars: []engine.Var{
			{Name: "containers", Type: engine.ListOf(engine.RecordOf(comparedSchema)), Doc: "all containers of the pod, in their order"},
			{Name: "podLevel", Type: engine.RecordOf(comparedPodSchema), Doc: "the pod as a whole; nothing of it is set for pods without resources at pod level"},
			{Name: "priority", Type: engine.RecordOf(prioritySchema), Writable: true},
			{Name: "order", Type: engine.RecordOf(orderSchema), Writable: true, Doc: "which of a VPA's pods is updated before which; by name where both are equal"},
		},
	}
	podUpdate = &engine.Point{
		Name: PodUpdate, Kind: engine.DecisionPoint,
		Doc: "What to do with a running pod; run by the updater, and again after a refused resize.",
		Vars: []engine.Var{
			{Name: "vpa", Type: engine.RecordOf(vpaSchema)},
			{Name: "pod", Type: engine.RecordOf(podSchema)},
			{Name: "containers", Type: engine.ListOf(engine.RecordOf(comparedSchema)), Doc: "all containers of the pod, in their order"},
			{Name: "podLevel", Type: engine.RecordOf(comparedPodSchema), Doc: "the pod as a whole; nothing of it is set for pods without resources at pod level"},
			{Name: "priority", Type: engine.RecordOf(prioritySchema)},
			{Name: "change", Type: engine.RecordOf(changeSchema), Doc: "what the pod would be given"},
			{Name: "group", Type: engine.RecordOf(groupSchema), Doc: "the pods of the same direct owner"},
			{Name: "resize", Type: engine.RecordOf(resizeSchema), Doc: "a resize under way"},
			{Name: "attempt", Type: engine.RecordOf(attemptSchema), Doc: "resizes that were tried"},
			{Name: "admission", Type: engine.RecordOf(admissionSchema), Doc: "the admission controller"},
		},
		Outcomes: []engine.Outcome{
			{Name: DoSkip, Doc: "nothing to do"},
			{Name: DoWait, Doc: "do nothing now, look again next cycle"},
			{Name: DoEvict, Doc: "evict the pod"},
			{Name: DoInPlace, Doc: "resize the running pod"},
			{Name: DoRememberInfeasible, Doc: "do nothing, and remember that the node cannot give what the resize asked for: attempt.infeasible from now on"},
			{Name: DoSkipInfeasible, Doc: "nothing to do, because the node cannot give what a resize would ask for; counted, and told by an event of the pod"},
		},
		FailSafe: DoSkip,
	}
	podUnboost = &engine.Point{
		Name: PodUnboost, Kind: engine.DecisionPoint,
		Doc: "Whether a running pod is given back the CPU that it had more for its start; run by the updater when such a pod is ready and when a boost is over.",
		Vars: []engine.Var{
			{Name: "pod", Type: engine.RecordOf(podSchema)},
			{Name: "boost", Type: engine.RecordOf(podBoostSchema), Doc: "the startup boosts of its containers, as pod.resources told of them"},
			{Name: "change", Type: engine.RecordOf(changeSchema), Doc: "what the pod would be given"},
			{Name: "group", Type: engine.RecordOf(groupSchema), Doc: "the pods of the same direct owner"},
			{Name: "resize", Type: engine.RecordOf(resizeSchema), Doc: "a resize under way"},
		},
		Outcomes: []engine.Outcome{
			{Name: DoSkip, Doc: "nothing to do"},
			{Name: DoWait, Doc: "do nothing now, look again"},
			{Name: DoInPlace, Doc: "resize the running pod, and take off the annotations of the boosts that are over"},
			{Name: DoInPlaceCPU, Doc: "the same, but memory stays what the pod has"},
		},
		FailSafe: DoSkip,
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

// NewRegistry returns everything the engine must know. objects types the VPA for vpa.validate, pods the pod for pod.validate.
func NewRegistry(objects *schema.Objects, pods engine.ObjectTypes) *engine.Registry {
	r := engine.NewRegistry()
	addUnits(r)
	addFunctions(r)
	addPodFunctions(r)
	for name, doc := range Gates {
		r.AddGate(name, doc)
	}
	r.AddAxis(engine.Axis{Name: "resource", Plural: "resources", Values: []string{"cpu", "memory"}, Doc: "what containers and pods request and are limited in"})
	validatePoint.Objects, validatePod.Objects = objects, pods
	describeDefaults(objects.Root())
	for _, p := range []*engine.Point{
		validatePoint, vpaDefault, usageWindow, usageOOM, containerSelect, containerEstimate, containerRecommend, vpaUpdate, validatePod, podAdmit, podFit, podResources, podPriority, podUpdate, podRefused, podEvicted, podUnboost,
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
