package simulate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// question is what a command asks the rules about a VPA.
type question struct {
	point string // facts.PodAdmit or facts.VPAUpdate
	bind  func(*vpav1.VerticalPodAutoscaler) *registry.Facts
	pods  string // for messages: which pods it is about
	verb  string // for messages: what a VPA does with its pods
	// pinned: without its pipeline a VPA leaves its pods alone; else the default pipeline runs.
	pinned bool
}

// view answers questions about pods, given all VPAs.
type view struct {
	*Cluster
	asks         question
	owners       map[ownerKey]*manifests.Workload
	resolver     *target.Resolver
	vpas         map[string][]*judgedVPA           // by namespace
	inOrder      []*judgedVPA                      // the same, as in the manifests
	byTargetName map[client.ObjectKey][]*judgedVPA // see targetingBeginnings
	byTarget     map[ownerKey][]int                // positions in inOrder
	selected     map[*corev1.Pod][]int             // VPAs whose target selects a pod, as positions in inOrder
	ranges       map[string][]corev1.LimitRange    // by namespace
	limits       map[string]*facts.LimitRanges     // the same, folded for rules
	gone         map[string]string                 // why VPAs have no usable target, by namespace/name; see addOwners and noteIdle
}

// The questions of the admission controller and of the updater.
var (
	admissions = question{point: facts.PodAdmit, bind: facts.AdmitFacts, pods: "new pods", verb: "changes"}
	updates    = question{point: facts.VPAUpdate, bind: facts.UpdateFacts, pods: "running pods", verb: "controls", pinned: true}
)

// judgedVPA is a VPA with the decision about its pods.
type judgedVPA struct {
	*vpav1.VerticalPodAutoscaler
	chosen  compile.Selection
	verdict engine.Verdict
	takes   bool // it changes its pods

	position int // in inOrder
}

func (v *judgedVPA) String() string { return "VerticalPodAutoscaler " + v.key() }

func (v *judgedVPA) key() string { return v.Namespace + "/" + v.Name }

// ownerKey is what owner references and targets always have; they may lack the group.
type ownerKey struct{ namespace, kind, name string }

func keyOf(w *manifests.Workload) ownerKey { return ownerKey{w.Namespace, w.Kind, w.Name} }

func targetOf(v *judgedVPA) ownerKey {
	of := target.Of(v.VerticalPodAutoscaler)
	return ownerKey{of.Namespace, of.Kind, of.Name}
}

// view is objects with the decisions of the cluster's rules about all VPAs.
func (c *Cluster) view(asks question) (v *view, templates []manifests.Workload, err error) {
	v, templates, err = c.objects()
	v.asks = asks
	for _, one := range v.inOrder {
		v.judge(one)
	}
	return v, templates, err
}

// objects reads all objects except pods. templates are the workloads that no other workload makes.
// The error lists what cannot be used. Call addOwners before asking about pods.
func (c *Cluster) objects() (v *view, templates []manifests.Workload, err error) {
	v = &view{
		Cluster: c, owners: map[ownerKey]*manifests.Workload{}, limits: map[string]*facts.LimitRanges{},
		vpas: map[string][]*judgedVPA{}, gone: map[string]string{}, byTarget: map[ownerKey][]int{}, selected: map[*corev1.Pod][]int{},
	}
	vpas, unusable := c.VPAs()
	for _, one := range vpas {
		judged := &judgedVPA{VerticalPodAutoscaler: one, position: len(v.inOrder)}
		v.byTarget[targetOf(judged)] = append(v.byTarget[targetOf(judged)], len(v.inOrder))
		v.vpas[one.Namespace], v.inOrder = append(v.vpas[one.Namespace], judged), append(v.inOrder, judged)
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

// judge asks the rules about a VPA.
func (c *view) judge(out *judgedVPA) {
	v := out.VerticalPodAutoscaler
	out.chosen = policy.For(c.book, v)
	out.verdict = out.chosen.Plan.Decide(c.asks.point, c.asks.bind(v), nil)
	out.takes = out.verdict.Do == facts.DoApply
	if r := v.Status.Recommendation; r != nil && r.PodRecommendation != nil && !out.chosen.Plan.Gate("PodLevelResources") {
		c.note("%s: status.recommendation.podRecommendation: this field is behind a feature gate: start celvpa with --feature-gates=PodLevelResources=true", out)
	}
	switch unpinned := out.chosen.Err; {
	case unpinned != nil && c.asks.pinned:
		c.note("%s: %v; its %s are left alone", out, unpinned, c.asks.pods)
		out.takes = true
		return
	case unpinned != nil:
		c.note("%s: %v; the default pipeline is used", out, unpinned)
	}
	if out.verdict.Err != nil {
		c.note("%s: %v; it changes no %s", out, out.verdict.Err, c.asks.pods)
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
