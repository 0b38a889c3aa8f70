package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/simulate"
)

// podsOf adds what the cluster says of planned pods. Pods that nobody planned for, as new ones, come
// last.
func (o *objects) podsOf(planned []answers.RunningPod) (out []Pod) {
	known := map[string]bool{}
	for _, p := range planned {
		name := p.Pod[strings.Index(p.Pod, "/")+1:]
		known[name] = true
		pod := Pod{RunningPod: p}
		if object := o.pod(name); object != nil {
			pod.describe(object)
		}
		out = append(out, pod)
	}
	for i := range o.pods {
		if !known[o.pods[i].Name] {
			pod := Pod{RunningPod: answers.RunningPod{PlannedPod: answers.PlannedPod{Pod: o.pods[i].Namespace + "/" + o.pods[i].Name}}}
			pod.describe(&o.pods[i])
			out = append(out, pod)
		}
	}
	return out
}

// describe adds what a pod is and has, and what a new one would get.
func (p *Pod) describe(pod *corev1.Pod) {
	p.Node, p.Phase, p.QOS = pod.Spec.NodeName, string(pod.Status.Phase), string(pod.Status.QOSClass)
	if _, _, message := facts.ResizeOf(pod); message != "" {
		p.Resize = message
	}
	add := func(container, field string, now corev1.ResourceList, name corev1.ResourceName) {
		c := PodContainer{Container: container, Field: field + "." + string(name), Now: text(now, name)}
		c.New = c.Now
		if i := slices.IndexFunc(p.Change, func(change answers.Change) bool { return change.Container == container && change.Field == c.Field }); i >= 0 {
			c.New = p.Change[i].To
		}
		if c.Now != "" || c.New != "" {
			p.Containers = append(p.Containers, c)
		}
	}
	for i := range pod.Spec.Containers {
		requests, limits := facts.CurrentResources(pod, i)
		for _, name := range facts.ScaledResources {
			add(pod.Spec.Containers[i].Name, "requests", requests, name)
			add(pod.Spec.Containers[i].Name, "limits", limits, name)
		}
	}
	if whole := facts.PodLevel(pod); whole != nil {
		for _, name := range facts.ScaledResources {
			add("", "requests", whole.Requests, name)
			add("", "limits", whole.Limits, name)
		}
	}
}

// acts reports whether the updater does something with a pod now.
func (p *Pod) acts() bool {
	return p.Later == "" && podupdate.Acts(p.Action)
}

// updateFindings say what keeps pods from what is recommended.
func updateFindings(u *answers.Updater, pods []Pod, v *vpav1.VerticalPodAutoscaler) (out []Finding) {
	if u != nil && u.NoAdmission != "" && u.Ignored == "" {
		out = append(out, finding("admission-lease-expired", "", "start the admission controller, or check that it can renew its lease", "evictions are paused: %s", u.NoAdmission))
	}
	if u != nil && u.Ignored != "" {
		if u.IgnoredRule == "" {
			out = append(out, finding("pods-not-taken", "", "", "%s", u.Ignored))
		} else {
			out = append(out, Finding{Token: u.IgnoredRule, Class: Settled, Text: u.Ignored})
		}
	}
	return append(append(out, cappedFindings(pods)...), podFindings(u, pods, v)...)
}

// cappedFindings are a finding for each target of which pods get more or less, with how many pods do.
func cappedFindings(pods []Pod) (out []Finding) {
	count := map[string]int{}
	for i := range pods {
		for _, capped := range pods[i].Capped {
			said := capped.Short()
			if count[said]++; count[said] == 1 {
				namespace, _, _ := strings.Cut(pods[i].Pod, "/")
				out = append(out, finding("target-capped", "", "change that bound, if pods are to get the target; kubectl get limitrange -n "+namespace+" shows LimitRanges", "%s", said))
			}
		}
	}
	for i := range out {
		out[i].About = simulate.Counted(count[out[i].Text], "pod")
	}
	return out
}

