package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/cmd/celvpa/manifests"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// offlineAdmission is the admission controller's view of manifests.
type offlineAdmission struct {
	notebook
	pods     []manifests.NewPod
	owners   map[ownerKey]*manifests.Workload
	resolver *target.Resolver
	vpas     map[string][]*judgedVPA        // by namespace
	ranges   map[string][]corev1.LimitRange // by namespace
	limits   map[string]*facts.LimitRanges  // the same, as rules see them
	book     *engine.Rulebook
}

// judgedVPA is a VPA with what the rules say of its new pods.
type judgedVPA struct {
	*vpav1.VerticalPodAutoscaler
	chosen  engine.Selection
	verdict engine.Verdict
}

func (v *judgedVPA) String() string { return "VerticalPodAutoscaler " + v.Namespace + "/" + v.Name }

// ownerKey is what owner references and targets tell: the group may be missing there.
type ownerKey struct{ namespace, kind, name string }

func keyOf(w *manifests.Workload) ownerKey { return ownerKey{w.Namespace, w.Kind, w.Name} }

// newAdmission collects what matters. The error tells what cannot be used; all else is.
func newAdmission(book *engine.Rulebook, set *manifests.Set) (*offlineAdmission, error) {
	a := &offlineAdmission{
		owners: map[ownerKey]*manifests.Workload{}, vpas: map[string][]*judgedVPA{},
		ranges: map[string][]corev1.LimitRange{}, limits: map[string]*facts.LimitRanges{},
	}
	var faults []error
	must := func(err error) { faults = append(faults, err) }
	overlays, err := set.RuleOverlays()
	must(err)
	must(set.Twice("RuleOverlay"))
	a.book, err = policy.WithOverlays(book, overlays)
	must(err)
	vpas, err := a.readVPAs(set)
	must(err)
	for _, v := range vpas {
		a.vpas[v.Namespace] = append(a.vpas[v.Namespace], a.judge(v))
	}
	must(a.addLimitRanges(set))
	workloads, err := set.Workloads()
	must(err)
	custom, err := a.customTargets(set, vpas)
	must(err)
	a.tellTwice(set, append([]string{"VerticalPodAutoscaler", "LimitRange"}, podKinds...)...)
	templates := a.addWorkloads(append(workloads, custom...))
	a.pods, err = set.NewPods(templates)
	must(err)
	a.addOwners()
	known := make([]manifests.Workload, 0, len(a.owners))
	for _, w := range a.owners {
		known = append(known, *w)
	}
	a.resolver = &target.Resolver{Client: manifests.Client(known)}
	return a, errors.Join(faults...)
}

// judge asks the rules whether a VPA changes new pods.
func (a *offlineAdmission) judge(v *vpav1.VerticalPodAutoscaler) *judgedVPA {
	out := &judgedVPA{VerticalPodAutoscaler: v, chosen: policy.For(a.book, v)}
	out.verdict = out.chosen.Plan.Decide(facts.PodAdmit, facts.AdmitFacts(v), nil)
	if out.chosen.Err != nil {
		a.note("%s: %v; the default pipeline is used", out, out.chosen.Err)
	}
	if out.verdict.Err != nil {
		a.note("%s: %v; it changes no new pods", out, out.verdict.Err)
	}
	return out
}

func (a *offlineAdmission) addLimitRanges(set *manifests.Set) error {
	list, err := set.LimitRanges()
	for _, one := range list {
		same := func(other corev1.LimitRange) bool { return other.Name == one.Name && one.Name != "" }
		if !slices.ContainsFunc(a.ranges[one.Namespace], same) {
			a.ranges[one.Namespace] = append(a.ranges[one.Namespace], one)
		}
	}
	for namespace, list := range a.ranges {
		a.limits[namespace] = facts.FoldLimitRanges(list)
	}
	return err
}

// customTargets are the targets of VPAs that are of no well-known kind.
func (a *offlineAdmission) customTargets(set *manifests.Set, vpas []*vpav1.VerticalPodAutoscaler) ([]manifests.Workload, error) {
	var out []manifests.Workload
	var faults []error
	seen := map[ownerKey]bool{}
	for _, v := range vpas {
		of := target.Of(v)
		key := ownerKey{of.Namespace, of.Kind, of.Name}
		gv, err := schema.ParseGroupVersion(of.APIVersion)
		if _, wellKnown := manifests.WellKnown(of.Kind); wellKnown || err != nil || seen[key] {
			continue // what is wrong with it is told where it is looked up
		}
		seen[key] = true
		w, found, err := set.Custom(schema.GroupKind{Group: gv.Group, Kind: of.Kind}, of.Namespace, of.Name)
		faults = append(faults, err)
		if found && err == nil {
			out = append(out, w)
		}
	}
	return out, errors.Join(faults...)
}

