package facts

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Group counts the pods of one direct owner, e.g. a ReplicaSet, and tells what came of evicting some of them.
type Group struct {
	Configured int // replicas the owner asks for; 0 = not known
	Live       int // pods not terminating
	Running    int // live pods that have started
	Ready      int // live pods that are ready
	Disrupted  int // pods of those running that were evicted or resized in this cycle

	Evictions, Resizes Refusals // of any of its pods, for a reason that holds for all of them

	Unchanged    int           // pods in a row that were evicted, and whose successors came with the resources that those had had
	UnchangedAge time.Duration // since the last of them was evicted
}

// Refusals are answers of the API server in a row, with nothing carried out in between. Those to resizes that an eviction followed are
// not among them.
type Refusals struct {
	Times   int
	Age     time.Duration // since the last of them
	Last    Refusal
	Message string // what the API server said the last time
}

// or returns others where there are none.
func (r Refusals) or(others Refusals) Refusals {
	if r.Times == 0 {
		return others
	}
	return r
}

func (g Group) record() *engine.Record {
	r := groupSchema.New().SetInt("live", int64(g.Live)).SetInt("running", int64(g.Running)).SetInt("ready", int64(g.Ready)).SetInt("disrupted", int64(g.Disrupted)).
		SetInt("refusals", int64(g.Evictions.Times)).SetInt("refusedAge", int64(g.Evictions.Age)).
		SetString("refusedFor", string(g.Evictions.Last)).SetString("refusedMessage", g.Evictions.Message).
		SetInt("resizeRefusals", int64(g.Resizes.Times)).SetInt("resizeRefusedAge", int64(g.Resizes.Age)).
		SetString("resizeRefusedFor", string(g.Resizes.Last)).SetString("resizeRefusedMessage", g.Resizes.Message).
		SetInt("unchanged", int64(g.Unchanged)).SetInt("unchangedAge", int64(g.UnchangedAge))
	if g.Configured > 0 {
		r.SetInt("configured", int64(g.Configured))
	}
	return r
}

// Priority says how far a pod is from its recommendation.
type Priority struct {
	OutsideRecommendedRange bool
	ScaleUp                 bool
	ResourceDiff            float64

	// Pods with a greater First are updated first, among those the ones with a greater Then.
	First int64
	Then  float64
}

// Attempt is a resize that was tried.
type Attempt struct {
	// Refused is why the API server refused the resize tried a moment ago; empty = none was tried, or it was accepted.
	Refused Refusal
	Message string // what the API server said
	// Infeasible: one tried before was found to be more than the node has (AEP-8818), and NowLower that less is wanted now.
	Infeasible, NowLower bool
}

// Refusal is a kind of answer to a resize or to an eviction.
type Refusal string

// The kinds of answers.
const (
	RefusedNodeCapacity Refusal = "NodeCapacity" // more than the node has (Kubernetes 1.36 and newer)
	RefusedBudget       Refusal = "Budget"       // a PodDisruptionBudget is against an eviction
	RefusedQuota        Refusal = "Quota"        // more than a ResourceQuota or a LimitRange of the namespace allows
	RefusedNotSupported Refusal = "NotSupported" // the node, or the API server, cannot resize such pods
	RefusedInvalid      Refusal = "Invalid"      // the pod may not be changed so
	RefusedConflict     Refusal = "Conflict"     // the pod was changed meanwhile
	RefusedNotAnswered  Refusal = "NotAnswered"  // the API server did not answer in time, or is too busy
	RefusedGone         Refusal = "Gone"         // there is no such pod any more
	RefusedNotPermitted Refusal = "NotPermitted" // this process may not resize pods
	RefusedForbidden    Refusal = "Forbidden"    // an admission policy is against it, or something else is
)

