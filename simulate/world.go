package simulate

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// world is what a component sees of the cluster: VPAs with their rules, workloads and LimitRanges. Call
// addOwners before asking about pods.
type world struct {
	*Cluster
	asks      question
	vpas      []*matcher.VPA                     // in the order of the manifests
	byTarget  map[target.Key][]int               // positions in vpas, by keys without apiVersion
	selecting map[*corev1.Pod][]int              // positions of the VPAs whose target selects a pod
	gone      map[string]string                  // why VPAs have no usable target, by namespace/name; see addOwners and noteIdle
	workloads []manifests.Workload               // of the manifests, without duplicates
	owners    map[target.Key]*manifests.Workload // by keys without apiVersion: workloads, what they make, and stand-ins
	resolver  *target.Resolver
	ranges    map[string][]corev1.LimitRange // by namespace
	limits    map[string]*facts.LimitRanges  // the same, folded for rules
}

// question is what a command asks the rules about a VPA.
type question struct {
	matcher.Purpose
	pods string // for messages: which pods it is about
}

// The questions of the admission controller and of the updater.
var (
	admissions = question{Purpose: matcher.Admission, pods: "new pods"}
	updates    = question{Purpose: matcher.Update, pods: "running pods"}
)

func keyOf(w *manifests.Workload) target.Key {
	return target.Key{Namespace: w.Namespace, Kind: w.Kind, Name: w.Name}
}

func ownerKey(namespace string, owner *metav1.OwnerReference) target.Key {
	return target.Key{Namespace: namespace, Kind: owner.Kind, Name: owner.Name}
}

func targetOf(v *matcher.VPA) target.Key { return target.Of(v.Object).Unversioned() }

// world reads all objects except pods. The error lists what cannot be used.
func (c *Cluster) world() (*world, error) {
	w := &world{
		Cluster: c, byTarget: map[target.Key][]int{}, selecting: map[*corev1.Pod][]int{}, gone: map[string]string{},
		owners: map[target.Key]*manifests.Workload{}, limits: map[string]*facts.LimitRanges{},
	}
	vpas, unusable := c.VPAs()
	for _, object := range vpas {
		v := matcher.New(c.book, object, logr.Discard())
		w.byTarget[targetOf(v)] = append(w.byTarget[targetOf(v)], len(w.vpas))
		w.vpas = append(w.vpas, v)
	}
	ranges, unreadRanges := c.limitRanges()
	w.ranges = ranges
	for namespace, list := range ranges {
		w.limits[namespace] = facts.FoldLimitRanges(list)
	}
	workloads, unread := c.set.Workloads()
	custom, unreadTargets := w.customTargets()
	c.noteTwice(append([]string{"LimitRange"}, podKinds...)...)
	seen := map[target.Key]bool{}
	w.workloads = slices.DeleteFunc(append(workloads, custom...), func(workload manifests.Workload) bool {
		again := seen[keyOf(&workload)]
		seen[keyOf(&workload)] = true
		return again
	})
	for i := range w.workloads {
		workload := &w.workloads[i]
		w.owners[keyOf(workload)] = workload
		if made, makes := workload.Makes(); makes {
			w.owners[keyOf(&made)] = &made
		}
	}
	return w, faults.Join(unusable, unreadRanges, unread, unreadTargets)
}

