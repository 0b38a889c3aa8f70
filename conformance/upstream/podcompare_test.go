package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
)

// Kinds of discrepancy between pods.
const (
	podRequests   = "the requests differ"
	podLimits     = "the limits differ"
	podUpdates    = "the items of vpaUpdates differ"
	podObserved   = "vpaObservedContainers differs"
	podBoost      = "what was there before the boost differs"
	podOutcome    = "one of them leaves the pod as it is"
	podInvalid    = "celvpa's pod is not valid"
	podPanicked   = "celvpa panics"
	podUnpatched  = "celvpa's patch does not apply, or a rule failed"
	podUnexpected = "celvpa touches something else"
)

// podDiscrepancy is one difference between the answers.
type podDiscrepancy struct {
	Kind     string
	Index    int                 // of the container; -1 = the pod as a whole
	Resource corev1.ResourceName // where it is about one
	Item     string              // of vpaUpdates, that one side has
	Ours     bool                // celvpa has the item
	Text     string
}

func (d podDiscrepancy) signature() string {
	text := d.Kind
	if d.Resource != "" {
		text += ": " + string(d.Resource)
	}
	if d.Kind == podUpdates {
		text += fmt.Sprintf(": %q, celvpa's: %v", d.Item, d.Ours)
	}
	return text
}

// itemResource is the resource that an item of vpaUpdates names.
func itemResource(item string) corev1.ResourceName {
	name, _, _ := strings.Cut(item, " ")
	return corev1.ResourceName(strings.TrimSuffix(name, ":"))
}

// podResult is a case about a pod with both answers.
type podResult struct {
	In               podInput
	VPA              *upstreamv1.VerticalPodAutoscaler
	Gates            gates
	Upstream, Celvpa podAnswer
}

// faultsOfOurs lists violations of what must hold whatever upstream does.
func (r *podResult) faultsOfOurs() []podDiscrepancy {
	var out []podDiscrepancy
	if r.Celvpa.Panicked != "" {
		return []podDiscrepancy{{Kind: podPanicked, Index: -1, Text: r.Celvpa.Panicked}}
	}
	if r.Celvpa.Failed != "" {
		out = append(out, podDiscrepancy{Kind: podUnpatched, Index: -1, Text: r.Celvpa.Failed})
	}
	if _, _, why := podFault(r.In.Pod); why == "" {
		if i, name, why := podFault(r.Celvpa.Pod); why != "" {
			out = append(out, podDiscrepancy{Kind: podInvalid, Index: i, Resource: name, Text: why})
		}
	}
	if x, y := r.In.Pod, r.Celvpa.Pod; !slices.EqualFunc(x.Spec.InitContainers, y.Spec.InitContainers, func(a, b corev1.Container) bool {
		return sameAmounts(a.Resources.Requests, b.Resources.Requests) && sameAmounts(a.Resources.Limits, b.Resources.Limits)
	}) || (x.Spec.Resources == nil) != (y.Spec.Resources == nil) ||
		x.Spec.Resources != nil && (!sameAmounts(x.Spec.Resources.Requests, y.Spec.Resources.Requests) || !sameAmounts(x.Spec.Resources.Limits, y.Spec.Resources.Limits)) {
		out = append(out, podDiscrepancy{Kind: podUnexpected, Index: -1, Text: "init containers, or resources at pod level"})
	}
	return out
}

func sameAmounts(x, y corev1.ResourceList) bool {
	return len(x) == len(y) && len(differing(x, y)) == 0
}

// differing are the resources whose quantities differ between two lists.
func differing(x, y corev1.ResourceList) []corev1.ResourceName {
	all := maps.Clone(x)
	if all == nil {
		all = corev1.ResourceList{}
	}
	maps.Copy(all, y)
	var out []corev1.ResourceName
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a, hasA := x[name]
		b, hasB := y[name]
		if hasA != hasB || a.Cmp(b) != 0 {
			out = append(out, name)
		}
	}
	return out
}

func amountIn(list corev1.ResourceList, name corev1.ResourceName) string {
	q, ok := list[name]
	if !ok {
		return "none"
	}
	return q.String()
}

