package recommender

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/recommender/usage"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// State is all that the recommender knows: the rules, the VPAs, their pods and the usage of these. It has no client and
// no clock, and belongs to one goroutine.
type State struct {
	logger  logr.Logger
	shadows *policy.Shadows // nil = overlays that are not enforced are not tried

	rules     *engine.Rulebook
	cluster   *model.Cluster
	workloads map[model.WorkloadID]*Workload
	plans     plans
}

// Workload is what is known of one VPA between cycles.
type Workload struct {
	VPA    *vpav1.VerticalPodAutoscaler // as it was seen last; read only
	Chosen engine.Selection             // the rules for it
	Found  target.Answer                // its pods

	model    *model.Workload
	policies map[string]*effective // by the containerName of the policy
	uncapped map[string]amounts    // the last uncapped target, by container
	done     evaluation
	stored   map[string]*stored // checkpoints, by container

	waiting   time.Time // since when its status could not be written; zero = it could
	writtenAt time.Time // when a checkpoint of it was last written
}

// amounts are of one container; 0 = none.
type amounts struct{ cpu, memory int64 }

// evaluation is what a status was made of. While it is the same, so is the status.
type evaluation struct {
	version string // resourceVersion of the VPA; empty = none was made
	rules   *engine.Rulebook
	problem string // with its target
	unknown bool   // whether it has one
}

// NewState returns a state that knows nothing. Without shadows, overlays that are not enforced are not tried.
func NewState(settings model.Settings, log logr.Logger, shadows *policy.Shadows) *State {
	s := &State{logger: log, shadows: shadows, cluster: model.NewCluster(settings), workloads: map[model.WorkloadID]*Workload{}}
	s.cluster.Observe = s.observeQuality
	return s
}

// UseRules sets the rules that are in force from now on.
func (s *State) UseRules(book *engine.Rulebook) {
	if s.rules != book {
		s.rules = book
		s.plans = plans{}
	}
}

// SetVPA adds or updates a VPA with the pods that were found for it.
func (s *State) SetVPA(v *vpav1.VerticalPodAutoscaler, found target.Answer) *Workload {
	id := model.WorkloadID{Namespace: v.Namespace, Name: v.Name}
	w := s.workloads[id]
	if w == nil {
		w = &Workload{}
		s.workloads[id] = w
	}
	if w.VPA == nil || w.VPA.ResourceVersion != v.ResourceVersion || w.done.rules != s.rules || w.Chosen.Plan == nil {
		w.Chosen = policy.For(s.rules, v)
	}
	w.VPA, w.Found = v, found
	w.model = s.cluster.SetWorkload(id, v.CreationTimestamp.Time, target.Of(v).String(), w.selector())
	return w
}

// selector finds the pods of the VPA; nil when it is not known.
func (w *Workload) selector() labels.Selector {
	if w.Found.Problem != nil && w.Found.StaleSince.IsZero() {
		return nil
	}
	return w.Found.Selector
}

// KeepVPAs forgets the VPAs that keep does not hold.
func (s *State) KeepVPAs(keep map[model.WorkloadID]bool) {
	for id := range s.workloads {
		if !keep[id] {
			delete(s.workloads, id)
		}
	}
	s.cluster.KeepWorkloads(keep)
}

// Workloads are those of all VPAs, by namespace and name.
func (s *State) Workloads() []*Workload {
	ids := slices.SortedFunc(maps.Keys(s.workloads), func(a, b model.WorkloadID) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	out := make([]*Workload, 0, len(ids))
	for _, id := range ids {
		out = append(out, s.workloads[id])
	}
	return out
}

// SetPod adds or updates a pod that has started. onlySelected leaves out those that belong to no VPA, unless they did when
// they were last seen.
func (s *State) SetPod(pod *corev1.Pod, onlySelected bool, now time.Time) {
	id := model.PodID{Namespace: pod.Namespace, Name: pod.Name}
	if s.cluster.HasPod(id, pod.ResourceVersion) {
		return
	}
	if onlySelected && !s.cluster.Selected(pod.Namespace, pod.Labels) {
		return
	}
	spec := model.PodSpec{
		Labels:         pod.Labels,
		Containers:     containerNames(pod.Spec.Containers),
		InitContainers: containerNames(pod.Spec.InitContainers),
		Active:         pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed,
		Version:        pod.ResourceVersion,
	}
	if r := pod.Spec.Resources; r != nil {
		_, spec.CPURequest = r.Requests[corev1.ResourceCPU]
		_, spec.MemoryRequest = r.Requests[corev1.ResourceMemory]
	}
	countResources(pod)
	s.cluster.SetPod(id, spec, now)
}

func containerNames(list []corev1.Container) []string {
	out := make([]string, 0, len(list))
	for i := range list {
		out = append(out, list[i].Name)
	}
	return out
}

// Govern lets the policies of VPAs say how the samples to come are remembered (AEP-8026).
func (s *State) Govern() {
	for _, w := range s.workloads {
		if w.Chosen.Plan == nil {
			continue
		}
		w.model.Governs(func(container string, a *model.Aggregate) {
			e := s.effective(w, container)
			if a.WindowFrom == e {
				return
			}
			window, failed := facts.WindowFor(e.plan, container, e.record)
			policy.Report(s.log(w), "its memory is remembered as by default", failed...)
			a.Window, a.WindowFrom = model.Window(window), e
		})
	}
}

// Add records samples and counts what became of them, by model.Taken.
func (s *State) Add(samples []model.Sample, now time.Time) (taken [2][]int) {
	for i := range taken {
		taken[i] = make([]int, len(model.Outcomes))
	}
	for _, one := range samples {
		taken[one.Resource][s.cluster.AddSample(one, now)]++
	}
	return taken
}

// AddOOM records that a container ran out of memory, by the rules of the VPA whose policies count for it.
func (s *State) AddOOM(o model.OOM, now time.Time) model.Taken {
	return s.cluster.AddOOM(o, now, func(of *model.Workload, reported, peak int64) (int64, bool) {
		plan, record, log := s.rules.Default(), facts.Policy(nil), s.logger
		if of != nil {
			if w := s.workloads[of.ID]; w != nil && w.Chosen.Plan != nil {
				e := s.effective(w, o.Container)
				plan, record, log = e.plan, e.record, s.log(w)
			}
		}
		bytes, ok, failed := facts.OOMSample(plan, o.Container, record, reported, peak)
		policy.Report(log, "the OOM is not remembered", failed...)
		return bytes, ok
	})
}

func (s *State) log(w *Workload) logr.Logger {
	return s.logger.WithValues("namespace", w.VPA.Namespace, "vpa", w.VPA.Name)
}

// String names the VPA.
func (w *Workload) String() string { return fmt.Sprintf("%s/%s", w.VPA.Namespace, w.VPA.Name) }

// Selected lists the pods of each VPA that has any, by namespace and name of the VPA.
func (s *State) Selected() []usage.Workload {
	var out []usage.Workload
	for _, w := range s.Workloads() {
		if pods := w.model.PodNames(); len(pods) > 0 {
			out = append(out, usage.Workload{Namespace: w.VPA.Namespace, Selector: w.model.Selector(), Pods: pods})
		}
	}
	return out
}
