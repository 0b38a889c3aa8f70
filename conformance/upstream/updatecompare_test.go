package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/utils/ptr"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Kinds of discrepancy between running pods.
const (
	updateOutside  = "whether a pod is outside its range differs"
	updateScaleUp  = "whether a pod is to grow differs"
	updateDiff     = "how far a pod is from its target differs"
	updateEligible = "whether a pod is to be updated differs"
	updateOrder    = "the order of pods differs"
	updateDone     = "what is done with a pod differs"
	updateSequence = "the order of what is done differs"
	updateAsked    = "what a resize asks for differs"
	updatePanicked = "celvpa's updater panics"
)

// updateDiscrepancy is one difference between the answers.
type updateDiscrepancy struct {
	Kind         string
	Pod          string // where it is about one
	Theirs, Ours string // what is done with it
	Rule         string // of celvpa, for the pod
	Text         string
}

func (d updateDiscrepancy) signature() string {
	text := d.Kind
	if d.Kind == updateDone {
		text += fmt.Sprintf(": upstream %s, celvpa %s", d.Theirs, d.Ours)
	}
	if d.Rule != "" {
		text += ": " + d.Rule
	}
	return text
}

// updateResult is a case about the updater with both answers.
type updateResult struct {
	In               updateInput
	VPA              *upstreamv1.VerticalPodAutoscaler
	Gates            gates
	Upstream, Celvpa updateAnswer
}