// comparePod lists all discrepancies between two answers, neither of which is a panic.
func comparePod(upstream, celvpa *podAnswer) []podDiscrepancy {
	var out []podDiscrepancy
	if (upstream.Patch == nil) != (celvpa.Patch == nil) {
		return []podDiscrepancy{{Kind: podOutcome, Index: -1, Text: fmt.Sprintf("upstream's patch: %t, celvpa's: %t", upstream.Patch != nil, celvpa.Patch != nil)}}
	}
	for i := range upstream.Pod.Spec.Containers {
		x, y := upstream.Pod.Spec.Containers[i].Resources, celvpa.Pod.Spec.Containers[i].Resources
		for kind, lists := range map[string][2]corev1.ResourceList{podRequests: {x.Requests, y.Requests}, podLimits: {x.Limits, y.Limits}} {
			for _, name := range differing(lists[0], lists[1]) {
				out = append(out, podDiscrepancy{Kind: kind, Index: i, Resource: name,
					Text: fmt.Sprintf("container %d: upstream %s, celvpa %s", i, amountIn(lists[0], name), amountIn(lists[1], name))})
			}
		}
	}
	theirs, ours := upstream.updates(), celvpa.updates()
	for _, i := range slices.Sorted(maps.Keys(merged(theirs, ours))) {
		x, inTheirs := theirs[i]
		y, inOurs := ours[i]
		if inTheirs != inOurs && len(x)+len(y) == 0 {
			out = append(out, podDiscrepancy{Kind: podUpdates, Index: i, Ours: inOurs, Text: fmt.Sprintf("container %d without items", i)})
		}
		for _, item := range without1(x, y) {
			out = append(out, podDiscrepancy{Kind: podUpdates, Index: i, Resource: itemResource(item), Item: item, Text: fmt.Sprintf("container %d", i)})
		}
		for _, item := range without1(y, x) {
			out = append(out, podDiscrepancy{Kind: podUpdates, Index: i, Resource: itemResource(item), Item: item, Ours: true, Text: fmt.Sprintf("container %d", i)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(merged(upstream.Pod.Annotations, celvpa.Pod.Annotations))) {
		a, inA := upstream.Pod.Annotations[key]
		b, inB := celvpa.Pod.Annotations[key]
		if key == annotationUpdates || inA == inB && a == b {
			continue
		}
		d := podDiscrepancy{Kind: podUnexpected, Index: -1, Text: fmt.Sprintf("%s: upstream %q, celvpa %q", key, a, b)}
		if key == annotationObserved {
			d.Kind = podObserved
		}
		if name, isBoost := strings.CutPrefix(key, annotationBoost); isBoost {
			d.Kind, d.Resource = podBoost, corev1.ResourceCPU
			d.Index = slices.IndexFunc(upstream.Pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
		}
		out = append(out, d)
	}
	return out
}

func merged[K comparable, V any](x, y map[K]V) map[K]V {
	out := map[K]V{}
	maps.Copy(out, x)
	maps.Copy(out, y)
	return out
}

// without1 is the multiset difference of two lists.
func without1(list, other []string) []string {
	rest := slices.Clone(other)
	var out []string
	for _, item := range list {
		if i := slices.Index(rest, item); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		} else {
			out = append(out, item)
		}
	}
	return out
}

// runPod runs a case about a pod on both sides.
func runPod(c testCase) (*podResult, error) {
	in, err := readPod(c)
	if err != nil {
		return nil, err
	}
	r := &podResult{In: in, Gates: c.Gates}
	if r.VPA, err = in.upstreamVPA(); err != nil {
		return nil, err
	}
	if r.Upstream, err = podByUpstream(c); err != nil {
		return nil, err
	}
	r.Celvpa, err = podByCelvpa(c)
	return r, err
}

// judgePod runs a case on both sides and returns the discrepancies that no entry of the table
// explains. met, unless nil, is called with the name of every entry that explained one. If an entry
// adapts the case for upstream, upstream's answer to that must equal celvpa's.
func judgePod(c testCase, met func(entry string)) (*podResult, []podDiscrepancy, error) {
	r, err := runPod(c)
	if err != nil {
		return nil, nil, err
	}
	report := func(names []string) {
		for _, name := range names {
			if met != nil {
				met(name)
			}
		}
	}
	evened, evens := c.copy(), []string(nil)
	for _, x := range deliberateOfPods {
		if x.even != nil && x.even(r, evened.Object) {
			evens = append(evens, x.name)
		}
	}
	other := *r
	if len(evens) > 0 {
		if other.Upstream, err = podByUpstream(evened); err != nil {
			return nil, nil, err
		}
	}
	var unexplained []podDiscrepancy
	for _, last := range []bool{false, true} {
		rest, names := r.unexplained(last)
		if len(rest) == 0 {
			report(names)
			return r, nil, nil
		}
		unexplained = rest
		if len(evens) > 0 {
			rest, more := other.unexplained(last)
			if len(rest) == 0 {
				report(append(slices.Clone(evens), more...))
				return r, nil, nil
			}
			if len(rest) < len(unexplained) {
				unexplained = rest
			}
		}
	}
	return r, unexplained, nil
}

// unexplained are the discrepancies without a deliberate difference that causes them; last takes also those that
// count only where no other does.
func (r *podResult) unexplained(last bool) (out []podDiscrepancy, met []string) {
	out = r.faultsOfOurs()
	if r.Upstream.Panicked != "" {
		return out, met
	}
	for _, d := range comparePod(&r.Upstream, &r.Celvpa) {
		i := slices.IndexFunc(deliberateOfPods, func(x podDifference) bool { return x.explains != nil && (last || !x.last) && x.explains(r, d) })
		if i < 0 {
			out = append(out, d)
		} else if !slices.Contains(met, deliberateOfPods[i].name) {
			met = append(met, deliberateOfPods[i].name)
		}
	}
	return out, met
}
