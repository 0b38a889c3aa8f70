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
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/poddefaults"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
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
	all       []*corev1.Pod
	ranges    map[string][]corev1.LimitRange // by namespace
	present   map[model.PodID]bool           // pods that still exist

	// So that a pod is not compared with every workload:
	byName  map[types.NamespacedName][]*placed // those with the longest names first
	long    map[string][]*placed               // by namespace, those whose pods' names have only a part of their own
	byLabel map[types.NamespacedName][]*placed // by namespace and first label of the template
}

type placed struct {
	manifests.Workload
	standIn   bool          // not in the manifests
	inUsage   []*seenPod    // pods known only from usage
	manifests []*corev1.Pod // pods in the manifests
	loosely   bool          // inUsage match only by name prefix
	asked     []string      // VPAs that it stands in for
	order     int           // in the placement
}

type seenPod struct {
	id         model.PodID
	containers []string
	last       time.Time
}

func (p *placement) known() []manifests.Workload {
	out := make([]manifests.Workload, 0, len(p.workloads))
	for _, w := range p.workloads {
		out = append(out, w.Workload)
	}
	return out
}

// place collects the pods: in the manifests, if not created after past (zero = never), only in usage, and
// one for each workload without any.
func (w *world) place(usage []Seen, past time.Time) (*placement, error) {
	pods, unread := w.set.Pods()
	p := &placement{present: map[model.PodID]bool{}, ranges: w.ranges}
	unmade := p.addWorkloads(w)
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
		w.note("ignored %s created later than %s", Counted(later, "pod"), past.Format(time.RFC3339))
	}
	for _, of := range usage {
		if pod := inManifests[of.Pod]; pod != nil && !hasContainer(&pod.Spec, of.Container) {
			w.note("pod %s/%s has no container %s in its manifest: ignored its usage", of.Pod.Namespace, of.Pod.Name, of.Container)
		}
	}
	left := p.takeUsage(seenPods(usage, inManifests))
	w.notePlaces(p, left)
	p.workloads = slices.DeleteFunc(p.workloads, func(w *placed) bool { return w.standIn && !w.any() })
	for _, w := range p.workloads {
		p.addPods(w)
	}
	return p, faults.Join(unread, unmade)
}

