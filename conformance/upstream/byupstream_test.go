package upstream

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	typed "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned/typed/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/checkpoint"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	controllerfetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	upstreamapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
	"k8s.io/klog/v2"
)

func init() { klog.SetLogger(logr.Discard()) }

// byUpstream is upstream's recommender: its model, estimators, capping and checkpoint writer,
// called like its main loop calls them. The loop itself, in upstream's package routines, does not
// compile with the Prometheus client that celvpa needs. The remaining work of the loop and of the
// feeder is done here: it leaves out containers with mode Off, rounds up to whole cores, and drops
// samples of init containers.
type byUpstream struct {
	story   story
	begin   time.Time
	cluster model.ClusterState
	objects map[model.VpaID]*vpav1.VerticalPodAutoscaler
	everSet []string                                     // the labels of all pods that there ever were, as texts
	memory  map[*model.AggregateContainerState]time.Time // of the newest memory sample
	remembered

	estimate logic.PodResourceRecommender
	format   logic.RecommendationFormat
	caps     corev1.ResourceList // of all containers
}

// newByUpstream sets upstream's configuration, which is global.
func newByUpstream(s story, begin time.Time) *byUpstream {
	f := s.Flags
	model.InitializeAggregationsConfig(model.NewAggregationsConfig(
		f.duration("memory-aggregation-interval", model.DefaultMemoryAggregationInterval),
		int64(f.whole("memory-aggregation-interval-count", model.DefaultMemoryAggregationIntervalCount)),
		f.duration("memory-histogram-decay-half-life", model.DefaultMemoryHistogramDecayHalfLife),
		f.duration("cpu-histogram-decay-half-life", model.DefaultCPUHistogramDecayHalfLife),
		f.float("oom-bump-up-ratio", model.DefaultOOMBumpUpRatio),
		f.float("oom-min-bump-up-bytes", model.DefaultOOMMinBumpUp),
	))
	if err := setUpstreamGates(gates{PerVPAConfig: s.PerVPA}); err != nil {
		panic(err) // a fault of the test
	}
	u := &byUpstream{story: s, begin: begin}
	u.forget()
	u.estimate = logic.CreatePodResourceRecommender(logic.RecommendationConfig{
		SafetyMarginFraction:       f.float("recommendation-margin-fraction", 0.15),
		PodMinCPUMillicores:        f.float("pod-recommendation-min-cpu-millicores", 25),
		PodMinMemoryMb:             f.float("pod-recommendation-min-memory-mb", 250),
		TargetCPUPercentile:        f.float("target-cpu-percentile", 0.9),
		LowerBoundCPUPercentile:    f.float("recommendation-lower-bound-cpu-percentile", 0.5),
		UpperBoundCPUPercentile:    f.float("recommendation-upper-bound-cpu-percentile", 0.95),
		ConfidenceIntervalCPU:      f.duration("confidence-interval-cpu", 24*time.Hour),
		TargetMemoryPercentile:     f.float("target-memory-percentile", 0.9),
		LowerBoundMemoryPercentile: f.float("recommendation-lower-bound-memory-percentile", 0.5),
		UpperBoundMemoryPercentile: f.float("recommendation-upper-bound-memory-percentile", 0.95),
		ConfidenceIntervalMemory:   f.duration("confidence-interval-memory", 24*time.Hour),
	})
	u.format = logic.RecommendationFormat{
		RoundCPUMillicores: f.whole("round-cpu-millicores", 1),
		RoundMemoryBytes:   f.whole("round-memory-bytes", 1),
		HumanizeMemory:     f["humanize-memory"] == "true",
	}
	u.caps = corev1.ResourceList{}
	for name, flag := range map[corev1.ResourceName]string{
		corev1.ResourceCPU: "container-recommendation-max-allowed-cpu", corev1.ResourceMemory: "container-recommendation-max-allowed-memory",
	} {
		if text := f[flag]; text != "" {
			u.caps[name] = resource.MustParse(text)
		}
	}
	return u
}

func (u *byUpstream) forget() {
	u.cluster, u.everSet, u.memory = model.NewClusterState(0), nil, map[*model.AggregateContainerState]time.Time{}
	u.objects = map[model.VpaID]*vpav1.VerticalPodAutoscaler{}
}

func (u *byUpstream) setVPA(h happens) {
	u.vpas = with(u.vpas, h)
	selector, err := labels.Parse(h.Selector)
	if err != nil {
		panic(err) // a fault of the test
	}
	v := h.upstreamVPA(u.begin)
	u.objects[model.VpaID{Namespace: v.Namespace, VpaName: v.Name}] = v
	if err := u.cluster.AddOrUpdateVpa(v, selector); err != nil {
		panic(err)
	}
}

