package simulate

import (
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	patch "gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/poddefaults"
	"github.com/celvpa/celvpa/controllers/podpatch"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// Admissions are the admission controller's answers for new pods.
type Admissions struct {
	Items []Admission `json:"items"`
}

// Admission is the answer for one pod.
type Admission struct {
	Pod      string            `json:"pod"` // namespace/name, or namespace/generateName
	Allowed  bool              `json:"allowed"`
	Message  string            `json:"message,omitempty"` // why it is refused
	Warnings []string          `json:"warnings,omitempty"`
	Changes  []AdmissionChange `json:"changes,omitempty"`
	Capped   []answers.Capped  `json:"capped,omitempty"` // targets of which it gets more or less
	Patch    []patch.Operation `json:"patch,omitempty"`  // for the pod as written
	Object   map[string]any    `json:"object,omitempty"` // the patched pod; nil if refused

	Subject string        `json:"-"` // names the pod and its workload
	Why     string        `json:"-"` // which VPA changes it, or why none does
	Steps   []engine.Step `json:"-"`
}

// AdmissionChange is an amount that the patch changes, from what API servers would show to webhooks.
type AdmissionChange struct {
	answers.Change
	Rule string `json:"rule,omitempty"` // that wrote it last
}

// Refused reports whether any pod is refused.
func (a *Admissions) Refused() bool {
	return slices.ContainsFunc(a.Items, func(admission Admission) bool { return !admission.Allowed })
}

// admission is the admission controller's view of manifests.
type admission struct {
	*world
	pods []manifests.NewPod
}

// Admit reviews every pod as if created now, and one pod per workload template.
func (c *Cluster) Admit() (*Admissions, error) {
	w, unusable := c.world()
	w.ask(admissions)
	pods, unread := c.set.NewPods(w.templates())
	a := &admission{world: w, pods: pods}
	a.addOwners(a.plain())
	out := &Admissions{Items: []Admission{}}
	changed := make([]changedBy, len(pods))
	for i := range pods {
		changed[i] = a.controlling(pods[i].Pod)
	}
	a.noteStale(a.plain(), changed)
	for i := range pods {
		c.progress("reviewing pods", i, len(pods))
		var by *vpav1.VerticalPodAutoscaler
		if changed[i].vpa != nil {
			by = changed[i].vpa.Object
		}
		if !c.selection.pod(pods[i].Pod.Namespace, by) {
			continue
		}
		out.Items = append(out.Items, a.review(&pods[i], changed[i]))
	}
	return out, faults.Join(unusable, unread)
}

func (a *admission) plain() []*corev1.Pod {
	out := make([]*corev1.Pod, len(a.pods))
	for i := range a.pods {
		out[i] = a.pods[i].Pod
	}
	return out
}

func (a *admission) review(p *manifests.NewPod, by changedBy) Admission {
	pod := p.Pod.DeepCopy()
	for _, fault := range manifests.PodFaults(pod) {
		a.note("%s: API servers refuse %s: %s", p.Source, p, fault)
	}
	poddefaults.BeforeWebhooks(pod, a.ranges[pod.Namespace])
	if pod.Name == "" {
		pod.Name = pod.GenerateName + "%" // as the admission controller names it
	}
	v := by.vpa
	req := podreview.Request{Pod: pod, Limits: a.limits[pod.Namespace], Objects: a.set}
	rules := policy.For(a.book, &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace}}) // rules for the namespace apply without a VPA too
	if v != nil {
		req.VPA, rules = v.Object, v.Rules
	}
	trace := &engine.Trace{}
	if v != nil {
		matcher.Ask(rules.Plan, matcher.Admission, v.Object, trace)
	}
	answer := podreview.Review(rules.Plan, req, trace)
	item := Admission{Pod: p.Key(), Allowed: answer.Allowed(), Subject: p.String(), Why: by.why, Steps: trace.Steps()}
	item.Warnings = append(answer.Warnings, a.tried(p, v, req, rules.Shadows, &answer)...)
	a.noteAnswer(p, v, &answer)
	if item.Allowed {
		a.change(p, &item, answer.Patch)
		for _, change := range facts.Alterations(pod, answer.Change) {
			item.Changes = append(item.Changes, AdmissionChange{Change: answers.Change(change), Rule: lastRule(item.Steps, change.Container, change.Field)})
		}
		for _, capped := range facts.CappedTargets(req.VPA, answer.Change) {
			item.Capped = append(item.Capped, answers.Capped(capped))
		}
		if v != nil && v.Object.Status.Recommendation != nil && len(item.Changes) == 0 {
			item.Why += ", and no amount changes"
		}
	} else {
		var causes []string
		for _, c := range answer.Causes {
			causes = append(causes, c.String())
		}
		item.Message = strings.Join(causes, "; ")
	}
	return item
}