// PodState is one running pod as the updater sees it.
type PodState struct {
	Pod     *corev1.Pod
	VPA     *vpav1.VerticalPodAutoscaler
	Change  PodChange // from ResourcesForPod, with its bounds
	Now     time.Time
	Resize  Resize
	Attempt Attempt
	// Evictions and Resizes are those of this pod that were refused, for a reason that may hold for it alone.
	Evictions, Resizes Refusals
	NoAdmission        string // why the admission controller is taken for dead; empty = it is alive
	Refusal            string // why admission would refuse to create the pod anew; empty = it would not
	Ignored            string // why admission would leave a new pod as it is; empty = it would not
	Defaulted          string // containers that LimitRanges would give defaults with a resize; empty = none

	compared []*engine.Record
	podLevel *engine.Record
	priority *engine.Record
	change   *engine.Record
}

// Rank runs pod.priority.
func (s *PodState) Rank(plan *engine.Plan, trace *engine.Trace) (Priority, []*engine.RuleError) {
	s.compare()
	s.priority = prioritySchema.New().SetBool("outsideRecommendedRange", false).SetBool("scaleUp", false).SetDouble("resourceDiff", 0)
	order := orderSchema.New()
	f := podPriority.NewFacts().Set("containers", engine.Records(s.compared)).Set("podLevel", s.podLevel).Set("priority", s.priority).Set("order", order)
	failed := plan.RunStages(PodPriority, f, trace)
	first, _ := order.Int("first")
	return Priority{
		First: first, Then: order.Double("then"),
		OutsideRecommendedRange: s.priority.Bool("outsideRecommendedRange"),
		ScaleUp:                 s.priority.Bool("scaleUp"),
		ResourceDiff:            s.priority.Double("resourceDiff"),
	}, failed
}

// compare binds what the pod has and what it would be given.
func (s *PodState) compare() {
	s.compared = make([]*engine.Record, 0, len(s.Change.Containers))
	observed := observedContainers(s.Pod)
	for i := range s.Change.Containers {
		c := &s.Change.Containers[i]
		requests, _ := CurrentResources(s.Pod, c.Index)
		r := comparedSchema.New().SetString("name", c.Name).SetBool("hasRecommendation", c.Known).SetBool("withheld", c.Withheld).
			SetBool("seenByAdmission", observed == nil || slices.Contains(observed, c.Name)).
			SetRecord("requests", Resources(requests)).SetRecord("target", c.Target).
			SetRecord("lowerBound", c.LowerBound).SetRecord("upperBound", c.UpperBound)
		if p := PolicyFor(s.VPA.Spec.ResourcePolicy, c.Name); p != nil && p.Mode != nil {
			r.SetString("mode", string(*p.Mode))
		}
		if oom := s.outOfMemory(c.Name); oom != nil {
			r.SetRecord("oom", oom)
		}
		s.compared = append(s.compared, r)
	}
	s.podLevel = comparedPodSchema.New()
	if c := s.Change.Pod; c != nil {
		requests, _, _ := podResourcesOf(s.Pod)
		s.podLevel.SetBool("withheld", c.Withheld).SetRecord("requests", Resources(requests)).SetRecord("target", c.Target).SetRecord("lowerBound", c.LowerBound).SetRecord("upperBound", c.UpperBound)
	}
}

// outOfMemory binds how a container ended last where it ran out of memory; nil where it did not.
func (s *PodState) outOfMemory(container string) *engine.Record {
	for i := range s.Pod.Status.ContainerStatuses {
		status := &s.Pod.Status.ContainerStatuses[i]
		if end := status.LastTerminationState.Terminated; status.Name == container && end != nil && end.Reason == reasonOOMKilled {
			return killedSchema.New().SetInt("lasted", int64(end.FinishedAt.Sub(end.StartedAt.Time))).SetInt("age", int64(s.Now.Sub(end.FinishedAt.Time)))
		}
	}
	return nil
}

const reasonOOMKilled = "OOMKilled"