func (u *byUpstream) dropVPA(namespace, name string) {
	u.vpas = leaving(u.vpas, namespace, name)
	id := model.VpaID{Namespace: namespace, VpaName: name}
	_ = u.cluster.DeleteVpa(id)
	delete(u.objects, id)
}

func podID(h happens) model.PodID { return model.PodID{Namespace: h.namespace(), PodName: h.Name} }

func containerID(h happens, container string) model.ContainerID {
	return model.ContainerID{PodID: podID(h), ContainerName: container}
}

func (u *byUpstream) setPod(h happens) {
	u.pods = with(u.pods, h)
	u.cluster.AddOrUpdatePod(podID(h), h.Labels, h.phase())
	u.everSet = append(u.everSet, labels.Set(h.Labels).String())
	for _, c := range h.Containers {
		if err := u.cluster.AddOrUpdateContainer(containerID(h, c), model.Resources{}); err != nil {
			panic(err)
		}
	}
	if err := u.cluster.SetInitContainers(podID(h), h.Init); err != nil {
		panic(err)
	}
}

func (u *byUpstream) dropPod(namespace, name string) {
	u.pods = leaving(u.pods, namespace, name)
	u.cluster.DeletePod(model.PodID{Namespace: namespace, PodName: name})
}

func (u *byUpstream) add(h happens) bool {
	id, at := containerID(h, h.Container), h.taken(u.begin)
	if pod := u.cluster.Pods()[id.PodID]; pod != nil && slices.Contains(pod.InitContainers, h.Container) {
		return false
	}
	if !u.story.Raw && at.After(time.Now().Add(time.Hour)) { // as celvpa, which has it in its table
		return false
	}
	var err error
	if h.Do == doOOM {
		err = u.cluster.RecordOOM(id, at, model.ResourceAmount(h.Amount))
	} else {
		r := model.ResourceCPU
		if h.Do == doMemory {
			r = model.ResourceMemory
		}
		err = u.cluster.AddSample(&model.ContainerUsageSampleWithKey{
			ContainerUsageSample: model.ContainerUsageSample{MeasureStart: at, Usage: model.ResourceAmount(h.Amount), Resource: r},
			Container:            id,
		})
	}
	if err == nil && h.Do != doCPU {
		u.remember(id, at)
	}
	return err == nil
}

// everyController accepts any controller as found.
type everyController struct{}

func (everyController) FindTopMostWellKnownOrScalable(_ context.Context, c *controllerfetcher.ControllerKeyWithAPIVersion) (*controllerfetcher.ControllerKeyWithAPIVersion, error) {
	return c, nil
}

func (u *byUpstream) collect() {
	windows, undo := u.windows(), func() {}
	if !u.story.Raw { // celvpa's table of differences lists this: usage without CPU samples lasts, too
		undo = u.lasting()
	}
	u.cluster.RateLimitedGarbageCollectAggregateCollectionStates(context.Background(), time.Now(), everyController{})
	undo()
	if u.story.Raw {
		return
	}
	// celvpa's table of differences lists this: a window whose peak went with the history has none.
	for id, interval := range windows {
		for c := u.cluster.GetContainer(id); u.history(id) == nil && lastMemory(c).Before(c.WindowEnd); {
			c.WindowEnd = c.WindowEnd.Add(-interval)
		}
	}
	// celvpa's table of differences lists this: restored history expires.
	config := model.GetAggregationsConfig()
	for id, v := range u.cluster.VPAs() {
		for container, a := range v.ContainersInitialAggregateState {
			since := a.LastSampleStart
			if a.TotalSamplesCount == 0 {
				since = a.CreationTime
			}
			length := config.GetMemoryAggregationWindowLength()
			if u.story.PerVPA {
				length = windowOf(u.objects[id], container, config)
			}
			if time.Since(since) >= length {
				delete(v.ContainersInitialAggregateState, container)
			}
		}
	}
}

// windowOf is how long the container's policy keeps history.
func windowOf(v *vpav1.VerticalPodAutoscaler, container string, config *model.AggregationsConfig) time.Duration {
	a := model.NewAggregateContainerState()
	a.UpdateFromPolicy(policyOf(v, container))
	return a.MemoryAggregationIntervalDuration * time.Duration(a.MemoryAggregationIntervalCount)
}

func (u *byUpstream) look() map[string]*known {
	out := map[string]*known{}
	for id, v := range u.cluster.VPAs() {
		k := &known{Pods: v.PodCount, Containers: map[string]*usage{}}
		for name, a := range v.AggregateStateByContainerName() {
			x := &usage{First: a.FirstSampleStart, Last: a.LastSampleStart, Samples: a.TotalSamplesCount}
			for _, p := range percentiles {
				x.CPU = append(x.CPU, a.AggregateCPUUsage.Percentile(p))
				x.Memory = append(x.Memory, a.AggregateMemoryPeaks.Percentile(p))
			}
			k.Containers[name] = x
		}
		for _, c := range u.recommend(v, u.objects[id]).ContainerRecommendations {
			k.Recommended = append(k.Recommended, recommended{c.ContainerName, c.Target, c.LowerBound, c.UpperBound, c.UncappedTarget})
		}
		out[id.Namespace+"/"+id.VpaName] = k
	}
	return out
}

