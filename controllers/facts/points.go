// Package facts defines what policy rules know about vertical pod autoscaling: units, feature
// gates, functions, and points with their facts. The recommender, the updater and the webhook bind
// Kubernetes objects here, so all three run the same policy on the same facts.
//
// No policy may live here: a fact says what is, never what to do about it.
package facts

import (
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

// Facts of several points.
var (
	containerVar = registry.Var{Name: "container", Type: lang.String, Doc: "the container's name"}
	policyVar    = registry.Var{Name: "policy", Type: lang.RecordOf(policySchema.Schema), Doc: "the container's effective policy"}
	vpaVar       = registry.Var{Name: "vpa", Type: lang.RecordOf(vpaSchema.Schema)}
	clockVar     = registry.Var{Name: "clock", Type: lang.IntOf(Time), Doc: "when the updater's cycle began; offline, the time of --now; in a backtest, the replayed one"}
	groupVar     = registry.Var{Name: "group", Type: lang.RecordOf(groupSchema.Schema), Doc: "the pods of the same direct owner"}
)

// NewRegistry returns all the engine must know; objects and pods type what validations read.
func NewRegistry(objects *schema.Objects, pods registry.ObjectTypes) *registry.Registry {
	r := registry.New()
	addUnits(r)
	addFunctions(r)
	addPodFunctions(r)
	addTimeFunctions(r)
	for name, doc := range Gates {
		r.AddGate(name, doc)
	}
	r.AddAxis(lang.Axis{Name: "resource", Plural: "resources", Values: []string{"cpu", "memory"}, Doc: "the resources of containers and pods"})
	validatePoint.Objects, validatePod.Objects = objects, pods
	describeDefaults(objects.Root())
	for _, p := range []*registry.Point{
		validatePoint, vpaDefault, vpaUpdate, vpaOrder,
		usageWindow, usageOOM, containerPolicy, containerSelect, containerEstimate, containerRecommend, podRecommend,
		validatePod, podAdmit, podFit, podResources, podPriority, podUpdate, podRefused, podEvicted, podUnboost,
	} {
		r.AddPoint(p)
	}
	return r
}
