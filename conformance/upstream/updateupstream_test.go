package upstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/features"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/inplace"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/priority"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/restriction"
	updaterutils "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/utils"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	upstreamapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// standing is one side's assessment of a pod at the start of the cycle.
type standing struct {
	Outside, ScaleUp bool
	Diff             float64
	Unranked         bool   // nothing is said of how far it is from what is recommended
	Eligible         bool   // it is far enough from that, or old enough, and the VPA allows the direction
	Rule             string // of celvpa
}

func (s standing) String() string {
	if s.Unranked {
		return fmt.Sprintf("not ranked %s", s.Rule)
	}
	return fmt.Sprintf("outside %t, scaleUp %t, diff %g, eligible %t %s", s.Outside, s.ScaleUp, s.Diff, s.Eligible, s.Rule)
}

// updateAnswer is what one side does in a cycle.
type updateAnswer struct {
	Panicked string
	Pods     map[string]standing
	Order    []string               // of those that are eligible
	Done     []string               // an action and a pod each, one after the other
	Resized  map[string]*corev1.Pod // pods after their resize
}

// Actions.
const (
	doneEvict    = "evict "
	doneResize   = "resize "
	doneTry      = "try "      // a resize that the API server refuses
	doneRemember = "remember " // that a resize was infeasible
)

