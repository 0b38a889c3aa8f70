package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/controllers/poddefaults"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// standInLabel marks pods whose workload is not in the manifests.
const standInLabel = "celvpa.dev/pod-of"

// goneAfter is how long usage of sibling pods goes on after the last row of a pod that is gone.
const goneAfter = time.Hour

// placement assigns pods to workloads.
type placement struct {
	workloads []*placed
	byKind    map[kindKey]*placed     // the first of each
	index     map[string]*placedIndex // by namespace, once all workloads are known
	all       []*corev1.Pod
	ranges    map[string][]corev1.LimitRange // by namespace
	present   map[model.PodID]bool           // pods that still exist
	parents   []manifests.Workload           // of targets, without pods of their own
}

type placed struct {
	manifests.Workload
	standIn   bool          // not in the manifests
	inUsage   []*seenPod    // pods known only from usage
	manifests []*corev1.Pod // pods in the manifests
	loosely   bool          // inUsage match only by name prefix
	asked     []string      // VPAs that it stands in for
	order     int           // in the placement
	elsewhere string        // what another namespace has, for messages
}

// kindKey is a workload with its API group.
type kindKey struct {
	kind            schema.GroupKind
	namespace, name string
}

type seenPod struct {
	id         model.PodID
	containers []string
	last       time.Time
}

func (p *placement) known() []manifests.Workload {
	out := make([]manifests.Workload, 0, len(p.workloads)+len(p.parents))
	for _, w := range p.workloads {
		out = append(out, w.Workload)
	}
	return append(out, p.parents...)
}

// place collects the pods: in the manifests, if not created after past (zero = never), only in usage, and one for each workload without any.
func (c *Cluster) place(vpas []*vpav1.VerticalPodAutoscaler, usage []Seen, past time.Time) (*placement, error) {
	workloads, unreadWorkloads := c.set.Workloads()
	pods, unreadPods := c.set.Pods()
	ranges, unreadRanges := c.limitRanges()
	p := &placement{present: map[model.PodID]bool{}, ranges: ranges, byKind: map[kindKey]*placed{}}
	for _, w := range workloads {
		if p.find(w.GroupKind, w.Namespace, w.Name) == nil {
			p.add(&placed{Workload: w})
		}
	}
	unreadTargets := p.addTargets(c.set, vpas)
	p.parents = c.parents(vpas, p.byKey())
	slices.SortStableFunc(p.workloads, func(a, b *placed) int { // the longest name matches best
		return cmp.Or(cmp.Compare(len(b.Name), len(a.Name)), strings.Compare(a.Name, b.Name))
	})
	p.index = byNamespace(p.workloads)

	inManifests, later := map[model.PodID]*corev1.Pod{}, 0
	for i := range pods {
		pod := &pods[i]
		id := model.PodID{Namespace: pod.Namespace, Name: pod.Name}
		if !past.IsZero() && pod.CreationTimestamp.After(past) {
			later++
			continue
		}
		if inManifests[id] != nil || pod.Status.Phase == corev1.PodPending { // a real recommender skips pending pods too
			continue
		}
		inManifests[id], p.present[id] = pod, true
		p.all = append(p.all, pod)
		p.takeManifest(pod)
	}
	if later > 0 {
		c.note("%s left out: created later than %s", Counted(later, "pod"), past.Format(time.RFC3339))
	}
	c.noteTwice(podKinds...)
	c.noteContainers(usage, inManifests)
	left := p.takeUsage(seenPods(usage, inManifests))
	c.notePlaces(p, left)
	p.workloads = slices.DeleteFunc(p.workloads, func(w *placed) bool { return w.standIn && !w.any() })
	for _, w := range p.workloads {
		p.addPods(w)
	}
	return p, faults.Join(unreadWorkloads, unreadPods, unreadRanges, unreadTargets)
}

func (w *placed) any() bool { return len(w.inUsage)+len(w.manifests) > 0 }

func (p *placement) find(kind schema.GroupKind, namespace, name string) *placed {
	return p.byKind[kindKey{kind, namespace, name}]
}

func (p *placement) add(w *placed) {
	p.workloads, p.byKind[kindKey{w.GroupKind, w.Namespace, w.Name}] = append(p.workloads, w), w
}

// addTargets adds custom targets of VPAs, and stand-ins for missing ones.
func (p *placement) addTargets(set *manifests.Set, vpas []*vpav1.VerticalPodAutoscaler) error {
	var errs []error
	for _, v := range vpas {
		ref := v.Spec.TargetRef
		if ref == nil || ref.Kind == "" || ref.Name == "" {
			continue
		}
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			continue // the VPA's condition reports it
		}
		kind, wellKnown := manifests.WellKnown(ref.Kind)
		if !wellKnown {
			kind = schema.GroupKind{Group: gv.Group, Kind: ref.Kind}
		}
		w := p.find(kind, v.Namespace, ref.Name)
		if w == nil && !wellKnown {
			custom, found, err := set.Custom(kind, v.Namespace, ref.Name)
			errs = append(errs, err)
			if found {
				w = &placed{Workload: custom}
				p.add(w)
			}
		}
		if w == nil {
			standIn, err := manifests.StandIn(kind, v.Namespace, ref.Name, map[string]string{standInLabel: fmt.Sprint(len(p.workloads))})
			errs = append(errs, err)
			w = &placed{Workload: standIn, standIn: true}
			p.add(w)
		}
		if w.standIn {
			w.asked = append(w.asked, v.Namespace+"/"+v.Name)
		}
	}
	return faults.Join(errs...)
}