// addWorkloads makes workloads known, with what stands between them and their pods. It returns those whose templates become
// pods: what another one of them owns is made by that.
func (a *offlineAdmission) addWorkloads(workloads []manifests.Workload) (templates []manifests.Workload) {
	for i := range workloads {
		w := &workloads[i]
		if a.owners[keyOf(w)] != nil {
			continue
		}
		a.owners[keyOf(w)] = w
		if made, makes := w.Makes(); makes {
			a.owners[keyOf(&made)] = &made
		}
	}
	for i := range workloads {
		w := &workloads[i]
		owner := target.ControllerOf(ownersOf(w))
		if a.owners[keyOf(w)] == w && (owner == nil || a.owners[ownerKey{w.Namespace, owner.Kind, owner.Name}] == nil) {
			templates = append(templates, *w)
		}
	}
	return templates
}

// ownersOf are the owner references of a workload.
func ownersOf(w *manifests.Workload) []metav1.OwnerReference {
	if w.Object == nil {
		return w.Owners
	}
	return w.Object.GetOwnerReferences()
}

// addOwners finds the Deployments and CronJobs of pods among the manifests whose ReplicaSets and Jobs are not there, and lets
// targets of VPAs that are missing stand in for themselves where pods tell that there are such.
func (a *offlineAdmission) addOwners() {
	for i := range a.pods {
		pod := a.pods[i].Pod
		owner := target.ControllerOf(pod.OwnerReferences)
		if owner == nil || a.owners[ownerKey{pod.Namespace, owner.Kind, owner.Name}] != nil {
			continue
		}
		if !a.madeByKnown(pod.Namespace, owner) {
			a.standIn(pod.Namespace, owner)
		}
	}
	for _, v := range a.sortedVPAs() {
		of := target.Of(v.VerticalPodAutoscaler)
		if of.Kind != "" && of.Name != "" && a.owners[ownerKey{of.Namespace, of.Kind, of.Name}] == nil {
			a.note("%s %s/%s, the target of %s, is not among the manifests, and no pod tells that it belongs to it; add its manifest with -f", of.Kind, of.Namespace, of.Name, v)
		}
	}
}

// madeByKnown finds the workload that would make a missing owner of pods; that with the longest name is the most telling.
func (a *offlineAdmission) madeByKnown(namespace string, owner *metav1.OwnerReference) bool {
	var best *manifests.Workload
	for key, w := range a.owners {
		if key.namespace != namespace || (best != nil && len(w.Name) <= len(best.Name)) {
			continue
		}
		if _, makes := w.MakesNamed(owner.Kind, owner.Name); makes {
			best = w
		}
	}
	if best == nil {
		return false
	}
	made, _ := best.MakesNamed(owner.Kind, owner.Name)
	a.owners[keyOf(&made)] = &made
	return true
}

// standIn adds the target of a VPA that is, or would make, a missing owner of pods. It selects all pods that it owns.
func (a *offlineAdmission) standIn(namespace string, owner *metav1.OwnerReference) {
	candidates := slices.Clone(a.vpas[namespace])
	slices.SortStableFunc(candidates, func(x, y *judgedVPA) int {
		return cmp.Compare(len(target.Of(y.VerticalPodAutoscaler).Name), len(target.Of(x.VerticalPodAutoscaler).Name))
	})
	for _, v := range candidates {
		of := target.Of(v.VerticalPodAutoscaler)
		kind, wellKnown := manifests.WellKnown(of.Kind)
		if !wellKnown || of.Name == "" || !strings.HasPrefix(owner.Name, of.Name) || of.Kind == "CronJob" { // whose pods are found by labels that nobody knows here
			continue
		}
		w, err := manifests.StandIn(kind, namespace, of.Name, nil)
		made, makes := w.MakesNamed(owner.Kind, owner.Name)
		if err != nil || !makes && (of.Kind != owner.Kind || of.Name != owner.Name) {
			continue
		}
		a.owners[keyOf(&w)] = &w
		what := "pods that it owns"
		if makes {
			a.owners[keyOf(&made)] = &made
			what = fmt.Sprintf("pods of a %s whose name is like those that it would give", made.Kind)
		}
		a.note("%s, the target of %s, is not among the manifests; %s are taken for its own", &w, v, what)
		return
	}
}

// sortedVPAs are all VPAs by namespace, in the order of the manifests.
func (a *offlineAdmission) sortedVPAs() (out []*judgedVPA) {
	for _, list := range a.vpas {
		out = append(out, list...)
	}
	slices.SortStableFunc(out, func(x, y *judgedVPA) int { return strings.Compare(x.Namespace, y.Namespace) })
	return out
}
