package facts

import (
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/kubectl/pkg/util/qos"

	"github.com/celvpa/celvpa/controllers/slim"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

var (
	prioritySchema = lang.NewSchema("Priority",
		lang.Field{Name: "outsideRecommendedRange", Type: lang.Bool, Doc: "a request is below its lower or above its upper bound"},
		lang.Field{Name: "scaleUp", Type: lang.Bool, Doc: "a target exceeds its request"},
		lang.Field{Name: "resourceDiff", Type: lang.Double, Doc: "relative difference of the pod's totals, summed over resources"},
		lang.Field{Name: "mayEvict", Type: lang.Bool, Doc: "the pod may come to be evicted, so explanations name PodDisruptionBudgets that block it; unset is false"})

	orderSchema = lang.NewSchema("Order",
		lang.Field{Name: "first", Type: lang.Int, Doc: "higher values come first; 0 if unset"},
		lang.Field{Name: "then", Type: lang.Double, Doc: "orders pods with the same first: higher values come first; 0 if unset"})
)

// The points about a running pod.
var (
	podVar        = registry.Var{Name: "pod", Type: lang.RecordOf(podSchema.Schema)}
	containersVar = registry.Var{Name: "containers", Type: lang.ListOf(lang.RecordOf(comparedSchema.Schema)), Doc: "all containers of the pod, in their order"}
	podLevelVar   = registry.Var{Name: "podLevel", Type: lang.RecordOf(comparedPodSchema.Schema), Doc: "the pod as a whole; unset for pods without resources at pod level"}
	changeVar     = registry.Var{Name: "change", Type: lang.RecordOf(changeSchema.Schema), Doc: "what the pod would be given"}
	resizeVar     = registry.Var{Name: "resize", Type: lang.RecordOf(resizeSchema.Schema), Doc: "a resize under way"}

	podPriority = &registry.Point{
		Name: PodPriority, Kind: registry.StagePoint,
		Doc: "How far a running pod is from its recommendation; run by the updater.",
		Vars: []registry.Var{
			vpaVar,
			containersVar,
			podLevelVar,
			{Name: "priority", Type: lang.RecordOf(prioritySchema), Writable: true},
			{Name: "order", Type: lang.RecordOf(orderSchema), Writable: true, Doc: "the order in which a VPA's pods are updated; by name if both are equal"},
		},
	}
	podUpdate = &registry.Point{
		Name: PodUpdate, Kind: registry.DecisionPoint,
		Doc: "What to do with a running pod; run by the updater, and again after a refused resize.",
		Vars: append([]registry.Var{
			vpaVar,
			podVar,
			containersVar,
			podLevelVar,
			{Name: "priority", Type: lang.RecordOf(prioritySchema)},
			changeVar,
			groupVar,
			resizeVar,
			{Name: "attempt", Type: lang.RecordOf(attemptSchema.Schema), Doc: "past resize attempts"},
			{Name: "admission", Type: lang.RecordOf(admissionSchema.Schema), Doc: "the admission controller"},
			clockVar,
			runningNodeVar,
		}, objectVars...),
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
		Vars: append([]registry.Var{
			podVar,
			{Name: "boost", Type: lang.RecordOf(podBoostSchema.Schema), Doc: "the startup boosts of its containers, as pod.resources decided"},
			changeVar,
			groupVar,
			resizeVar,
			clockVar,
			runningNodeVar,
		}, objectVars...),
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

// Priority is how far a pod is from its recommendation.
type Priority struct {
	OutsideRecommendedRange bool
	ScaleUp                 bool
	ResourceDiff            float64
	MayEvict                bool // it may come to be evicted

	// Pods with a greater First are updated first; Then breaks ties.
	First int64
	Then  float64
}

// PodState is one running pod as the updater sees it.
type PodState struct {
	Pod     *corev1.Pod
	VPA     *vpav1.VerticalPodAutoscaler
	Change  PodChange // from ResourcesForPod, with its bounds
	Now     time.Time
	Resize  Resize
	Attempt Attempt
	Resized time.Time // when this process last resized the pod; zero = it did not
	// Refused evictions and resizes of this pod, for reasons that may apply to it alone.
	Evictions, Resizes Refusals
	NoAdmission        string  // why admission counts as down; empty = up
	Refusal            string  // why admission would refuse a replacement; empty = it would not
	Ignored            string  // why admission would not change a new pod; empty = it would
	Other              string  // the VPA by which admission would change a new pod, if that is not VPA; else empty
	Defaulted          string  // containers that a resize would give LimitRange defaults; empty = none
	Objects            Objects // nil = none are known

	// Bound once; no rule may change them. Nil is not bound yet.
	vpa, admission             *lang.Record
	compared                   *lang.List // the containers
	podLevel, priority, change *lang.Record
}

// Rank runs pod.priority.
func (s *PodState) Rank(plan *engine.Plan, trace *engine.Trace) (Priority, []*engine.RuleError) {
	s.compare(plan)
	s.bindVPA()
	s.priority = prioritySchema.New().SetBool("outsideRecommendedRange", false).SetBool("scaleUp", false).SetDouble("resourceDiff", 0)
	order := orderSchema.New()
	f := podPriority.NewFacts().Set("vpa", s.vpa).Set("containers", s.compared).Set("podLevel", s.podLevel).Set("priority", s.priority).Set("order", order)
	failed := plan.RunStages(PodPriority, f, trace)
	first, _ := order.Int("first")
	return Priority{
		First: first, Then: order.Double("then"),
		OutsideRecommendedRange: s.priority.Bool("outsideRecommendedRange"),
		ScaleUp:                 s.priority.Bool("scaleUp"),
		ResourceDiff:            s.priority.Double("resourceDiff"),
		MayEvict:                s.priority.Bool("mayEvict"),
	}, failed
}

// compared is a container or the pod level beside its recommendation.
type compared struct {
	of     *ResourceChange
	has    corev1.ResourceList // requests
	name   string
	seen   bool
	policy *vpav1.ContainerResourcePolicy
	oom    *lang.Record
}

var (
	comparedSchema = lang.Bind("ComparedContainer", append([]lang.FieldFrom[compared]{
		lang.TextFrom("name", "", func(c compared) string { return c.name }),
		lang.BoolFrom("hasRecommendation", "the VPA has a recommendation for it", func(c compared) bool { return c.of.Known }),
		lang.BoolFrom("seenByAdmission", "admission saw it (annotation vpaObservedContainers), or the annotation is missing", func(c compared) bool { return c.seen }),
		lang.TextIf("mode", "that of its policy: Auto or Off; unset without one", func(c compared) (vpav1.ContainerScalingMode, bool) {
			if c.policy == nil {
				return "", false
			}
			return given(c.policy.Mode)
		}),
		lang.RecordFrom("oom", killedSchema.Schema, "how it ended last, where it ran out of memory", func(c compared) *lang.Record { return c.oom }),
	}, comparedFields...)...)

	comparedPodSchema = lang.Bind("ComparedPod", comparedFields...)

	comparedFields = []lang.FieldFrom[compared]{
		lang.RecordFrom("requests", resourcesSchema.Schema, "what the node granted, else what the spec asks for", func(c compared) *lang.Record { return Resources(c.has) }),
		lang.RecordFrom("target", resourcesSchema.Schema, "what the pod would be given", func(c compared) *lang.Record { return c.of.Target }),
		lang.TextIf("withheld", "why part of the recommendation is not applied (by ceilings, or because an API server would refuse the pod); unset if all of it is", func(c compared) (string, bool) { return c.of.Withheld, c.of.Withheld != "" }),
		lang.RecordFrom("lowerBound", resourcesSchema.Schema, "", func(c compared) *lang.Record { return c.of.LowerBound }),
		lang.RecordFrom("upperBound", resourcesSchema.Schema, "", func(c compared) *lang.Record { return c.of.UpperBound }),
	}
)

// compare binds current and recommended resources.
func (s *PodState) compare(plan *engine.Plan) {
	policies := PolicyRulesOf(plan)
	containers := make([]*lang.Record, 0, len(s.Change.Containers))
	observed := observedContainers(s.Pod)
	for i := range s.Change.Containers {
		c := &s.Change.Containers[i]
		requests, _ := CurrentResources(s.Pod, c.Index)
		containers = append(containers, comparedSchema.Of(compared{
			of: &c.ResourceChange, has: requests, name: c.Name,
			seen:   observed == nil || slices.Contains(observed, c.Name),
			policy: policies.For(s.VPA.Spec.ResourcePolicy, c.Name),
			oom:    s.outOfMemory(c.Name),
		}))
	}
	s.compared = lang.Records(containers)
	s.podLevel = comparedPodSchema.Empty()
	if c := s.Change.Pod; c != nil {
		requests, _, _ := podResourcesOf(s.Pod)
		s.podLevel = comparedPodSchema.Of(compared{of: c, has: requests})
	}
}

// killed is a container's OOM kill.
type killed struct {
	end *corev1.ContainerStateTerminated
	now time.Time
}

var killedSchema = lang.Bind("OutOfMemory",
	lang.IntFrom("lasted", lang.IntOf(Duration), "from its start to its end", func(k killed) time.Duration { return k.end.FinishedAt.Sub(k.end.StartedAt.Time) }),
	lang.IntFrom("age", lang.IntOf(Duration), "since its end", func(k killed) time.Duration { return k.now.Sub(k.end.FinishedAt.Time) }))

// outOfMemory binds a container's last OOM kill; nil without one.
func (s *PodState) outOfMemory(container string) *lang.Record {
	for i := range s.Pod.Status.ContainerStatuses {
		status := &s.Pod.Status.ContainerStatuses[i]
		if end := status.LastTerminationState.Terminated; status.Name == container && end != nil && end.Reason == ReasonOOMKilled {
			return killedSchema.Of(killed{end, s.Now})
		}
	}
	return nil
}

// ReasonOOMKilled is the reason that kubelets give for a container that was killed for its memory.
const ReasonOOMKilled = "OOMKilled"

// Admit runs pod.admit: whether admission changes new pods of the VPA.
func (s *PodState) Admit(plan *engine.Plan, trace *engine.Trace) engine.Verdict {
	s.bindVPA()
	return plan.Decide(PodAdmit, podAdmit.NewFacts().Set("vpa", s.vpa), trace)
}

// Decide runs pod.update. Call Rank first.
func (s *PodState) Decide(plan *engine.Plan, group Group, trace *engine.Trace) engine.Verdict {
	group.Evictions, group.Resizes = group.Evictions.or(s.Evictions), group.Resizes.or(s.Resizes)
	s.bindCommon()
	attempt := notAttempted
	if s.Attempt != (Attempt{}) {
		attempt = attemptSchema.Of(&s.Attempt)
	}
	f := podUpdate.NewFacts().
		Set("vpa", s.vpa).
		Set("pod", podSchema.Of(s)).
		Set("containers", s.compared).
		Set("podLevel", s.podLevel).
		Set("priority", s.priority).
		Set("change", s.change).
		Set("group", groupSchema.Of(group)).
		Set("resize", s.resizeNow()).
		Set("attempt", attempt).
		Set("admission", s.admission).
		Set("clock", types.Int(s.Now.Unix()))
	return plan.Decide(PodUpdate, bindObjects(f, s.Objects, plan, PodUpdate, s.VPA, s.Pod), trace)
}

// bindCommon binds the facts that a pod like this one has not left.
func (s *PodState) bindCommon() {
	s.bindVPA()
	if s.admission == nil {
		s.admission = admissionSchema.Of(s)
	}
	s.bindChange()
}

func (s *PodState) bindVPA() {
	if s.vpa == nil {
		s.vpa = s.Change.vpa
	}
	if s.vpa == nil { // no rules changed the pod
		s.vpa = VPA(s.VPA)
	}
}

func (s *PodState) bindChange() {
	if s.change == nil {
		s.change = changeSchema.Of(changeOf(s.Pod, s.Change, s.Defaulted))
	}
}

// notAttempted is the attempt of most pods.
var notAttempted = attemptSchema.Of(&Attempt{})

var admissionSchema = lang.Bind("Admission",
	lang.BoolFrom("alive", "the admission controller renews its status lease, or the lease is not checked", func(s *PodState) bool { return s.NoAdmission == "" }),
	lang.TextIf("refusal", "why pod.validate would refuse the replacement pod; unset if it would not", func(s *PodState) (string, bool) { return s.Refusal, s.Refusal != "" }),
	lang.TextIf("ignored", "why pod.admit would not change the replacement pod; unset if it would", func(s *PodState) (string, bool) { return s.Ignored, s.Ignored != "" }),
	lang.TextIf("other", "the VPA by which admission would change the replacement pod, if that is another one; unset otherwise", func(s *PodState) (string, bool) { return s.Other, s.Other != "" }))

var podSchema = lang.Bind("Pod",
	lang.TextFrom("phase", "", func(s *PodState) corev1.PodPhase { return s.Pod.Status.Phase }),
	lang.IntIf("age", lang.IntOf(Duration), "since status.startTime; unset before that", func(s *PodState) (time.Duration, bool) {
		start := s.Pod.Status.StartTime
		if start == nil {
			return 0, false
		}
		return s.Now.Sub(start.Time), true
	}),
	labelsFrom("labels", "by key", func(s *PodState) map[string]string { return s.Pod.Labels }),
	labelsFrom("annotations", "by key: those whose key and value together have at most 256 bytes, and VPA's own but vpaUpdates",
		func(s *PodState) map[string]string { return slim.Annotations(s.Pod.Annotations) }),
	lang.TextIf("priorityClass", "spec.priorityClassName; unset without one",
		func(s *PodState) (string, bool) {
			return s.Pod.Spec.PriorityClassName, s.Pod.Spec.PriorityClassName != ""
		}),
	lang.TextFrom("qosClass", "Guaranteed, Burstable or BestEffort", func(s *PodState) corev1.PodQOSClass { return qos.GetPodQOS(s.Pod) }),
	lang.RecordFrom("owner", ownerSchema.Schema, "its direct owner, such as a ReplicaSet or a StatefulSet; unset without one", func(s *PodState) *lang.Record {
		if owner := target.ControllerOf(s.Pod.OwnerReferences); owner != nil {
			return ownerSchema.Of(owner)
		}
		return nil
	}),
	lang.IntIf("resizedAge", lang.IntOf(Duration), "since this process last resized it in place; unset if it did not", func(s *PodState) (time.Duration, bool) {
		return max(0, s.Now.Sub(s.Resized)), !s.Resized.IsZero()
	}),
	lang.BoolFrom("ready", "", func(s *PodState) bool { return podutils.IsPodReady(s.Pod) }),
	lang.BoolFrom("boosted", "one of its containers has a startup boost (annotation vpaCpuStartupBoost)",
		func(s *PodState) bool { return Boosted(s.Pod) }),
	lang.BoolIf("podLevel", "it has CPU or memory at pod level (spec.resources); unset if not", func(s *PodState) (bool, bool) {
		_, _, ok := podResourcesOf(s.Pod)
		return ok, ok
	}))

var ownerSchema = lang.Bind("Owner",
	lang.TextFrom("kind", "", func(o *metav1.OwnerReference) string { return o.Kind }),
	lang.TextFrom("name", "", func(o *metav1.OwnerReference) string { return o.Name }))

var podBoostSchema = lang.Bind("PodBoost",
	lang.BoolFrom("over", "the boost of one of its containers is over", func(c *PodChange) bool {
		return slices.ContainsFunc(c.Containers, func(c ContainerChange) bool { return c.Boost.Over })
	}),
	lang.BoolFrom("on", "the boost of one of its containers continues", func(c *PodChange) bool {
		return slices.ContainsFunc(c.Containers, func(c ContainerChange) bool { return c.Boost.On })
	}))

// DecideUnboost runs pod.unboost: whether to end the pod's startup boost.
func (s *PodState) DecideUnboost(plan *engine.Plan, group Group, trace *engine.Trace) engine.Verdict {
	s.bindChange()
	f := podUnboost.NewFacts().
		Set("pod", podSchema.Of(s)).
		Set("boost", podBoostSchema.Of(&s.Change)).
		Set("change", s.change).
		Set("group", groupSchema.Of(group)).
		Set("resize", s.resizeNow()).
		Set("clock", types.Int(s.Now.Unix()))
	return plan.Decide(PodUnboost, bindObjects(f, s.Objects, plan, PodUnboost, s.VPA, s.Pod), trace)
}

// AnnotationStartupBoost + container name records the resources before a boost (UPSTREAM.md §1.6).
const AnnotationStartupBoost = "vpaCpuStartupBoost/"

// Boosted reports whether any container has such an annotation.
func Boosted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		_, on := pod.Annotations[AnnotationStartupBoost+c.Name]
		return on
	})
}

// AnnotationObservedContainers lists the containers that admission saw (UPSTREAM.md §1.6).
const AnnotationObservedContainers = "vpaObservedContainers"

// observedContainers returns nil if the annotation is missing or malformed (UPSTREAM.md §5.2).
func observedContainers(pod *corev1.Pod) []string {
	text, ok := pod.Annotations[AnnotationObservedContainers]
	if !ok {
		return nil
	}
	if text == "" {
		return []string{} // not nil: the list is valid and empty
	}
	names := strings.Split(text, ", ")
	for _, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return nil
		}
	}
	return names
}