func (a *updateAnswer) String() string {
	if a.Panicked != "" {
		return "panics: " + a.Panicked + "\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "does %q\n", a.Done)
	for _, name := range slices.Sorted(mapKeys(a.Pods)) {
		fmt.Fprintf(&out, "  %s: %s\n", name, a.Pods[name])
	}
	fmt.Fprintf(&out, "  order %v\n", a.Order)
	for _, name := range slices.Sorted(mapKeys(a.Resized)) {
		for _, c := range a.Resized[name].Spec.Containers {
			fmt.Fprintf(&out, "  %s resized: %s %s\n", name, c.Name, mustJSON(c.Resources))
		}
	}
	return out.String()
}

// ways change upstream's cycle so that it does what celvpa does.
type ways struct {
	leave           map[string]bool // these pods are not looked at, but count
	anyway          map[string]bool // these pods are updated also where they are well
	evicted         map[string]bool // these pods are evicted, and no resize is tried
	evictInTurn     bool            // evictions take place in the order of pods, not after all resizes
	deferredWaits   bool            // mode InPlace: what is deferred is not sent
	infeasibleWaits bool            // mode InPlace: what the node finds infeasible is remembered, and not sent
	refusalsWait    bool            // what may be taken later, and what is about a pod that is gone, does not lead to an eviction
	qosKnown        bool            // no resize is tried that would change the QoS class
	resizesGoOn     bool            // without the admission controller only evictions stop
}

// upstreamCycle is a cycle of upstream's updater for the pods of one VPA. Its parts are upstream's,
// called in the order of UPSTREAM.md §5.1 and §5.6.
type upstreamCycle struct {
	*updateInput
	ways
	vpa        *upstreamv1.VerticalPodAutoscaler
	mode       upstreamv1.UpdateMode
	limits     limitrange.LimitRangeCalculator
	capping    upstreamapi.RecommendationProcessor
	admission  priority.PodEvictionAdmission
	evictions  restriction.PodsEvictionRestriction
	resizes    restriction.PodsInPlaceRestriction
	infeasible map[types.UID]*upstreamv1.RecommendedPodResources
	out        *updateAnswer
}

func newUpstreamCycle(in updateInput, v *upstreamv1.VerticalPodAutoscaler) *upstreamCycle {
	c := &upstreamCycle{updateInput: &in, vpa: v, mode: upstreamapi.GetUpdateMode(v), limits: limitrange.NewNoopLimitsCalculator(),
		admission: priority.NewScalingDirectionPodEvictionAdmission(), infeasible: map[types.UID]*upstreamv1.RecommendedPodResources{},
		out: &updateAnswer{Pods: map[string]standing{}, Resized: map[string]*corev1.Pod{}}}
	c.capping = upstreamapi.NewCappingRecommendationProcessor(c.limits)
	for name, tried := range in.Infeasible {
		if pod := in.pod(name); pod != nil {
			c.infeasible[pod.UID] = recommendationOf(tried)
		}
	}
	return c
}

// factory counts groups and carries out decisions.
func (c *upstreamCycle) factory() restriction.PodsRestrictionFactory {
	calculators := []patch.Calculator{inplace.NewResourceInPlaceUpdatesCalculator(recommendation.NewProvider(c.limits, c.capping)),
		inplace.NewInPlaceUpdatedCalculator(), inplace.NewUnboostAnnotationCalculator()}
	out := restriction.NewPodsRestrictionFactory(kubeClient{cycle: c}, c.informers(), c.Flags.minReplicas(), c.Flags.tolerance(), calculators, c.Flags.SkipBudget)
	// Upstream cannot be given these from outside its package: the clock, and when it first saw
	// resizes.
	inside(out, "clock", clock.Clock(clocktesting.NewFakeClock(updateNow)))
	times := map[string]time.Time{}
	for name, x := range c.Noticed {
		times["shop/"+name] = updateNow.Add(-x.Age.Duration)
	}
	inside(out, "lastInPlaceAttemptTimeMap", times)
	return out
}

func updateByUpstream(in updateInput, g gates, w ways) (out updateAnswer, err error) {
	if err := setUpstreamGates(g); err != nil {
		return out, fmt.Errorf("setting upstream's gates: %w", err)
	}
	v, err := in.upstreamVPA()
	if err != nil {
		return out, err
	}
	c := newUpstreamCycle(in, v)
	c.ways = w
	defer func() {
		if p := recover(); p != nil {
			out = updateAnswer{Panicked: fmt.Sprint(p)}
		}
	}()
	c.admission.LoopInit(in.Pods, map[*upstreamv1.VerticalPodAutoscaler][]*corev1.Pod{v: in.Pods})
	factory := c.factory()
	groups, owners, err := factory.GetCreatorMaps(in.Pods, v)
	if err != nil {
		return out, fmt.Errorf("counting upstream's groups: %w", err)
	}
	c.evictions, c.resizes = factory.NewPodsEvictionRestriction(groups, owners), factory.NewPodsInPlaceRestriction(groups, owners)
	c.stand()
	c.run()
	return *c.out, nil
}

// recommendationOf converts targets by container to upstream's type.
func recommendationOf(targets map[string]corev1.ResourceList) *upstreamv1.RecommendedPodResources {
	out := &upstreamv1.RecommendedPodResources{}
	for _, name := range slices.Sorted(mapKeys(targets)) {
		out.ContainerRecommendations = append(out.ContainerRecommendations, upstreamv1.RecommendedContainerResources{ContainerName: name, Target: targets[name]})
	}
	return out
}

func (c *upstreamCycle) informers() informers.SharedInformerFactory {
	out := informers.NewSharedInformerFactory(nil, 0)
	for _, o := range c.Owners {
		meta := metav1.ObjectMeta{Namespace: "shop", Name: o.Name}
		var err error
		switch o.Kind {
		case "ReplicaSet":
			err = out.Apps().V1().ReplicaSets().Informer().GetStore().Add(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: o.Replicas}})
		case "StatefulSet":
			err = out.Apps().V1().StatefulSets().Informer().GetStore().Add(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: o.Replicas}})
		case "ReplicationController":
			err = out.Core().V1().ReplicationControllers().Informer().GetStore().Add(&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Replicas: o.Replicas}})
		case "DaemonSet":
			set := &appsv1.DaemonSet{ObjectMeta: meta}
			if o.Replicas != nil {
				set.Status.DesiredNumberScheduled = *o.Replicas
			}
			err = out.Apps().V1().DaemonSets().Informer().GetStore().Add(set)
		}
		if err != nil {
			panic(err) // a fault of the test
		}
	}
	return out
}

func (c *upstreamCycle) calculator() priority.UpdatePriorityCalculator {
	f := c.Flags
	return priority.NewUpdatePriorityCalculator(c.vpa, priority.UpdateConfig{MinChangePriority: f.threshold(), PodLifetimeUpdateThreshold: f.lifetime(),
		EvictAfterOOMThreshold: f.evictAfterOOM()}, c.capping, priority.NewProcessor())
}

// ranked are the pods to update, in order.
func (c *upstreamCycle) ranked(pods []*corev1.Pod) []*corev1.Pod {
	calculator := c.calculator()
	for _, pod := range pods {
		calculator.AddPod(pod, updateNow, c.infeasible)
	}
	sorted := calculator.GetSortedPods(c.admission)
	if len(c.anyway) == 0 {
		return sorted
	}
	calculator = priority.NewUpdatePriorityCalculator(c.vpa, priority.UpdateConfig{EvictAfterOOMThreshold: c.Flags.evictAfterOOM()}, c.capping, priority.NewProcessor())
	for _, pod := range pods {
		if c.anyway[pod.Name] || slices.Contains(sorted, pod) {
			calculator.AddPod(pod, updateNow, c.infeasible)
		}
	}
	return calculator.GetSortedPods(c.admission)
}

