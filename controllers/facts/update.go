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

// Group counts the pods of one direct owner, e.g. a ReplicaSet.
type Group struct {
	Configured int // replicas the owner asks for; 0 = not known
	Live       int // pods not terminating
	Running    int // live pods that have started
	Disrupted  int // pods of those running that were evicted or resized in this cycle
}

func (g Group) record() *engine.Record {
	r := groupSchema.New().SetInt("live", int64(g.Live)).SetInt("running", int64(g.Running)).SetInt("disrupted", int64(g.Disrupted))
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

// PodState is one running pod as the updater sees it.
type PodState struct {
	Pod          *corev1.Pod
	VPA          *vpav1.VerticalPodAutoscaler
	Change       PodChange // from ResourcesForPod, with its bounds
	Now          time.Time
	ResizeStatus string        // empty, InProgress, Deferred, Infeasible, Error or Unknown
	ResizeAge    time.Duration // since the updater first saw the resize
	Refused      string        // the API server's answer to the resize just tried; empty = not tried or accepted
	NoAdmission  string        // why the admission controller is taken for dead; empty = it is alive

	compared []*engine.Record
	priority *engine.Record
}

// Rank runs pod.priority.
func (s *PodState) Rank(plan *engine.Plan, trace *engine.Trace) (Priority, []*engine.RuleError) {
	s.compared = nil
	observed := observedContainers(s.Pod)
	for i := range s.Change.Containers {
		c := &s.Change.Containers[i]
		if !c.Known {
			continue
		}
		requests, _ := CurrentResources(s.Pod, c.Index)
		s.compared = append(s.compared, comparedSchema.New().SetString("name", c.Name).
			SetBool("observed", observed == nil || slices.Contains(observed, c.Name)).
			SetRecord("requests", Resources(requests)).SetRecord("target", c.Target).
			SetRecord("lowerBound", c.LowerBound).SetRecord("upperBound", c.UpperBound))
	}
	s.priority = prioritySchema.New().SetBool("outsideRecommendedRange", false).SetBool("scaleUp", false).SetDouble("resourceDiff", 0)
	order := orderSchema.New()
	f := podPriority.NewFacts().Set("containers", engine.Records(s.compared)).Set("priority", s.priority).Set("order", order)
	failed := plan.RunStages(PodPriority, f, trace)
	first, _ := order.Int("first")
	return Priority{
		First: first, Then: order.Double("then"),
		OutsideRecommendedRange: s.priority.Bool("outsideRecommendedRange"),
		ScaleUp:                 s.priority.Bool("scaleUp"),
		ResourceDiff:            s.priority.Double("resourceDiff"),
	}, failed
}

// Decide runs pod.update. Rank must have run before.
func (s *PodState) Decide(plan *engine.Plan, group Group, trace *engine.Trace) engine.Verdict {
	pod := podSchema.New().SetString("phase", string(s.Pod.Status.Phase)).SetBool("boosted", boosted(s.Pod))
	if start := s.Pod.Status.StartTime; start != nil {
		pod.SetInt("age", int64(s.Now.Sub(start.Time)))
	}
	f := podUpdate.NewFacts().
		Set("vpa", VPA(s.VPA)).
		Set("pod", pod).
		Set("containers", engine.Records(s.compared)).
		Set("priority", s.priority).
		Set("group", group.record()).
		Set("resize", resizeSchema.New().SetString("status", s.ResizeStatus).SetInt("age", int64(s.ResizeAge))).
		Set("attempt", attemptSchema.New().SetBool("refused", s.Refused != "").SetString("message", s.Refused)).
		Set("admission", admissionSchema.New().SetBool("alive", s.NoAdmission == ""))
	return plan.Decide(PodUpdate, f, trace)
}

// AnnotationStartupBoost goes before the name of a container and tells what it had before its CPU was boosted
// (UPSTREAM.md §1.6).
const AnnotationStartupBoost = "vpaCpuStartupBoost/"

// boosted reports whether a pod has such an annotation.
func boosted(pod *corev1.Pod) bool {
	for name := range pod.Annotations {
		if strings.HasPrefix(name, AnnotationStartupBoost) {
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
	names := strings.Split(text, ", ")
	for _, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return nil
		}
	}
	return names
}
