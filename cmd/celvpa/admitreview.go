package main

import (
	"encoding/json"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	patch "gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/poddefaults"
	"github.com/celvpa/celvpa/controllers/podpatch"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// offlineAdmission is the admission controller's view of manifests.
type offlineAdmission struct {
	*offlineCluster
	pods []manifests.NewPod
}

// newAdmission collects what matters. The error tells what cannot be used; all else is.
func newAdmission(book *engine.Rulebook, set *manifests.Set) (*offlineAdmission, error) {
	cluster, templates, unusable := newOfflineCluster(book, set, question{point: facts.PodAdmit, bind: facts.AdmitFacts, pods: "new pods", verb: "changes"})
	pods, unread := set.NewPods(templates)
	a := &offlineAdmission{offlineCluster: cluster, pods: pods}
	a.addOwners(a.plain())
	return a, faults.Join(unusable, unread)
}

// plain are the pods as the cluster knows them.
func (a *offlineAdmission) plain() []*corev1.Pod {
	out := make([]*corev1.Pod, len(a.pods))
	for i := range a.pods {
		out[i] = a.pods[i].Pod
	}
	return out
}

// report reviews every pod.
func (a *offlineAdmission) report(explain bool) *admitReport {
	out := &admitReport{Items: []admitItem{}}
	changed := make([]changedBy, len(a.pods))
	for i := range a.pods {
		changed[i] = a.controlling(a.pods[i].Pod)
	}
	a.tellStale(a.plain(), changed)
	for i := range a.pods {
		item, told := a.review(&a.pods[i], changed[i], explain)
		out.Items = append(out.Items, item)
		if explain {
			out.explained = append(out.explained, told)
		}
	}
	return out
}

// review asks the rules about one pod.
func (a *offlineAdmission) review(p *manifests.NewPod, by changedBy, explain bool) (admitItem, explanation) {
	pod := p.Pod.DeepCopy()
	for _, fault := range manifests.PodFaults(pod) {
		a.note("%s: API servers refuse %s: %s", p.Source, p, fault)
	}
	poddefaults.BeforeWebhooks(pod, a.ranges[pod.Namespace])
	if pod.Name == "" {
		pod.Name = pod.GenerateName + "%" // as the admission controller calls it
	}
	v := by.vpa
	req := podreview.Request{Pod: pod, Limits: a.limits[pod.Namespace]}
	about := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace}} // rules for the namespace apply all the same
	if v != nil {
		req.VPA, about = v.VerticalPodAutoscaler, v.VerticalPodAutoscaler
	}
	chosen := policy.For(a.book, about)
	var trace *engine.Trace
	if explain {
		trace = &engine.Trace{}
		if v != nil {
			chosen.Plan.Decide(facts.PodAdmit, facts.AdmitFacts(about), trace)
		}
	}
	answer := podreview.Review(chosen.Plan, req, trace)
	item := admitItem{Pod: p.Key(), Allowed: answer.Allowed()}
	item.Warnings = a.tried(p, v, req, chosen.Shadows, &answer)
	a.tell(p, v, &answer)
	if item.Allowed {
		a.change(p, &item, answer.Patch)
	} else {
		var causes []string
		for _, c := range answer.Causes {
			causes = append(causes, c.String())
		}
		item.Message = strings.Join(causes, "; ")
	}
	told := explanation{pod: p.String(), text: by.why}
	if trace != nil {
		told.steps = trace.Steps()
	}
	return item, told
}

// change writes what is changed into the object as it was written.
func (a *offlineAdmission) change(p *manifests.NewPod, item *admitItem, ops []patch.Operation) {
	item.Patch = withParents(p.Object, ops)
	if len(ops) == 0 {
		item.Object = p.Object
		return
	}
	object, err := patched(p.Object, item.Patch)
	if err != nil { // all that ops write is there now
		a.note("%s: %s is left as it is: %v; please report this", p.Source, p, err)
		item.Patch, object = nil, p.Object
	}
	item.Object = object
}

// tell notes what came of a pod beside its patch.
func (a *offlineAdmission) tell(p *manifests.NewPod, v *judgedVPA, answer *podreview.Answer) {
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

// tried tells what overlays that are not enforced would change: the differences as notes, and as warnings where their mode asks
// for them.
func (a *offlineAdmission) tried(p *manifests.NewPod, v *judgedVPA, req podreview.Request, shadows []engine.Shadow, enforced *podreview.Answer) (warnings []string) {
	for _, other := range a.vpas[p.Pod.Namespace] {
		for _, shadow := range other.chosen.Shadows {
			verdict := shadow.Plan.Decide(facts.PodAdmit, facts.AdmitFacts(other.VerticalPodAutoscaler), nil)
			if differs := policy.VerdictDifference(other.verdict, verdict); len(differs) > 0 && a.belongs(p.Pod, other) {
				a.note("%s/%s: RuleOverlay %s (%s) would change whether new pods are changed: %s", other.Namespace, other.Name, shadow.Overlay, shadow.Mode, strings.Join(differs, "; "))
			}
		}
	}
	for _, shadow := range shadows {
		if v != nil && shadow.Plan.Decide(facts.PodAdmit, facts.AdmitFacts(v.VerticalPodAutoscaler), nil).Do != facts.DoApply {
			continue // told above
		}
		answer := podreview.Review(shadow.Plan, req, nil)
		differs := podreview.Differences(enforced, &answer)
		if len(differs) > 0 && (v != nil || shadow.Mode == engine.ModeWarn) {
			a.note("%s: RuleOverlay %s (%s) would change it: %s", p, shadow.Overlay, shadow.Mode, strings.Join(differs, "; "))
		}
		warnings = append(warnings, podreview.ShadowWarnings(shadow, differs)...)
	}
	return warnings
}

// withParents adds to a patch what it takes for granted: the webhook sees pods with defaults, and what it writes into may not
// have been written.
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
			continue // of what is there nothing is lost, not even what this version does not know
		}
		out = append(out, op)
		made[op.Path] = true
	}
	return out
}

// written reports whether an object has something at a path.
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

// patched is an object with a patch applied.
func patched(object map[string]any, ops []patch.Operation) (map[string]any, error) {
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(ops)
	if err != nil {
		return nil, err
	}
	decoded, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, err
	}
	after, err := decoded.Apply(before)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, kjson.Unmarshal(after, &out)
}