// takeManifest finds the workload of a pod in the manifests: the one that owns it, or else that would
// generate its name, or else whose pods have its labels, which those of another workload may have, too.
func (p *placement) takeManifest(pod *corev1.Pod) {
	var w *placed
	here := p.index[pod.Namespace]
	if owner := target.ControllerOf(pod.OwnerReferences); owner != nil {
		if w = here.made(owner.Kind, owner.Name); w != nil && w.standIn {
			w = nil
		}
	}
	if w == nil {
		w = here.named(pod.Name, func(w *placed) bool { return w.NamesLike(pod.Name) })
	}
	if w == nil {
		w = here.labelled(pod.Labels, func(w *placed) bool {
			return labels.Set(w.Template.Labels).AsSelector().Matches(labels.Set(pod.Labels))
		})
	}
	if w == nil {
		return
	}
	if w.standIn {
		pod.Labels = maps.Clone(pod.Labels)
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		maps.Copy(pod.Labels, w.Template.Labels)
	}
	w.manifests = append(w.manifests, pod)
}

// Seen is a series that has at least one amount.
type Seen struct {
	usagefile.Series
	Last time.Time // of its amounts
}

// seen are the series of usage that have rows, in the order of pods, then of containers.
func seen(usage *usagefile.Usage) (out []Seen) {
	last := make([]time.Time, len(usage.Series))
	for _, row := range usage.Rows {
		last[row.Series] = row.Time()
	}
	for i, of := range usage.Series {
		if !last[i].IsZero() {
			out = append(out, Seen{of, last[i]})
		}
	}
	return out
}

// seenPods are the pods known only from usage, by namespace and name.
func seenPods(usage []Seen, known map[model.PodID]*corev1.Pod) []*seenPod {
	var out []*seenPod
	for _, of := range usage {
		if known[of.Pod] != nil {
			continue
		}
		if len(out) == 0 || out[len(out)-1].id != of.Pod {
			out = append(out, &seenPod{id: of.Pod})
		}
		pod := out[len(out)-1]
		if !slices.Contains(pod.containers, of.Container) {
			pod.containers = append(pod.containers, of.Container)
		}
		if of.Last.After(pod.last) {
			pod.last = of.Last
		}
	}
	return out
}

// takeUsage assigns pods by name: to a workload that would generate the name, else to one without
// pods whose name is a prefix. It returns the unassigned pods.
func (p *placement) takeUsage(pods []*seenPod) (left []*seenPod) {
	for _, pod := range pods {
		if w := p.index[pod.id.Namespace].named(pod.id.Name, func(w *placed) bool { return w.NamesLike(pod.id.Name) }); w != nil {
			w.inUsage = append(w.inUsage, pod)
		} else {
			left = append(left, pod)
		}
	}
	return slices.DeleteFunc(left, func(pod *seenPod) bool {
		w := p.index[pod.id.Namespace].named(pod.id.Name, func(w *placed) bool { return w.BeginsLike(pod.id.Name) && (w.loosely || !w.any()) })
		if w != nil {
			w.inUsage, w.loosely = append(w.inUsage, pod), true
		}
		return w != nil
	})
}

func first(workloads []*placed, fits func(*placed) bool) *placed {
	if i := slices.IndexFunc(workloads, fits); i >= 0 {
		return workloads[i]
	}
	return nil
}

// addPods creates a workload's pods that are not in the manifests. If some are there, they are all that
// exist: those that only usage names are gone.
func (p *placement) addPods(w *placed) {
	var end time.Time
	for _, pod := range w.inUsage {
		if pod.last.After(end) {
			end = pod.last
		}
	}
	for _, pod := range w.inUsage {
		p.all = append(p.all, p.pod(w, pod.id, pod.containers))
		if len(w.manifests) == 0 && end.Sub(pod.last) <= goneAfter {
			p.present[pod.id] = true
		}
	}
	owned := w.Object != nil && target.ControllerOf(w.Object.GetOwnerReferences()) != nil
	if !w.any() && !owned && len(w.Template.Spec.Containers) > 0 {
		id := model.PodID{Namespace: w.Namespace, Name: w.Kind + "/" + w.Name} // no pod has such a name
		p.all, p.present[id] = append(p.all, p.pod(w, id, nil)), true
	}
}

// pod creates a pod of the template with API server defaults and any extra containers.
func (p *placement) pod(w *placed, id model.PodID, containers []string) *corev1.Pod {
	pod := &corev1.Pod{Spec: *w.Template.Spec.DeepCopy()}
	poddefaults.Create(pod, p.ranges[id.Namespace])
	pod.Namespace, pod.Name, pod.Labels = id.Namespace, id.Name, w.Template.Labels
	for _, name := range containers {
		if !hasContainer(&pod.Spec, name) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
		}
	}
	return pod
}

func hasContainer(spec *corev1.PodSpec, name string) bool {
	named := func(c corev1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(spec.Containers, named) || slices.ContainsFunc(spec.InitContainers, named)
}