// oneHistory reports whether a container surely has a single, unmerged history.
func (u *byUpstream) oneHistory(id checkpointID) bool {
	v := u.cluster.VPAs()[model.VpaID{Namespace: id.Namespace, VpaName: id.VPA}]
	seen := map[string]bool{}
	if v.ContainersInitialAggregateState[id.Container] != nil {
		seen["restored"] = true
	}
	for _, set := range u.everSet {
		seen[set] = true
	}
	return len(seen) <= 1
}

// recommend does what upstream's loop does for each VPA.
func (u *byUpstream) recommend(v *model.Vpa, object *vpav1.VerticalPodAutoscaler) *vpav1.RecommendedPodResources {
	scaled := model.ContainerNameToAggregateStateMap{}
	for name, a := range v.AggregateStateByContainerName() {
		p := policyOf(object, name)
		if p != nil && p.Mode != nil && *p.Mode == vpav1.ContainerScalingModeOff {
			continue
		}
		a.UpdateFromPolicy(p)
		scaled[name] = a
	}
	list := logic.MapToListOfRecommendedContainerResources(u.estimate.GetRecommendedPodResources(scaled), u.format)
	if u.story.Flags["cpu-integer-post-processor-enabled"] == "true" {
		wholeCores(object, list)
	}
	capped, err := upstreamapi.ApplyVPAPolicy(list, object.Spec.ResourcePolicy, u.caps)
	if err != nil {
		panic(err)
	}
	v.UpdateRecommendation(capped)
	return capped
}

// wholeCores rounds CPU up for the containers whose VPA asks for it.
func wholeCores(object *vpav1.VerticalPodAutoscaler, list *vpav1.RecommendedPodResources) {
	for _, c := range list.ContainerRecommendations {
		if object.Annotations["vpa-post-processor.kubernetes.io/"+c.ContainerName+"_integerCPU"] != "true" {
			continue
		}
		for _, amounts := range []corev1.ResourceList{c.Target, c.LowerBound, c.UpperBound, c.UncappedTarget} {
			if cpu, ok := amounts[corev1.ResourceCPU]; ok {
				cpu.RoundUp(0)
				amounts[corev1.ResourceCPU] = cpu
			}
		}
	}
}

func (u *byUpstream) checkpoints() map[checkpointID][]byte {
	store := &checkpointStore{objects: map[checkpointID][]byte{}}
	checkpoint.NewCheckpointWriter(u.cluster, store).StoreCheckpoints(context.Background(), 1)
	return store.objects
}

func (u *byUpstream) restart(from map[checkpointID][]byte) {
	u.forget()
	u.again(u, func() {
		for id, text := range from {
			v := u.cluster.VPAs()[model.VpaID{Namespace: id.Namespace, VpaName: id.VPA}]
			if v == nil {
				continue
			}
			status := &vpav1.VerticalPodAutoscalerCheckpointStatus{}
			if err := json.Unmarshal(text, status); err != nil {
				panic(err)
			}
			a := model.NewAggregateContainerState()
			if err := a.LoadFromCheckpoint(status); err != nil {
				panic(err)
			}
			v.ContainersInitialAggregateState[id.Container] = a
		}
	})
}

// checkpointStore stores the checkpoints that upstream writes; it never returns an existing one.
type checkpointStore struct {
	objects map[checkpointID][]byte
}

func (s *checkpointStore) VerticalPodAutoscalerCheckpoints(namespace string) typed.VerticalPodAutoscalerCheckpointInterface {
	return checkpointsOf{store: s, namespace: namespace}
}

type checkpointsOf struct {
	typed.VerticalPodAutoscalerCheckpointInterface
	store     *checkpointStore
	namespace string
}

func (c checkpointsOf) Patch(_ context.Context, name string, _ types.PatchType, _ []byte, _ metav1.PatchOptions, _ ...string) (*vpav1.VerticalPodAutoscalerCheckpoint, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "verticalpodautoscalercheckpoints"}, name)
}

func (c checkpointsOf) Create(_ context.Context, object *vpav1.VerticalPodAutoscalerCheckpoint, _ metav1.CreateOptions) (*vpav1.VerticalPodAutoscalerCheckpoint, error) {
	if t := object.Status.CPUHistogram.TotalWeight; math.IsNaN(t) {
		panic("upstream's total weight is not a number")
	}
	c.store.objects[checkpointID{c.namespace, object.Spec.VPAObjectName, object.Spec.ContainerName}] = mustJSON(object.Status)
	return object, nil
}