// doneWith is the action for a pod.
func (a *updateAnswer) doneWith(name string) string {
	var out []string
	for _, step := range a.Done {
		if action, pod, _ := strings.Cut(step, " "); pod == name {
			out = append(out, action)
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, " and ")
}

// compareUpdate lists all discrepancies of two answers; none if upstream panicked.
func compareUpdate(in *updateInput, upstream, celvpa *updateAnswer) []updateDiscrepancy {
	if celvpa.Panicked != "" {
		return []updateDiscrepancy{{Kind: updatePanicked, Text: celvpa.Panicked}}
	}
	var out []updateDiscrepancy
	if upstream.Panicked != "" {
		return []updateDiscrepancy{{Kind: "upstream panics", Text: upstream.Panicked}}
	}
	compared := map[string]bool{}
	for _, pod := range in.Pods {
		x, y := upstream.Pods[pod.Name], celvpa.Pods[pod.Name]
		if !x.Unranked && !y.Unranked {
			compared[pod.Name] = true
			if x.Outside != y.Outside {
				out = append(out, updateDiscrepancy{Kind: updateOutside, Pod: pod.Name, Text: fmt.Sprintf("%s: upstream %t", pod.Name, x.Outside)})
			}
			if x.ScaleUp != y.ScaleUp {
				out = append(out, updateDiscrepancy{Kind: updateScaleUp, Pod: pod.Name, Text: fmt.Sprintf("%s: upstream %t", pod.Name, x.ScaleUp)})
			}
			if math.Abs(x.Diff-y.Diff) > 1e-12*math.Abs(x.Diff) {
				out = append(out, updateDiscrepancy{Kind: updateDiff, Pod: pod.Name, Text: fmt.Sprintf("%s: upstream %v, celvpa %v", pod.Name, x.Diff, y.Diff)})
			}
			if x.Eligible != y.Eligible {
				out = append(out, updateDiscrepancy{Kind: updateEligible, Pod: pod.Name, Rule: y.Rule, Text: fmt.Sprintf("%s: upstream %t", pod.Name, x.Eligible)})
			}
		}
		if theirs, ours := upstream.doneWith(pod.Name), celvpa.doneWith(pod.Name); theirs != ours {
			out = append(out, updateDiscrepancy{Kind: updateDone, Pod: pod.Name, Theirs: theirs, Ours: ours, Rule: y.Rule, Text: pod.Name})
		}
	}
	for _, name := range slices.Sorted(mapKeys(celvpa.Resized)) {
		theirs, ours := upstream.Resized[name], celvpa.Resized[name]
		if theirs == nil {
			continue
		}
		for i := range ours.Spec.Containers {
			x, y := theirs.Spec.Containers[i].Resources, ours.Spec.Containers[i].Resources
			if !sameAmounts(x.Requests, y.Requests) || !sameAmounts(x.Limits, y.Limits) {
				out = append(out, updateDiscrepancy{Kind: updateAsked, Pod: name, Text: fmt.Sprintf("%s: container %d: upstream %s, celvpa %s", name, i, mustJSON(x), mustJSON(y))})
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	only := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !compared[name] })
	}
	if theirs, ours := only(upstream.Order), only(celvpa.Order); !slices.Equal(theirs, ours) {
		out = append(out, updateDiscrepancy{Kind: updateOrder, Text: fmt.Sprintf("upstream %v, celvpa %v", theirs, ours)})
	}
	if !slices.Equal(upstream.Done, celvpa.Done) {
		out = append(out, updateDiscrepancy{Kind: updateSequence, Text: fmt.Sprintf("upstream %q, celvpa %q", upstream.Done, celvpa.Done)})
	}
	return out
}

// runUpdate runs a case about the updater on both sides.
func runUpdate(c testCase) (*updateResult, error) {
	in, err := readUpdate(c)
	if err != nil {
		return nil, err
	}
	r := &updateResult{In: in, Gates: c.Gates}
	if r.VPA, err = in.upstreamVPA(); err != nil {
		return nil, err
	}
	if r.Upstream, err = updateByUpstream(in.copy(), c.Gates, ways{}); err != nil {
		return nil, err
	}
	r.Celvpa, err = updateByCelvpa(in.copy(), c.Gates, nil)
	return r, err
}

// judgeUpdate runs a case on both sides and returns the discrepancies that no entry of the table
// explains. met, unless nil, is called with the name of every entry that explained one. An entry
// adapts the case, or the way upstream's cycle runs, so that upstream does what celvpa does with
// the original, apart from other entries. Each entry is tried alone first, then all; unneeded ones
// are dropped again.
func judgeUpdate(c testCase, met func(entry string)) (*updateResult, []updateDiscrepancy, error) {
	r, err := runUpdate(c)
	if err != nil {
		return nil, nil, err
	}
	found := compareUpdate(&r.In, &r.Upstream, &r.Celvpa)
	if len(found) == 0 {
		return r, nil, nil
	}
	explained := func(entries []updateDifference) ([]updateDifference, []updateDiscrepancy) {
		in, w := r.In.copy(), ways{leave: map[string]bool{}, anyway: map[string]bool{}, evicted: map[string]bool{}}
		var used []updateDifference
		for _, x := range entries {
			if x.even(r, &in, &w) {
				used = append(used, x)
			}
		}
		if len(used) == 0 {
			return nil, found
		}
		theirs, failed := updateByUpstream(in, c.Gates, w)
		err = errors.Join(err, failed)
		return used, compareUpdate(&r.In, &theirs, &r.Celvpa)
	}
	report := func(entries []updateDifference) {
		for _, x := range entries {
			if met != nil {
				met(x.name)
			}
		}
	}
	for i := range deliberateOfUpdater {
		if used, rest := explained(deliberateOfUpdater[i : i+1]); len(rest) == 0 {
			report(used)
			return r, nil, err
		}
	}
	used, rest := explained(deliberateOfUpdater)
	if len(rest) > 0 {
		if len(rest) < len(found) {
			found = rest
		}
		return r, found, err
	}
	for i := 0; i < len(used); {
		fewer := slices.Delete(slices.Clone(used), i, i+1)
		if _, rest := explained(fewer); len(rest) == 0 {
			used = fewer
		} else {
			i++
		}
	}
	report(used)
	return r, nil, err
}

// updateInput is the object of a case about one cycle of the updater: a VPA, the pods that it
// controls, their owners, and what both sides remember.
type updateInput struct {
	VPA    json.RawMessage `json:"vpa"`
	Pods   []*corev1.Pod   `json:"pods"`
	Owners []ownerInput    `json:"owners,omitempty"`
	Flags  updateFlags     `json:"flags"`
	// Noticed are resizes that were seen before, by pod.
	Noticed map[string]noticedInput `json:"noticed,omitempty"`
	// Infeasible are targets that were tried before and found infeasible, by pod and container.
	Infeasible map[string]map[string]corev1.ResourceList `json:"infeasible,omitempty"`
	// Refusals are the API server's answers to resizes, by pod; see refusals.
	Refusals map[string]string `json:"refusals,omitempty"`
	// NoAdmission: the status lease of the admission controller has expired.
	NoAdmission bool `json:"noAdmission,omitempty"`
}

// ownerInput is an owner of pods. Replicas are the desired ones: of a DaemonSet those that it has
// scheduled, of a Job none, of a custom kind those of its scale.
type ownerInput struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// updateFlags are the updater's flags that affect its decisions; nil = default.
type updateFlags struct {
	MinReplicas       *int             `json:"min-replicas,omitempty"`
	EvictionTolerance *float64         `json:"eviction-tolerance,omitempty"`
	UpdateThreshold   *float64         `json:"pod-update-threshold,omitempty"`
	Lifetime          *metav1.Duration `json:"in-recommendation-bounds-eviction-lifetime-threshold,omitempty"`
	EvictAfterOOM     *metav1.Duration `json:"evict-after-oom-threshold,omitempty"`
	SkipBudget        bool             `json:"in-place-skip-disruption-budget,omitempty"`
}

func (f updateFlags) minReplicas() int   { return ptr.Deref(f.MinReplicas, 2) }
func (f updateFlags) tolerance() float64 { return ptr.Deref(f.EvictionTolerance, 0.5) }
func (f updateFlags) threshold() float64 { return ptr.Deref(f.UpdateThreshold, 0.1) }
func (f updateFlags) lifetime() time.Duration {
	return ptr.Deref(f.Lifetime, metav1.Duration{Duration: 12 * time.Hour}).Duration
}
func (f updateFlags) evictAfterOOM() time.Duration {
	return ptr.Deref(f.EvictAfterOOM, metav1.Duration{Duration: 10 * time.Minute}).Duration
}

// noticedInput is when a resize was first seen. UID is the UID of the pod at that time; empty = the
// current one.
type noticedInput struct {
	Age metav1.Duration `json:"age"`
	UID types.UID       `json:"uid,omitempty"`
}

// updateNow is the time of the cycle.
var updateNow = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

// ago is a time in the form of API objects.
func ago(d time.Duration) string { return updateNow.Add(-d).Format(time.RFC3339) }

// readUpdate decodes a case. It fills in what all pods have: a namespace, a node, a UID.
func readUpdate(c testCase) (in updateInput, err error) {
	if err := json.Unmarshal(c.objectJSON(), &in); err != nil {
		return in, fmt.Errorf("reading the case: %w", err)
	}
	in.Pods = slices.DeleteFunc(in.Pods, func(pod *corev1.Pod) bool { return pod == nil })
	for _, pod := range in.Pods {
		pod.Namespace = "shop"
		pod.Spec.NodeName = "node"
		if pod.UID == "" {
			pod.UID = types.UID("uid-of-" + pod.Name)
		}
		if pod.Status.Phase == "" {
			pod.Status.Phase = corev1.PodRunning
		}
		for j := range pod.Spec.Containers { // as they are sent: without maps that hold nothing
			r := &pod.Spec.Containers[j].Resources
			if len(r.Requests) == 0 {
				r.Requests = nil
			}
			if len(r.Limits) == 0 {
				r.Limits = nil
			}
		}
	}
	return in, nil
}

// copy copies what the entries of the table change.
func (in updateInput) copy() updateInput {
	pods := in.Pods
	in.Pods = nil
	for _, pod := range pods {
		in.Pods = append(in.Pods, pod.DeepCopy())
	}
	in.Owners = slices.Clone(in.Owners)
	in.Noticed, in.Infeasible, in.Refusals = merged(in.Noticed, nil), merged(in.Infeasible, nil), merged(in.Refusals, nil)
	return in
}

func (in *updateInput) upstreamVPA() (*upstreamv1.VerticalPodAutoscaler, error) {
	v := &upstreamv1.VerticalPodAutoscaler{}
	if err := in.readVPA(v); err != nil {
		return nil, err
	}
	v.Name, v.Namespace, v.UID = "v", "shop", "uid-of-v"
	return v, nil
}

func (in *updateInput) celvpaVPA() (*vpav1.VerticalPodAutoscaler, error) {
	v := &vpav1.VerticalPodAutoscaler{}
	if err := in.readVPA(v); err != nil {
		return nil, err
	}
	v.Name, v.Namespace, v.UID = "v", "shop", "uid-of-v"
	return v, nil
}

func (in *updateInput) readVPA(v any) error {
	if len(in.VPA) == 0 {
		return nil
	}
	if err := json.Unmarshal(in.VPA, v); err != nil {
		return fmt.Errorf("reading the VPA: %w", err)
	}
	return nil
}

// pod returns a pod by name; nil = none.
func (in *updateInput) pod(name string) *corev1.Pod {
	for _, pod := range in.Pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// owner returns the object of an owner reference; nil = none.
func (in *updateInput) owner(kind, name string) *ownerInput {
	for i := range in.Owners {
		if o := &in.Owners[i]; o.Kind == kind && o.Name == name {
			return o
		}
	}
	return nil
}

// controllerOf is the owner reference with controller: true.
func controllerOf(pod *corev1.Pod) *metav1.OwnerReference {
	for i := range pod.OwnerReferences {
		if ref := &pod.OwnerReferences[i]; ptr.Deref(ref.Controller, false) {
			return ref
		}
	}
	return nil
}

// wellKnownOwners are the kinds whose replica count upstream knows how to read.
var wellKnownOwners = []string{"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"}

// qosOf is the QoS class of a pod without init containers and pod-level resources, which a resize
// may not change (KEP-1287).
func qosOf(pod *corev1.Pod) corev1.PodQOSClass {
	guaranteed, some := true, false
	for i := range pod.Spec.Containers {
		r := pod.Spec.Containers[i].Resources
		for _, name := range bounded {
			request, limit := r.Requests[name], r.Limits[name]
			some = some || request.Sign() > 0 || limit.Sign() > 0
			guaranteed = guaranteed && limit.Sign() > 0 && request.Cmp(limit) == 0
		}
	}
	switch {
	case guaranteed:
		return corev1.PodQOSGuaranteed
	case some:
		return corev1.PodQOSBurstable
	}
	return corev1.PodQOSBestEffort
}

// mayBeReplaced reports whether another resize may replace one that cannot complete in mode
// InPlace, and whether it may even if the pod is within its bounds.
func (r *updateResult) mayBeReplaced(pod *corev1.Pod) (ends, takenBack bool) {
	if r.mode() != upstreamv1.UpdateModeInPlace || pod.Status.Phase == corev1.PodPending {
		return false, false
	}
	differs, lower, higher := r.compared(pod)
	condition := func(kind corev1.PodConditionType) *corev1.PodCondition {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
		if i < 0 {
			return nil
		}
		return &pod.Status.Conditions[i]
	}
	var since time.Time
	switch pending, progress := condition(corev1.PodResizePending), condition(corev1.PodResizeInProgress); {
	case pending != nil && pending.Reason == corev1.PodReasonDeferred:
		return lower && !higher, lower && !higher
	case pending != nil && pending.Reason == corev1.PodReasonInfeasible:
		return false, false
	case pending != nil:
		since = pending.LastTransitionTime.Time
	case progress != nil && progress.Reason == "" && progress.Message == "":
		return false, false
	case progress != nil:
		since = progress.LastTransitionTime.Time
	case !isUnanswered(pod):
		return false, false
	}
	age := time.Duration(0)
	if !since.IsZero() {
		age = updateNow.Sub(since)
	}
	if seen, ok := r.In.Noticed[pod.Name]; ok && (seen.UID == "" || seen.UID == pod.UID) {
		age = max(age, seen.Age.Duration)
	}
	return differs && age >= time.Hour, false
}

// compared reports whether an update would change what a pod requests, and whether the total of a
// resource would fall or rise.
func (r *updateResult) compared(pod *corev1.Pod) (differs, lower, higher bool) {
	after := r.given(pod)
	var asked, wanted [2]resource.Quantity
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		requests, limits := r.updated(c, c.Resources.Requests, after[i].Requests), r.updated(c, c.Resources.Limits, after[i].Limits)
		for n, name := range bounded {
			asked[n].Add(c.Resources.Requests[name])
			wanted[n].Add(requests[name])
			for _, lists := range [][2]corev1.ResourceList{{c.Resources.Requests, requests}, {c.Resources.Limits, limits}} {
				before, had := lists[0][name]
				now, has := lists[1][name]
				differs = differs || has && (!had || before.Cmp(now) != 0)
			}
		}
	}
	for n := range bounded {
		lower, higher = lower || wanted[n].Cmp(asked[n]) < 0, higher || wanted[n].Cmp(asked[n]) > 0
	}
	return differs, lower, higher
}