// podFindings are a finding for each rule that keeps pods from what is recommended, and for each other
// VPA that controls them, with the reason for its first pod.
func podFindings(u *answers.Updater, pods []Pod, v *vpav1.VerticalPodAutoscaler) (out []Finding) {
	by := map[string]int{}
	var names [][]string
	for i := range pods {
		p := &pods[i]
		others := p.Rule == "" && p.VPA != "" && p.VPA != v.Namespace+"/"+v.Name && (u == nil || u.IgnoredRule == "" && u.Ignored == "")
		if p.acts() || p.Rule == "" && !others || u != nil && p.Rule != "" && p.Rule == u.IgnoredRule {
			continue
		}
		key := cmp.Or(p.Rule, p.VPA)
		at, seen := by[key]
		if !seen {
			at = len(out)
			by[key] = at
			reason := p.Reason
			if p.Resize != "" {
				reason += "; the node says: " + p.Resize
			}
			f := Finding{Token: p.Rule, Class: cmp.Or(p.Class, classOfAction(p.Action)), Text: reason, WayOut: p.Until}
			switch {
			case p.Later != "":
				f.Class, f.WayOut = Waiting, "a later cycle: "+limits[p.Later]
			case others:
				f = finding("pods-not-taken", "", "keep one VerticalPodAutoscaler for the target", "%s", p.Reason)
			}
			out = append(out, f)
			names = append(names, make([][]string, len(out)-len(names))...)
		}
		names[at] = append(names[at], p.Pod[strings.Index(p.Pod, "/")+1:])
	}
	for _, at := range by {
		out[at].About = "pod " + simulate.Few(names[at])
		if n := len(names[at]); n > 1 {
			out[at].About = fmt.Sprintf("%d pods: %s", n, simulate.Few(names[at]))
		}
	}
	return out
}

// limits are why a cycle leaves an action to a later one.
var limits = map[string]string{
	"first-cycles": "--first-cycle-evictions bounds what the first cycles do",
	"rate-limit":   "--eviction-rate-limit is used up",
	"deadline":     "the cycle had no time left",
}

// classOfAction is the class of a rule that names none, as in an older overlay.
func classOfAction(action string) string {
	if action == facts.DoWait {
		return Waiting
	}
	return Settled
}

// limitFindings say which limits rules set above maxAllowed, which bounds requests only.
func (o *objects) limitFindings(pods []Pod) (out []Finding) {
	reported := map[string]bool{}
	for i := range pods {
		for _, c := range pods[i].Containers {
			res, isLimit := strings.CutPrefix(c.Field, "limits.")
			most, bounded := o.maxAllowed(c.Container)[corev1.ResourceName(res)]
			by := lastOf(pods[i].Steps, cmp.Or(c.Container, wholePod), c.Field)
			if !isLimit || !bounded || by.Rule == "" || reported[c.Container+c.Field] || !above(c.New, most) {
				continue
			}
			reported[c.Container+c.Field] = true
			request := ""
			for _, other := range pods[i].Containers {
				if other.Container == c.Container && other.Field == "requests."+res {
					request = fmt.Sprintf("; the request would be %s (now %s), and the limit follows from it (now %s)", quantity.Short(other.New), cmp.Or(quantity.Short(other.Now), "unset"), cmp.Or(quantity.Short(c.Now), "unset"))
				}
			}
			about := "container " + c.Container
			if c.Container == "" {
				about = "the pod"
			}
			out = append(out, finding("limit-above-max-allowed", about, "set controlledValues: RequestsOnly, or a requestToLimitRatio",
				"a new pod would get the %s limit %s, by %s: maxAllowed %s bounds requests only%s", res, quantity.Short(c.New), by.Path(), quantity.Short(most.String()), request))
		}
	}
	return out
}

// above reports whether an amount is more than another one.
func above(amount string, most resource.Quantity) bool {
	q, err := quantity.Parse(amount)
	return err == nil && q.Cmp(most) > 0
}

// lastOf is the step that set a field of an item last; empty if none did.
func lastOf(steps []engine.Step, item, field string) (last engine.Step) {
	for _, s := range steps {
		if s.Item == item && s.Field == field {
			last = s
		}
	}
	return last
}

