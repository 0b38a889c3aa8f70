package upstream

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
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
