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
}

// Gap is a sum over the containers of one pod that have a target, or else what the pod as a whole has. The
// pod is the first in the updater's order.
type Gap struct {
	Requests string `json:"requests,omitempty"` // empty = nothing requests the resource
	Target   string `json:"target,omitempty"`   // empty = nothing is recommended
}

// Text is e.g. 100m → 250m, exact or as people read it.
func (g Gap) Text(exact bool) string {
	from, to := cmp.Or(g.Requests, "-"), cmp.Or(g.Target, "-")
	if exact {
		return from + " → " + to
	}
	return quantity.FromTo(from, to)
}

// NewList puts together VPAs, in the order of their names, with the plan for their pods.
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
		if name := v.Namespace + "/" + v.Name; len(planned[name]) > 0 {
			control[target.Of(v)] = name
		}
	}
	out := &List{Items: []Row{}}
	for _, v := range vpas {
		row := Row{VPA: v.Namespace + "/" + v.Name, Target: TargetText(v), Mode: v.Mode()}
		of := planned[row.VPA]
		row.Pods = len(of)
		var first *corev1.Pod
		if len(of) > 0 {
			row.next(of)
			first = running[of[0].Pod]
		}
		row.CPU, row.Memory = gap(v, first, corev1.ResourceCPU), gap(v, first, corev1.ResourceMemory)
		switch other := control[target.Of(v)]; {
		case len(of) > 0:
		case other != "":
			row.Reason = fmt.Sprintf("VerticalPodAutoscaler %s controls the pods of its target (point vpa.order)", other)
		default:
			row.Reason = cmp.Or(unmet(v), plan.Gone[row.VPA], "no pods")
		}
		out.Items = append(out.Items, row)
	}
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
	r.Next, r.Rule, r.Reason = best.Action, best.Rule, best.Reason
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
			return Gap{Requests: request, Target: target}
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

// unmet says why a VPA has no pods, by its conditions; empty if they do not say.
func unmet(v *vpav1.VerticalPodAutoscaler) string {
	for _, c := range v.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == vpav1.ConfigUnsupported || c.Type == vpav1.NoPodsMatched) {
			return fmt.Sprintf("%s: %s", c.Type, c.Message)
		}
	}
	return ""
}
