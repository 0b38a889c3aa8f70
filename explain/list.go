package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate"
)

// List is what `kubectl vpa list` prints. Scripts depend on its JSON names.
type List struct {
	Items []Row `json:"items"`
	// By how much all pods together would request more with their targets, where they have requests; negative = less.
	MoreCPU    string `json:"moreCPU"`
	MoreMemory string `json:"moreMemory"`
}

// Row is one VPA: what its pods request against what is recommended, and what is next.
type Row struct {
	VPA    string `json:"vpa"` // namespace/name
	Target string `json:"target"`
	Mode   string `json:"mode"`
	Pods   int    `json:"pods"`
	CPU    Gap    `json:"cpu"`
	Memory Gap    `json:"memory"`
	// Next is the action for the first pod in the updater's order, and how many get it; Wait and Skip
	// count the pods with the same rule.
	Next   string `json:"next"` // Evict, InPlace, Wait or Skip; empty = no pods
	Count  int    `json:"count"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	Token  string `json:"token,omitempty"` // of Tokens: why there are no pods, or what blocks them
	Class  string `json:"class,omitempty"` // of the rule or the token; empty = pods are about to be changed
}

// Why is the rule, the token, or else the reason.
func (r *Row) Why() string { return cmp.Or(r.Rule, r.Token, "("+r.Reason+")") }

// Summary is how many VPAs there are of each class and why, the worst first, and what all pods would request besides.
func (l *List) Summary() string {
	var parts []string
	for _, class := range listed {
		total, reasons := 0, map[string]int{}
		for i := range l.Items {
			if r := &l.Items[i]; r.Class == class {
				total++
				reasons[r.Why()]++
			}
		}
		if total == 0 {
			continue
		}
		var why []string
		for _, reason := range sortedKeys(reasons) {
			why = append(why, fmt.Sprintf("%d %s", reasons[reason], reason))
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s)", total, cmp.Or(class, "to be changed"), strings.Join(why, ", ")))
	}
	out := fmt.Sprintf("%s: %s.", simulate.Counted(len(l.Items), "VerticalPodAutoscaler"), strings.Join(parts, "; "))
	if slices.ContainsFunc(l.Items, func(r Row) bool { return r.CPU.Target != "" || r.Memory.Target != "" }) {
		out += fmt.Sprintf(" With their targets, all pods together would request %s CPU and %s memory.", moreOrLess(l.MoreCPU), moreOrLess(l.MoreMemory))
	}
	return out
}

// listed are the classes of a list, the worst first; the empty one is of VPAs for whose pods something is done.
var listed = []string{Misconfigured, Waiting, "", Settled}

// moreOrLess says by how much an amount grows.
func moreOrLess(by string) string {
	if less, negative := strings.CutPrefix(by, "-"); negative {
		return quantity.Short(less) + " less"
	}
	if by == "0" {
		return "as much"
	}
	return quantity.Short(by) + " more"
}

// WorstFirst are the rows as people want them: by class, then by name.
func (l *List) WorstFirst() []Row {
	return slices.SortedStableFunc(slices.Values(l.Items), func(a, b Row) int {
		return cmp.Compare(slices.Index(listed, a.Class), slices.Index(listed, b.Class))
	})
}

// Gap is a sum over the containers of one pod that have a target, or else what the pod as a whole has. The
// pod is the first in the updater's order.
type Gap struct {
	Requests string `json:"requests,omitempty"` // empty = nothing requests the resource
	Target   string `json:"target,omitempty"`   // empty = nothing is recommended

	podLevel bool // of the pod as a whole
}

// Text is e.g. 100m → 250m, exact or as people read it.
func (g Gap) Text(exact bool) string {
	from, to := cmp.Or(g.Requests, "-"), cmp.Or(g.Target, "-")
	if exact {
		return from + " → " + to
	}
	return quantity.FromTo(from, to)
}

// addTo adds by how much requests grow, if there are any. Of targets that are capped counts what the pod gets.
func (g Gap) addTo(total *resource.Quantity, name corev1.ResourceName, capped []answers.Capped) {
	if g.Requests == "" || g.Target == "" {
		return
	}
	addDifference(total, g.Target, g.Requests)
	for _, c := range capped {
		if c.Resource == name && (c.Container == "") == g.podLevel {
			addDifference(total, c.Gets, c.Target)
		}
	}
}

// addDifference adds what one quantity is above another. Both come from objects that were read.
func addDifference(total *resource.Quantity, one, without string) {
	more, err := quantity.Parse(one)
	less, err2 := quantity.Parse(without)
	if err == nil && err2 == nil {
		total.Add(more)
		total.Sub(less)
	}
}

// NewList puts together VPAs, in the order of their names, with the plan for their pods. Those beside the plan have no row.
func NewList(vpas []*vpav1.VerticalPodAutoscaler, pods []corev1.Pod, plan *simulate.Plan) *List {
	planned := map[string][]*answers.PlannedPod{}
	for i := range plan.Items {
		planned[plan.Items[i].VPA] = append(planned[plan.Items[i].VPA], &plan.Items[i])
	}
	running := make(map[string]*corev1.Pod, len(pods))
	for i := range pods {
		running[pods[i].Namespace+"/"+pods[i].Name] = &pods[i]
	}
	control := map[target.Key]string{} // the VPA that has the pods of a target
	for _, v := range vpas {
		if name := v.Namespace + "/" + v.Name; len(planned[name]) > 0 || plan.Beside[name] {
			control[target.Of(v)] = name
		}
	}
	out := &List{Items: []Row{}}
	var moreCPU, moreMemory resource.Quantity
	for _, v := range vpas {
		row := Row{VPA: v.Namespace + "/" + v.Name, Target: TargetText(v), Mode: v.Mode()}
		if _, beside := plan.Beside[row.VPA]; beside {
			continue
		}
		of := planned[row.VPA]
		row.Pods = len(of)
		var first *corev1.Pod
		if len(of) > 0 {
			row.next(of)
			if budget := plan.Blocked[of[0].Pod]; budget != "" && row.Next == facts.DoEvict {
				row.Rule, row.Token, row.Class = "", BudgetBlocks, Misconfigured
				row.Reason = "PodDisruptionBudget " + budget + " never allows an eviction"
			}
			first = running[of[0].Pod]
		}
		row.CPU, row.Memory = gap(v, first, corev1.ResourceCPU), gap(v, first, corev1.ResourceMemory)
		for _, p := range of {
			gap(v, running[p.Pod], corev1.ResourceCPU).addTo(&moreCPU, corev1.ResourceCPU, p.Capped)
			gap(v, running[p.Pod], corev1.ResourceMemory).addTo(&moreMemory, corev1.ResourceMemory, p.Capped)
		}
		if len(of) == 0 {
			row.Token, row.Reason = podless(v, control[target.Of(v)], plan.Gone[row.VPA])
			row.Class = classOf(row.Token)
		}
		out.Items = append(out.Items, row)
	}
	out.MoreCPU, out.MoreMemory = moreCPU.String(), moreMemory.String()
	slices.SortFunc(out.Items, func(a, b Row) int { return strings.Compare(a.VPA, b.VPA) })
	return out
}

// next is what happens to pods: actions come first.
func (r *Row) next(pods []*answers.PlannedPod) {
	best := pods[0]
	for _, p := range pods {
		if podupdate.Acts(p.Action) {
			best = p
			break
		}
		if p.Action == facts.DoWait && best.Action == facts.DoSkip {
			best = p
		}
	}
	r.Next, r.Rule, r.Reason, r.Class = best.Action, best.Rule, best.Reason, best.Class
	for _, p := range pods {
		if p.Action == best.Action && p.Rule == best.Rule {
			r.Count++
		}
	}
}

// gap compares a pod with the recommendation. Containers without a target are left out, unless none has
// one. What counts for a pod with a request of its own is that one.
func gap(v *vpav1.VerticalPodAutoscaler, pod *corev1.Pod, name corev1.ResourceName) Gap {
	r := v.Status.Recommendation
	if r == nil {
		r = &vpav1.RecommendedPodResources{}
	}
	if pod != nil && facts.PodLevel(pod) != nil && r.PodRecommendation != nil {
		request, target := text(facts.PodLevel(pod).Requests, name), text(r.PodRecommendation.Target, name)
		if request != "" && target != "" {
			return Gap{Requests: request, Target: target, podLevel: true}
		}
	}
	targets := map[string]corev1.ResourceList{}
	for i := range r.ContainerRecommendations {
		if c := &r.ContainerRecommendations[i]; text(c.Target, name) != "" {
			targets[c.ContainerName] = c.Target
		}
	}
	if pod == nil {
		return Gap{Target: sum(slices.Collect(maps.Values(targets)), name)}
	}
	var requests, wanted, all []corev1.ResourceList
	for i := range pod.Spec.Containers {
		request, _ := facts.CurrentResources(pod, i)
		all = append(all, request)
		if target, has := targets[pod.Spec.Containers[i].Name]; has {
			requests, wanted = append(requests, request), append(wanted, target)
		}
	}
	if len(wanted) == 0 {
		return Gap{Requests: sum(all, name)}
	}
	return Gap{Requests: sum(requests, name), Target: sum(wanted, name)}
}

func sum(lists []corev1.ResourceList, name corev1.ResourceName) string {
	var total resource.Quantity
	has := false
	for _, list := range lists {
		if q, ok := list[name]; ok {
			total.Add(q)
			has = true
		}
	}
	if !has {
		return ""
	}
	return total.String()
}

// podless says why a VPA has no pods: another one controls them, or its conditions say, or its target is gone, if that says how.
func podless(v *vpav1.VerticalPodAutoscaler, other, gone string) (token, reason string) {
	if other != "" {
		return "pods-not-taken", fmt.Sprintf("VerticalPodAutoscaler %s controls the pods of its target (point vpa.order)", other)
	}
	for _, c := range v.Status.Conditions {
		token := map[vpav1.VerticalPodAutoscalerConditionType]string{vpav1.ConfigUnsupported: "target-unusable", vpav1.NoPodsMatched: "no-pods"}[c.Type]
		if c.Status == corev1.ConditionTrue && token != "" {
			return token, fmt.Sprintf("%s: %s", c.Type, c.Message)
		}
	}
	if gone != "" {
		return "target-unusable", gone
	}
	return "no-pods", "no pods"
}