// Decide runs pod.update. Rank must have run before.
func (s *PodState) Decide(plan *engine.Plan, group Group, trace *engine.Trace) engine.Verdict {
	group.Evictions, group.Resizes = group.Evictions.or(s.Evictions), group.Resizes.or(s.Resizes)
	s.bindChange()
	f := podUpdate.NewFacts().
		Set("vpa", VPA(s.VPA)).
		Set("pod", s.pod()).
		Set("containers", engine.Records(s.compared)).
		Set("podLevel", s.podLevel).
		Set("priority", s.priority).
		Set("change", s.change).
		Set("group", group.record()).
		Set("resize", s.resizeNow()).
		Set("attempt", attemptSchema.New().SetString("refused", string(s.Attempt.Refused)).SetString("message", s.Attempt.Message).
			SetBool("infeasible", s.Attempt.Infeasible).SetBool("nowLower", s.Attempt.NowLower)).
		Set("admission", s.admission())
	return plan.Decide(PodUpdate, f, trace)
}

// resizeNow binds a resize under way.
func (s *PodState) resizeNow() *engine.Record {
	r := s.Resize.record()
	if s.Resize.Status != NoResize {
		bindWanted(r, s.Pod, s.Change)
	}
	return r
}

func (s *PodState) bindChange() {
	if s.change != nil {
		return
	}
	s.change = changeOf(s.Pod, s.Change)
	if s.Defaulted != "" {
		s.change.SetString("defaulted", s.Defaulted)
	}
}

func (s *PodState) admission() *engine.Record {
	r := admissionSchema.New().SetBool("alive", s.NoAdmission == "")
	if s.Refusal != "" {
		r.SetString("refusal", s.Refusal)
	}
	if s.Ignored != "" {
		r.SetString("ignored", s.Ignored)
	}
	return r
}

func (s *PodState) pod() *engine.Record {
	pod := podSchema.New().SetString("phase", string(s.Pod.Status.Phase)).SetBool("boosted", Boosted(s.Pod)).SetBool("ready", Ready(s.Pod))
	if start := s.Pod.Status.StartTime; start != nil {
		pod.SetInt("age", int64(s.Now.Sub(start.Time)))
	}
	return pod
}

// DecideUnboost runs pod.unboost: whether the pod is given back the CPU that it had more for its start.
func (s *PodState) DecideUnboost(plan *engine.Plan, group Group, trace *engine.Trace) engine.Verdict {
	s.bindChange()
	over, on := false, false
	for i := range s.Change.Containers {
		boost := &s.Change.Containers[i].Boost
		over, on = over || boost.Over, on || boost.On
	}
	f := podUnboost.NewFacts().
		Set("pod", s.pod()).
		Set("boost", podBoostSchema.New().SetBool("over", over).SetBool("on", on)).
		Set("change", s.change).
		Set("group", group.record()).
		Set("resize", s.resizeNow())
	return plan.Decide(PodUnboost, f, trace)
}

// Ready reports whether a pod is ready.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// AnnotationStartupBoost goes before the name of a container and tells what it had before its CPU was boosted
// (UPSTREAM.md §1.6).
const AnnotationStartupBoost = "vpaCpuStartupBoost/"

// Boosted reports whether a pod has such an annotation for one of its containers.
func Boosted(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		if _, on := pod.Annotations[AnnotationStartupBoost+pod.Spec.Containers[i].Name]; on {
			return true
		}
	}
	return false
}

// AnnotationObservedContainers lists the containers that a pod had when admission saw it, separated by a comma and a
// blank (UPSTREAM.md §1.6).
const AnnotationObservedContainers = "vpaObservedContainers"

// observedContainers reads that annotation; nil when it is missing or not a list of container names (UPSTREAM.md §5.2).
func observedContainers(pod *corev1.Pod) []string {
	text, ok := pod.Annotations[AnnotationObservedContainers]
	if !ok {
		return nil
	}
	if text == "" {
		return []string{} // there were none
	}
	names := strings.Split(text, ", ")
	for _, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return nil
		}
	}
	return names
}