// stand is upstream's assessment of each pod alone, without infeasible attempts.
func (c *upstreamCycle) stand() {
	without := *c
	without.infeasible = nil
	eligible := without.ranked(c.Pods)
	for _, pod := range eligible {
		c.out.Order = append(c.out.Order, pod.Name)
	}
	for _, pod := range c.Pods {
		capped, _, err := c.capping.Apply(c.vpa, pod)
		if err != nil {
			c.out.Pods[pod.Name] = standing{Unranked: true}
			continue
		}
		p := priority.NewProcessor().GetUpdatePriority(pod, c.vpa, capped)
		c.out.Pods[pod.Name] = standing{Outside: p.OutsideRecommendedRange, ScaleUp: p.ScaleUp, Diff: p.ResourceDiff, Eligible: slices.Contains(eligible, pod)}
	}
}

// run is the cycle.
func (c *upstreamCycle) run() {
	resizes := c.mode == upstreamv1.UpdateModeInPlaceOrRecreate || c.mode == upstreamv1.UpdateModeInPlace
	switch {
	case c.NoAdmission && !c.resizesGoOn,
		c.mode == upstreamv1.UpdateModeInPlace && !features.Enabled(features.InPlace),
		!resizes && c.mode != upstreamv1.UpdateModeRecreate && c.mode != "Auto":
		return
	}
	candidates := slices.DeleteFunc(slices.Clone(c.Pods), func(pod *corev1.Pod) bool {
		return c.leave[pod.Name] || features.Enabled(features.CPUStartupBoost) && upstreamapi.HasStartupBoost(c.vpa) && upstreamapi.PodHasCPUBoostInProgressAnnotation(pod)
	})
	if !resizes {
		for _, pod := range c.ranked(slices.DeleteFunc(candidates, func(pod *corev1.Pod) bool { return !c.evictions.CanEvict(pod) })) {
			c.evict(pod)
		}
		return
	}
	var later []*corev1.Pod
	for _, pod := range c.ranked(slices.DeleteFunc(candidates, func(pod *corev1.Pod) bool { return !c.mayResize(pod) })) {
		switch {
		case !c.resize(pod):
		case c.evictInTurn:
			c.evict(pod)
		default:
			later = append(later, pod)
		}
	}
	for _, pod := range later {
		c.evict(pod)
	}
}

// mayResize is upstream's filter before it ranks pods.
func (c *upstreamCycle) mayResize(pod *corev1.Pod) bool {
	switch c.resizes.CanInPlaceUpdate(pod, c.vpa, c.infeasible) {
	case updaterutils.InPlaceApproved:
		return true
	case updaterutils.InPlaceDeferred, updaterutils.InPlaceInfeasible:
		return c.mode == upstreamv1.UpdateModeInPlace
	case updaterutils.InPlaceEvict:
		return c.mode == upstreamv1.UpdateModeInPlaceOrRecreate
	}
	return false
}

// resize decides again about a pod and sends the resize. It reports whether to evict the pod
// instead.
func (c *upstreamCycle) resize(pod *corev1.Pod) (evict bool) {
	if c.evicted[pod.Name] {
		return true
	}
	never := c.mode == upstreamv1.UpdateModeInPlace
	switch c.resizes.CanInPlaceUpdate(pod, c.vpa, c.infeasible) {
	case updaterutils.InPlaceDeferred:
		if !never || c.deferredWaits {
			return false
		}
	case updaterutils.InPlaceEvict:
		return true
	case updaterutils.InPlaceInfeasibleCached:
		return false
	case updaterutils.InPlaceInfeasible:
		c.remember(pod)
		if c.infeasibleWaits {
			return false
		}
	}
	err := c.resizes.InPlaceUpdate(pod, c.vpa, &record.FakeRecorder{})
	switch {
	case err == nil:
		return false
	case !never:
		return !c.refusalsWait || !passes(err)
	}
	var refused *apierrors.StatusError
	if errors.As(err, &refused) && apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, updaterutils.InfeasibleCauseNodeCapacity) {
		c.remember(pod)
	}
	return false
}

func (c *upstreamCycle) remember(pod *corev1.Pod) {
	c.infeasible[pod.UID] = c.vpa.Status.Recommendation
	c.out.Done = append(c.out.Done, doneRemember+pod.Name)
}

func (c *upstreamCycle) evict(pod *corev1.Pod) {
	if !c.NoAdmission && c.evictions.CanEvict(pod) {
		_ = c.evictions.Evict(pod, c.vpa, &record.FakeRecorder{}) // what is refused is not done
	}
}