// wholePod is how traces name the pod, among its containers.
const wholePod = "pod"

// verdict is the report in a line.
func verdict(r *Report, u *answers.Updater, now time.Time) Verdict {
	var acting []*Pod
	for i := range r.Pods {
		if r.Pods[i].acts() {
			acting = append(acting, &r.Pods[i])
		}
	}
	when := "in the next cycle"
	if u != nil && u.NextCycle != nil && u.NextCycle.After(now) {
		when = "in " + u.NextCycle.Sub(now).Round(time.Second).String()
	}
	evicts := func(p *Pod) bool { return p.Action == facts.DoEvict }
	if i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Token == BudgetBlocks }); i >= 0 && len(acting) > 0 && !slices.ContainsFunc(acting, func(p *Pod) bool { return !evicts(p) }) {
		return r.Findings[i].verdict(facts.DoEvict) // the updater would try in vain
	}
	if len(acting) > 0 {
		first := acting[0]
		same, how := 0, map[string]string{facts.DoEvict: "evicted", facts.DoInPlace: "resized in place"}
		for _, p := range acting {
			if p.Action == first.Action {
				same++
			}
		}
		others := ""
		if more := len(acting) - same; more > 0 {
			other := facts.DoEvict
			if first.Action == other {
				other = facts.DoInPlace
			}
			others = fmt.Sprintf(", and %d %s,", more, how[other])
		}
		changes := make([]string, len(first.Change))
		for i, c := range first.Change {
			changes[i] = c.Short()
		}
		if more := len(changes) - 2; more > 0 {
			changes = append(changes[:2], fmt.Sprintf("and %d more", more))
		}
		name := first.Pod[strings.Index(first.Pod, "/")+1:]
		what := fmt.Sprintf("%s will be %s %s", name, how[first.Action], when)
		if len(r.Pods) > 1 {
			what = fmt.Sprintf("%d of %d pods will be %s%s %s, first %s", same, len(r.Pods), how[first.Action], others, when, name)
		}
		return Verdict{Token: first.Rule, Action: first.Action, Text: fmt.Sprintf("%s: %s (%s)", what, first.Reason, strings.Join(changes, "; "))}
	}
	action := ""
	if len(r.Pods) > 0 {
		if action = r.Pods[0].Action; r.Pods[0].Later != "" {
			action = facts.DoWait
		}
	}
	for _, class := range precedence[:3] {
		for _, f := range r.Findings {
			if f.Class == class && f.Token != scaledToo {
				return f.verdict(action)
			}
		}
	}
	if len(r.Pods) == 0 {
		return Verdict{Token: "no-pods", Text: "no pods to change"}
	}
	if first := &r.Pods[0]; first.Action == facts.DoSkip && first.Reason != "" {
		return Verdict{Token: "unknown", Action: action, Text: "nothing to do: " + lower(first.Reason)}
	}
	return Verdict{Token: "unknown", Action: action, Text: "what the updater would do is not known; see the section Not known"}
}

// verdict is a report in a line whose most important finding it is.
func (f Finding) verdict(action string) Verdict {
	how := map[string]string{Misconfigured: "blocked: ", Waiting: "waiting: ", Settled: "nothing to do: "}[f.Class]
	if strings.HasPrefix(f.Text, "it ") { // the object that it is about
		return Verdict{Token: f.Token, Action: action, Text: how + f.About + strings.TrimPrefix(f.Text, "it")}
	}
	return Verdict{Token: f.Token, Action: action, Text: how + lower(f.Text)}
}

// BudgetBlocks is the token of a PodDisruptionBudget that never allows an eviction.
const BudgetBlocks = "budget-blocks"

// scaledToo is the token of a fault that keeps nothing from happening.
const scaledToo = "hpa-same-resource"

// lower makes a sentence part of another one.
func lower(text string) string {
	if strings.HasPrefix(text, vpaKind) {
		return text
	}
	if len(text) > 1 && text[1] >= 'a' && text[1] <= 'z' || strings.HasPrefix(text, "A ") {
		return strings.ToLower(text[:1]) + text[1:]
	}
	return text
}