// customTargets are targets of VPAs with a custom kind. Which of these have a scale subresource may be unknown.
func (w *world) customTargets() (out []manifests.Workload, err error) {
	var errs []error
	unknown := map[string][]string{} // VPAs by kind
	for _, v := range w.vpas {
		of := target.Of(v.Object)
		gv, err := schema.ParseGroupVersion(of.APIVersion)
		if _, wellKnown := manifests.WellKnown(of.Kind); wellKnown || err != nil || w.vpas[w.byTarget[targetOf(v)][0]] != v {
			continue // the lookup reports a faulty one
		}
		kind := schema.GroupKind{Group: gv.Group, Kind: of.Kind}
		custom, found, err := w.set.Custom(kind, of.Namespace, of.Name)
		errs = append(errs, err)
		if found && err == nil {
			out = append(out, custom)
			if _, known := w.set.HasScale(kind); !known {
				unknown[kind.String()] = append(unknown[kind.String()], v.Key())
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(unknown)) {
		w.note("kind %s, the target of VerticalPodAutoscaler %s, counts as one with a scale subresource, without which a cluster finds no pods of it; add its CustomResourceDefinition with -f to make sure", kind, Few(unknown[kind]))
	}
	return out, faults.Join(errs...)
}

// templates are the workloads whose templates become pods: one owned by another is made by that one.
func (w *world) templates() []manifests.Workload {
	return slices.DeleteFunc(slices.Clone(w.workloads), func(workload manifests.Workload) bool {
		owner := target.ControllerOf(workload.OwnerReferences())
		return owner != nil && w.owners[ownerKey(workload.Namespace, owner)] != nil
	})
}

// ask asks the rules a question about all VPAs, and notes why they have less effect than it seems.
func (w *world) ask(asks question) {
	w.asks = asks
	for _, v := range w.vpas {
		if w.Selects(v.Object) {
			w.noteRules(v)
		}
	}
}

func (w *world) noteRules(v *matcher.VPA) {
	if r := v.Object.Status.Recommendation; r != nil && r.PodRecommendation != nil && !v.Rules.Plan.Gate("PodLevelResources") {
		w.note("%s: status.recommendation.podRecommendation: this field is behind a feature gate: start celvpa with --feature-gates=PodLevelResources=true", v)
	}
	switch unpinned := v.Rules.Err; {
	case unpinned != nil && w.asks.Purpose == matcher.Update:
		w.note("%s: %v; its %s are left alone", v, unpinned, w.asks.pods)
	case unpinned != nil:
		w.note("%s: %v; the default pipeline is used", v, unpinned)
	}
	if err := v.Verdict(w.asks.Purpose).Err; err != nil {
		w.note("%s: %v; it changes no %s", v, err, w.asks.pods)
	}
}

// addOwners adds the owners of pods that are not in the manifests: what their workloads would have made, and
// stand-ins for the targets of VPAs.
func (w *world) addOwners(pods []*corev1.Pod) {
	for _, pod := range pods {
		if owner := target.ControllerOf(pod.OwnerReferences); owner != nil && w.owners[ownerKey(pod.Namespace, owner)] == nil {
			w.addOwner(pod.Namespace, owner)
		}
	}
	for _, v := range w.sortedVPAs() {
		of := target.Of(v.Object)
		if of.Kind != "" && of.Name != "" && w.owners[targetOf(v)] == nil {
			what, wayOut := w.lacking()
			w.gone[v.Key()] = fmt.Sprintf("its target, %s %s/%s, %s", of.Kind, of.Namespace, of.Name, what)
			if !w.Selects(v.Object) {
				continue
			}
			w.note("%s %s/%s, the target of %s, %s, and no pod belongs to it%s", of.Kind, of.Namespace, of.Name, v, what, wayOut)
		}
	}
	w.resolver = &target.Resolver{Client: w.set.Client(w.known())}
}

// known are all owners.
func (w *world) known() (out []manifests.Workload) {
	for _, owner := range w.owners {
		out = append(out, *owner)
	}
	return out
}

// addOwner adds a missing owner: made by a workload whose name it begins with, the longest one, which may be
// the missing target of a VPA; or such a target itself.
func (w *world) addOwner(namespace string, owner *metav1.OwnerReference) {
	for name := range beginnings(owner.Name) {
		for _, kind := range append([]string{owner.Kind}, manifests.Makers...) {
			key := target.Key{Namespace: namespace, Kind: kind, Name: name}
			maker := w.owners[key]
			missing := maker == nil
			if missing {
				if maker = w.standIn(key); maker == nil {
					continue
				}
			}
			made, makes := maker.MakesNamed(owner.Kind, owner.Name)
			if itself := key == ownerKey(namespace, owner); !makes && !itself {
				continue
			}
			counted := "pods that it owns"
			if makes {
				w.owners[keyOf(&made)] = &made
				counted = fmt.Sprintf("pods of a %s whose name it would generate", made.Kind)
			}
			if missing {
				w.owners[key] = maker
				w.note("%s, the target of %s, is not in the manifests; %s are counted as its own", maker, w.vpas[w.byTarget[key][0]], counted)
			}
			return
		}
	}
}

// standIn is a workload that selects all pods, in place of a target of VPAs that is missing; nil if there is
// no such target. The labels of a CronJob's pods are not known.
func (w *world) standIn(key target.Key) *manifests.Workload {
	kind, wellKnown := manifests.WellKnown(key.Kind)
	if len(w.byTarget[key]) == 0 || !wellKnown || key.Kind == "CronJob" {
		return nil
	}
	out, err := manifests.StandIn(kind, key.Namespace, key.Name, nil)
	if err != nil {
		return nil
	}
	return &out
}

// beginnings are a name and its parts up to a hyphen, the longest first.
func beginnings(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], '-') {
			if !yield(name[:end]) {
				return
			}
		}
	}
}

// sortedVPAs are all VPAs by namespace, in the order of the manifests.
func (w *world) sortedVPAs() []*matcher.VPA {
	return slices.SortedStableFunc(slices.Values(w.vpas), func(x, y *matcher.VPA) int { return strings.Compare(x.Object.Namespace, y.Object.Namespace) })
}
