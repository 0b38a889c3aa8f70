package simulate

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// question is what a command asks the rules about a VPA.
type question struct {
	matcher.Purpose
	pods string // for messages: which pods it is about
	verb string // for messages: what a VPA does with its pods
}

// view answers questions about pods, given all VPAs.
type view struct {
	*Cluster
	asks         question
	owners       map[ownerKey]*manifests.Workload
	resolver     *target.Resolver
	vpas         map[string][]*matcher.VPA           // by namespace
	inOrder      []*matcher.VPA                      // the same, as in the manifests
	byTargetName map[client.ObjectKey][]*matcher.VPA // see targetingBeginnings
	byTarget     map[ownerKey][]int                  // positions in inOrder
	selected     map[*corev1.Pod][]int               // VPAs whose target selects a pod, as positions in inOrder
	ranges       map[string][]corev1.LimitRange      // by namespace
	limits       map[string]*facts.LimitRanges       // the same, folded for rules
	gone         map[string]string                   // why VPAs have no usable target, by namespace/name; see addOwners and noteIdle
}

// The questions of the admission controller and of the updater.
var (
	admissions = question{Purpose: matcher.Admission, pods: "new pods", verb: "changes"}
	updates    = question{Purpose: matcher.Update, pods: "running pods", verb: "controls"}
)

// ownerKey is what owner references and targets always have; they may lack the group.
type ownerKey struct{ namespace, kind, name string }

func keyOf(w *manifests.Workload) ownerKey { return ownerKey{w.Namespace, w.Kind, w.Name} }

func targetOf(v *matcher.VPA) ownerKey {
	of := target.Of(v.Object)
	return ownerKey{of.Namespace, of.Kind, of.Name}
}

// view is objects with the decisions of the cluster's rules about all VPAs.
func (c *Cluster) view(asks question) (v *view, templates []manifests.Workload, err error) {
	v, templates, err = c.objects()
	v.asks = asks
	for _, one := range v.inOrder {
		v.noteRules(one)
	}
	return v, templates, err
}

// objects reads all objects except pods. templates are the workloads that no other workload makes.
// The error lists what cannot be used. Call addOwners before asking about pods.
func (c *Cluster) objects() (v *view, templates []manifests.Workload, err error) {
	v = &view{
		Cluster: c, owners: map[ownerKey]*manifests.Workload{}, limits: map[string]*facts.LimitRanges{},
		vpas: map[string][]*matcher.VPA{}, gone: map[string]string{}, byTarget: map[ownerKey][]int{}, selected: map[*corev1.Pod][]int{},
	}
	vpas, unusable := c.VPAs()
	for _, one := range vpas {
		asked := matcher.New(c.book, one, logr.Discard())
		v.byTarget[targetOf(asked)] = append(v.byTarget[targetOf(asked)], len(v.inOrder))
		v.vpas[one.Namespace], v.inOrder = append(v.vpas[one.Namespace], asked), append(v.inOrder, asked)
	}
	ranges, unreadRanges := c.limitRanges()
	v.ranges = ranges
	for namespace, list := range ranges {
		v.limits[namespace] = facts.FoldLimitRanges(list)
	}
	workloads, unread := c.set.Workloads()
	custom, unreadTargets := c.customTargets(vpas)
	c.noteTwice(append([]string{"LimitRange"}, podKinds...)...)
	templates = v.addWorkloads(append(workloads, custom...))
	parents := c.parents(vpas, func(key ownerKey) *manifests.Workload { return v.owners[key] })
	for i := range parents {
		v.owners[keyOf(&parents[i])] = &parents[i]
	}
	return v, templates, faults.Join(unusable, unreadRanges, unread, unreadTargets)
}

// noteRules notes why the rules of a VPA have less effect than it seems.
func (c *view) noteRules(v *matcher.VPA) {
	if r := v.Object.Status.Recommendation; r != nil && r.PodRecommendation != nil && !v.Rules.Plan.Gate("PodLevelResources") {
		c.note("%s: status.recommendation.podRecommendation: this field is behind a feature gate: start celvpa with --feature-gates=PodLevelResources=true", v)
	}
	switch unpinned := v.Rules.Err; {
	case unpinned != nil && c.asks.Purpose == matcher.Update:
		c.note("%s: %v; its %s are left alone", v, unpinned, c.asks.pods)
	case unpinned != nil:
		c.note("%s: %v; the default pipeline is used", v, unpinned)
	}
	if err := v.Verdict(c.asks.Purpose).Err; err != nil {
		c.note("%s: %v; it changes no %s", v, err, c.asks.pods)
	}
}

// customTargets are targets of VPAs with a custom kind.
func (c *Cluster) customTargets(vpas []*vpav1.VerticalPodAutoscaler) ([]manifests.Workload, error) {
	var out []manifests.Workload
	var errs []error
	seen := map[ownerKey]bool{}
	for _, v := range vpas {
		of := target.Of(v)
		key := ownerKey{of.Namespace, of.Kind, of.Name}
		gv, err := schema.ParseGroupVersion(of.APIVersion)
		if _, wellKnown := manifests.WellKnown(of.Kind); wellKnown || err != nil || seen[key] {
			continue // the lookup reports it
		}
		seen[key] = true
		w, found, err := c.set.Custom(schema.GroupKind{Group: gv.Group, Kind: of.Kind}, of.Namespace, of.Name)
		errs = append(errs, err)
		if found && err == nil {
			out = append(out, w)
		}
	}
	return out, faults.Join(errs...)
}

// addWorkloads registers workloads and what they make. It returns those whose templates become
// pods: a workload owned by another is made by that one.
func (c *view) addWorkloads(workloads []manifests.Workload) (templates []manifests.Workload) {
	for i := range workloads {
		w := &workloads[i]
		if c.owners[keyOf(w)] != nil {
			continue
		}
		c.owners[keyOf(w)] = w
		if made, makes := w.Makes(); makes {
			c.owners[keyOf(&made)] = &made
		}
	}
	for i := range workloads {
		w := &workloads[i]
		owner := target.ControllerOf(ownersOf(w))
		if c.owners[keyOf(w)] == w && (owner == nil || c.owners[ownerKey{w.Namespace, owner.Kind, owner.Name}] == nil) {
			templates = append(templates, *w)
		}
	}
	return templates
}

func ownersOf(w *manifests.Workload) []metav1.OwnerReference {
	if w.Object == nil {
		return w.Owners
	}
	return w.Object.GetOwnerReferences()
}