// notePlaces notes guesses and gaps.
func (c *Cluster) notePlaces(p *placement, left []*seenPod) {
	workloads := slices.SortedFunc(slices.Values(p.workloads), func(a, b *placed) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	what, wayOut := c.lacking()
	for _, w := range workloads {
		n, like := len(w.inUsage)+len(w.manifests), "it would generate"
		if w.loosely {
			like = "begin with " + w.Name
		}
		taken := fmt.Sprintf("pods whose names %s are counted as its own: %d", like, n)
		switch {
		case w.standIn && n > 0:
			c.note("%s, the target of VerticalPodAutoscaler %s, %s; %s", &w.Workload, strings.Join(w.asked, ", "), what, taken)
		case w.standIn:
			c.note("%s, the target of VerticalPodAutoscaler %s, %s, and no pod has a name that begins with its name%s",
				&w.Workload, strings.Join(w.asked, ", "), what, wayOut)
		case w.loosely:
			c.note("%s: no pod has a name that it would generate; %s", &w.Workload, taken)
		}
	}
	var names []string
	for _, pod := range left {
		names = append(names, pod.id.Namespace+"/"+pod.id.Name)
	}
	if len(left) > 0 {
		c.note("ignored usage of %s that no workload in the manifests owns: %s", Counted(len(left), "pod"), Few(names))
	}
}

func (w *placed) any() bool { return len(w.inUsage)+len(w.manifests) > 0 }

// addWorkloads adds those of the manifests, and stand-ins for missing targets of VPAs, and indexes them.
func (p *placement) addWorkloads(w *world) error {
	byKey := map[target.Key]*placed{}
	add := func(one *placed) {
		p.workloads, byKey[keyOf(&one.Workload)] = append(p.workloads, one), one
	}
	for i := range w.workloads {
		add(&placed{Workload: w.workloads[i]})
	}
	var errs []error
	for _, v := range w.vpas {
		of := target.Of(v.Object)
		gv, err := schema.ParseGroupVersion(of.APIVersion)
		if of.Kind == "" || of.Name == "" || err != nil {
			continue // the VPA's condition reports it
		}
		known := byKey[of.Unversioned()]
		if known == nil {
			kind, wellKnown := manifests.WellKnown(of.Kind)
			if !wellKnown {
				kind = schema.GroupKind{Group: gv.Group, Kind: of.Kind}
			}
			standIn, err := manifests.StandIn(kind, of.Namespace, of.Name, map[string]string{standInLabel: fmt.Sprint(len(p.workloads))})
			errs = append(errs, err)
			known = &placed{Workload: standIn, standIn: true}
			add(known)
		}
		if known.standIn {
			known.asked = append(known.asked, v.Key())
		}
	}
	slices.SortStableFunc(p.workloads, func(a, b *placed) int { // the longest name matches best
		return cmp.Or(cmp.Compare(len(b.Name), len(a.Name)), strings.Compare(a.Name, b.Name))
	})
	p.byName, p.long, p.byLabel = map[types.NamespacedName][]*placed{}, map[string][]*placed{}, map[types.NamespacedName][]*placed{}
	for i, workload := range p.workloads {
		workload.order = i
		name := types.NamespacedName{Namespace: workload.Namespace, Name: workload.Name}
		p.byName[name] = append(p.byName[name], workload)
		if manifests.IsLong(workload.Name) {
			p.long[workload.Namespace] = append(p.long[workload.Namespace], workload)
		}
		if names := slices.Sorted(maps.Keys(workload.Template.Labels)); len(names) > 0 && !workload.standIn { // no pod has the labels of a stand-in
			label := types.NamespacedName{Namespace: workload.Namespace, Name: names[0] + "=" + workload.Template.Labels[names[0]]}
			p.byLabel[label] = append(p.byLabel[label], workload)
		}
	}
	return faults.Join(errs...)
}

// made is the workload of a kind and a name, in the manifests or with pods.
func (p *placement) made(namespace, kind, name string) *placed {
	return first(p.byName[types.NamespacedName{Namespace: namespace, Name: name}], func(w *placed) bool { return w.Kind == kind && (!w.standIn || w.any()) })
}

// named is the first workload that fits, of those with a name that the name of a pod begins with.
func (p *placement) named(namespace, pod string, fits func(*placed) bool) *placed {
	if w := first(p.long[namespace], fits); w != nil {
		return w
	}
	for name := range beginnings(pod) {
		if w := first(p.byName[types.NamespacedName{Namespace: namespace, Name: name}], fits); w != nil {
			return w
		}
	}
	return nil
}

// labelled is the first workload whose pods have the labels of a pod.
func (p *placement) labelled(pod *corev1.Pod) (best *placed) {
	for name, value := range pod.Labels {
		w := first(p.byLabel[types.NamespacedName{Namespace: pod.Namespace, Name: name + "=" + value}], func(w *placed) bool {
			return labels.Set(w.Template.Labels).AsSelector().Matches(labels.Set(pod.Labels))
		})
		if w != nil && (best == nil || w.order < best.order) {
			best = w
		}
	}
	return best
}

// takeManifest finds the workload of a pod in the manifests: the one that owns it, or else that would
// generate its name, or else whose pods have its labels, which those of another workload may have, too.
func (p *placement) takeManifest(pod *corev1.Pod) {
	var w *placed
	if owner := target.ControllerOf(pod.OwnerReferences); owner != nil {
		if w = p.made(pod.Namespace, owner.Kind, owner.Name); w != nil && w.standIn {
			w = nil
		}
	}
	if w == nil {
		w = p.named(pod.Namespace, pod.Name, func(w *placed) bool { return w.NamesLike(pod.Name) })
	}
	if w == nil {
		w = p.labelled(pod)
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
		if w := p.named(pod.id.Namespace, pod.id.Name, func(w *placed) bool { return w.NamesLike(pod.id.Name) }); w != nil {
			w.inUsage = append(w.inUsage, pod)
		} else {
			left = append(left, pod)
		}
	}
	return slices.DeleteFunc(left, func(pod *seenPod) bool {
		w := p.named(pod.id.Namespace, pod.id.Name, func(w *placed) bool { return w.BeginsLike(pod.id.Name) && (w.loosely || !w.any()) })
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