// lastRule is the rule that wrote a field of a container, or of the pod, last; empty if a trace has none.
func lastRule(steps []engine.Step, container, field string) string {
	for _, step := range slices.Backward(steps) {
		if step.Item == container && step.Field == field {
			return step.Path()
		}
	}
	return ""
}

// change patches the object as written.
func (a *admission) change(p *manifests.NewPod, item *Admission, ops []patch.Operation) {
	item.Patch = withParents(p.Object, ops)
	if len(ops) == 0 {
		item.Object = p.Object
		return
	}
	object, err := Patched(p.Object, item.Patch)
	if err != nil { // ops have no effect: all of it is there
		a.note("%s: %s is left as it is: %v; please report this", p.Source, p, err)
		item.Patch, object = nil, p.Object
	}
	item.Object = object
}

// noteAnswer notes everything in an answer except the patch.
func (a *admission) noteAnswer(p *manifests.NewPod, v *matcher.VPA, answer *podreview.Answer) {
	for _, failed := range answer.Failed {
		a.note("%s: %v; its values are left as they were", p, failed)
	}
	for _, c := range answer.Unjudged {
		a.note("%s could not be judged by a rule, and is not refused for that: %s", p, c)
	}
	if v == nil || !answer.Allowed() {
		return
	}
	for _, m := range answer.Missing {
		if m.Container == "" {
			a.note("%s: %s recommends no %s for the pod as a whole, which has its own", p, v, m.Resource)
		} else {
			a.note("%s: %s recommends no %s for container %s, which requests it", p, v, m.Resource, m.Container)
		}
	}
}

// tried notes what non-enforced overlays would change, and returns the warnings they ask for.
func (a *admission) tried(p *manifests.NewPod, v *matcher.VPA, req podreview.Request, shadows []compile.Shadow, enforced *podreview.Answer) (warnings []string) {
	for _, other := range a.candidates(p.Pod) {
		for _, shadow := range other.Rules.Shadows {
			if differs := other.Differs(matcher.Admission, shadow); len(differs) > 0 {
				a.note("%s: RuleOverlay %s (%s) would change whether new pods are changed: %s", other.Key(), shadow.Overlay, shadow.Mode, strings.Join(differs, "; "))
			}
		}
	}
	for _, shadow := range shadows {
		if v != nil && matcher.Ask(shadow.Plan, matcher.Admission, v.Object, nil).Do != facts.DoApply {
			continue // already noted
		}
		answer := podreview.Review(shadow.Plan, req, nil)
		differs := podreview.Differences(enforced, &answer)
		if len(differs) > 0 && (v != nil || shadow.Mode == document.ModeWarn) {
			a.note("%s: RuleOverlay %s (%s) would change it: %s", p, shadow.Overlay, shadow.Mode, strings.Join(differs, "; "))
		}
		warnings = append(warnings, podreview.ShadowWarnings(shadow, differs)...)
	}
	return warnings
}

// withParents adds missing parents: the patch is for a defaulted pod, not for the manifest.
func withParents(object map[string]any, ops []patch.Operation) (out []patch.Operation) {
	made := map[string]bool{}
	for _, op := range ops {
		for i := 1; i < len(op.Path); i++ {
			if at := op.Path[:i]; op.Path[i] == '/' && !made[at] && !written(object, at) {
				out = append(out, podpatch.Add(at, map[string]any{}))
				made[at] = true
			}
		}
		if empty, ok := op.Value.(map[string]any); ok && len(empty) == 0 && written(object, op.Path) {
			continue // keep what is there, even fields unknown to this version
		}
		out = append(out, op)
		made[op.Path] = true
	}
	return out
}

func written(object any, path string) bool {
	for _, key := range strings.Split(path, "/")[1:] {
		switch at := object.(type) {
		case map[string]any:
			object = at[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(at) {
				return false
			}
			object = at[i]
		default:
			return false
		}
	}
	return object != nil
}

// Patched returns a copy of an object, a pointer or a map, with a JSON patch applied. It is an error
// if the patch does not fit the object.
func Patched[T any](object T, ops []patch.Operation) (out T, err error) {
	before, err := json.Marshal(object)
	if err != nil {
		return out, err
	}
	text, err := json.Marshal(ops)
	if err != nil {
		return out, err
	}
	decoded, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return out, err
	}
	after, err := decoded.Apply(before)
	if err != nil {
		return out, err
	}
	err = json.Unmarshal(after, &out)
	return out, err
}
