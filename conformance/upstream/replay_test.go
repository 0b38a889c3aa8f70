package upstream

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	"github.com/celvpa/celvpa/controllers/facts"
)

// mismatch is one difference between the recommenders.
type mismatch struct {
	Kind string // what is compared
	Text string
}

// replayed is the result of a story.
type replayed struct {
	Mismatches []mismatch
	Counts     map[string]int    // of what was compared, and how
	Last       map[string]*known // what upstream knew in the end
}

// checkpointsWithMore counts the checkpoints that upstream reads and that have celvpa's own field.
const checkpointsWithMore = "checkpoints with a field that upstream does not know"

// Kinds of mismatch.
const (
	kindAccepted   = "whether a sample counts"
	kindVPAs       = "the VPAs that are known"
	kindPods       = "pods of a VPA"
	kindContainers = "containers of a VPA"
	kindHistory    = "first, last and number of samples"
	kindCPU        = "percentiles of CPU"
	kindMemory     = "percentiles of memory"
	kindAmounts    = "recommended amounts"
	kindCheckpoint = "checkpoints"
)

// replayBoth replays a story on upstream's recommender and on celvpa's, with a clock of its own, and
// compares them where the story says so and at its end. It stops at the first mismatch.
func replayBoth(t *testing.T, s story) replayed {
	return replay(t, s, func(s story, begin time.Time) recommending { return newByCelvpa(s, begin) })
}

func replay(t *testing.T, s story, other func(story, time.Time) recommending) (out replayed) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		out = replayNow(s, other)
	})
	return out
}

func replayNow(s story, other func(story, time.Time) recommending) replayed {
	begin := time.Now().Add(time.Duration(s.Flags.whole("test-begin-minute", 0)) * time.Minute)
	time.Sleep(time.Until(begin))
	out := replayed{Counts: map[string]int{}}
	upstream, celvpa := newByUpstream(s, begin), other(s, begin)
	taken := map[string]bool{} // samples that counted
	both := [2]recommending{upstream, celvpa}
	for i, h := range append(slices.Clone(s.Events), happens{Do: doCompare}) {
		if d := time.Until(begin.Add(time.Duration(h.At))); d > 0 {
			time.Sleep(d)
		}
		found := func(kind, format string, args ...any) {
			out.Mismatches = append(out.Mismatches, mismatch{kind, fmt.Sprintf("at %d, %s: ", i, h) + fmt.Sprintf(format, args...)})
		}
		switch h.Do {
		case doCPU, doMemory, doOOM:
			x, y := upstream.add(h), celvpa.add(h)
			out.Counts[fmt.Sprintf("%s accepted=%v", h.Do, x)]++
			one := happens{Do: h.Do, Namespace: h.Namespace, Name: h.Name, Container: h.Container, Amount: h.Amount, At: h.At + h.Later}
			again := taken[one.String()]
			if x {
				taken[one.String()] = true
			}
			if x != y && (s.Raw || h.Do != doMemory || !again) {
				found(kindAccepted, "upstream %v, celvpa %v", x, y)
			}
		case doRestart:
			x, y := upstream.checkpoints(), celvpa.checkpoints()
			for id, text := range x { // last digits that differ are compared where the story says compare
				if y[id] != nil && (!equal(checkpointOf(text).CPUHistogram, checkpointOf(y[id]).CPUHistogram) ||
					!equal(checkpointOf(text).MemoryHistogram, checkpointOf(y[id]).MemoryHistogram)) {
					y[id] = text
				}
			}
			upstream.restart(x)
			celvpa.restart(y)
		case doSwap:
			x, y := upstream.checkpoints(), celvpa.checkpoints()
			for _, text := range y {
				if bytes.Contains(text, []byte(`"resume":{`)) {
					out.Counts[checkpointsWithMore]++
				}
			}
			upstream.restart(y)
			celvpa.restart(x)
		case doCompare:
			compareKnown(upstream, celvpa, out.Counts, found)
		default:
			for _, side := range both {
				do(side, h)
			}
		}
		if len(out.Mismatches) > 0 {
			break
		}
	}
	out.Last = upstream.look()
	return out
}

func do(to recommending, h happens) {
	switch h.Do {
	case doVPA:
		to.setVPA(h)
	case doNoVPA:
		to.dropVPA(h.namespace(), h.Name)
	case doPod:
		to.setPod(h)
	case doNoPod:
		to.dropPod(h.namespace(), h.Name)
	case doCollect:
		to.collect()
	default:
		panic("nobody knows what " + h.Do + " is")
	}
}

// again is how often upstream is asked again after a mismatch: it sums the weights of several
// histories in random order.
const again = 40

// compareKnown compares all history and recommendations. If a container has the history of several
// kinds of pods, or open windows of several pods, upstream's sums depend on Go's map order. So
// upstream is asked again; a result that it never returns is a mismatch.
func compareKnown(upstream *byUpstream, celvpa recommending, counts map[string]int, found func(kind, format string, args ...any)) {
	theirs := celvpa.look()
	_, whole := celvpa.(*byCelvpa)
	counts["comparisons"]++
	var last []mismatch
	for try := range again {
		last = nil
		ours := upstream.look()
		note := func(kind, format string, args ...any) {
			last = append(last, mismatch{kind, fmt.Sprintf(format, args...)})
		}
		compareViews(upstream.oneHistory, ours, theirs, whole, counts, note)
		if len(last) == 0 {
			if try > 0 {
				counts["agreed when asked again"]++
			}
			break
		}
	}
	for try := range again {
		if len(last) > 0 && try == 0 || !whole {
			break
		}
		last = nil
		compareCheckpoints(upstream, celvpa, counts, func(kind, format string, args ...any) {
			last = append(last, mismatch{kind, fmt.Sprintf(format, args...)})
		})
		if len(last) == 0 {
			break
		}
	}
	for _, m := range last {
		found(m.Kind, "%s", m.Text)
	}
}

func compareViews(one func(checkpointID) bool, upstream, celvpa map[string]*known, whole bool, counts map[string]int, found func(kind, format string, args ...any)) {
	if x, y := slices.Sorted(maps.Keys(upstream)), slices.Sorted(maps.Keys(celvpa)); !slices.Equal(x, y) {
		found(kindVPAs, "upstream %v, celvpa %v", x, y)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(upstream)) {
		x, y := upstream[name], celvpa[name]
		if whole {
			compareUsage(one, name, x, y, counts, found)
		}
		compareAmounts(name, x.Recommended, y.Recommended, counts, found)
	}
}

func compareUsage(one func(checkpointID) bool, name string, x, y *known, counts map[string]int, found func(kind, format string, args ...any)) {
	if x.Pods != y.Pods {
		found(kindPods, "%s: upstream %d, celvpa %d", name, x.Pods, y.Pods)
	}
	xs, ys := slices.Sorted(maps.Keys(x.Containers)), slices.Sorted(maps.Keys(y.Containers))
	if !slices.Equal(xs, ys) {
		found(kindContainers, "%s: upstream %v, celvpa %v", name, xs, ys)
		return
	}
	for _, c := range xs {
		a, b := x.Containers[c], y.Containers[c]
		counts["containers"]++
		if !a.First.Equal(b.First) || !a.Last.Equal(b.Last) || a.Samples != b.Samples {
			found(kindHistory, "%s %s: upstream %s %s %d, celvpa %s %s %d", name, c, a.First, a.Last, a.Samples, b.First, b.Last, b.Samples)
		}
		compared := slices.Clone[[]float64]
		if namespace, vpa, _ := strings.Cut(name, "/"); !one(checkpointID{namespace, vpa, c}) {
			compared = inner
		}
		if !slices.Equal(compared(a.CPU), compared(b.CPU)) {
			found(kindCPU, "%s %s: upstream %v, celvpa %v", name, c, a.CPU, b.CPU)
		}
		if !slices.Equal(compared(a.Memory), compared(b.Memory)) {
			found(kindMemory, "%s %s: upstream %v, celvpa %v", name, c, a.Memory, b.Memory)
		}
	}
}

func compareAmounts(name string, x, y []recommended, counts map[string]int, found func(kind, format string, args ...any)) {
	names := func(list []recommended) (out []string) {
		for _, r := range list {
			out = append(out, r.Container)
		}
		return out
	}
	if !slices.Equal(names(x), names(y)) {
		found(kindAmounts, "%s: upstream recommends for %v, celvpa for %v", name, names(x), names(y))
		return
	}
	for i := range x {
		for _, bound := range []struct {
			name string
			x, y corev1.ResourceList
		}{
			{"target", x[i].Target, y[i].Target}, {"lowerBound", x[i].Lower, y[i].Lower},
			{"upperBound", x[i].Upper, y[i].Upper}, {"uncappedTarget", x[i].Uncapped, y[i].Uncapped},
		} {
			counts["amounts"]++
			if !slices.Equal(slices.Sorted(maps.Keys(bound.x)), slices.Sorted(maps.Keys(bound.y))) {
				found(kindAmounts, "%s %s %s: upstream %s, celvpa %s", name, x[i].Container, bound.name, shown(bound.x), shown(bound.y))
				continue
			}
			for r, q := range bound.x {
				other := bound.y[r]
				if q.Cmp(other) != 0 {
					found(kindAmounts, "%s %s %s: upstream %s, celvpa %s", name, x[i].Container, bound.name, shown(bound.x), shown(bound.y))
				} else if q.String() != other.String() {
					counts["amounts written otherwise"]++
				}
			}
		}
	}
}

func shown(list corev1.ResourceList) string { return string(mustJSON(list)) }

// compareCheckpoints compares the stored checkpoints. A single history of a single pod must match
// to the last bit. If several are merged, or the peaks of several pods are subtracted,
// floating-point sums may differ in the last digits, and rounded weights by one, or by more after a
// subtraction; reference times may differ if total weights match them.
func compareCheckpoints(upstream *byUpstream, celvpa recommending, counts map[string]int, found func(kind, format string, args ...any)) {
	x, y := upstream.checkpoints(), celvpa.checkpoints()
	window, _ := facts.WindowFor(bookFor(upstream.story).Default(), "", facts.Policy(nil), nil)
	for id, text := range x {
		if y[id] == nil {
			found(kindCheckpoint, "celvpa has none for %v", id)
			continue
		}
		a, b := checkpointOf(text), checkpointOf(y[id])
		counts["checkpoints"]++
		same := a.Version == b.Version && a.FirstSampleStart.Equal(&b.FirstSampleStart) && a.LastSampleStart.Equal(&b.LastSampleStart) &&
			a.TotalSamplesCount == b.TotalSamplesCount && a.LastUpdateTime.Equal(&b.LastUpdateTime) &&
			alike(a.CPUHistogram, b.CPUHistogram, window.CPUHalfLife) && alike(a.MemoryHistogram, b.MemoryHistogram, window.MemoryHalfLife)
		cpu, memory := equal(a.CPUHistogram, b.CPUHistogram), equal(a.MemoryHistogram, b.MemoryHistogram)
		if cpu && memory {
			counts["checkpoints equal to the bit"]++
		}
		if one := upstream.oneHistory(id); one && (!cpu || !memory && len(upstream.pods) == 1) {
			same = false
		}
		if !same {
			found(kindCheckpoint, "%v: upstream %s, celvpa %s", id, text, y[id])
		}
	}
	for id := range y {
		if x[id] == nil {
			found(kindCheckpoint, "upstream has none for %v", id)
		}
	}
}

func equal(x, y upstreamv1.HistogramCheckpoint) bool {
	return x.TotalWeight == y.TotalWeight && x.ReferenceTimestamp.Equal(&y.ReferenceTimestamp) && maps.Equal(x.BucketWeights, y.BucketWeights)
}

func checkpointOf(text []byte) *upstreamv1.VerticalPodAutoscalerCheckpointStatus {
	return converted[upstreamv1.VerticalPodAutoscalerCheckpointStatus](rawText(text))
}

// rawText is JSON.
type rawText []byte

func (r rawText) MarshalJSON() ([]byte, error) { return r, nil }

func alike(x, y upstreamv1.HistogramCheckpoint, halfLife time.Duration) bool {
	total := x.TotalWeight * math.Exp2(float64(x.ReferenceTimestamp.Sub(y.ReferenceTimestamp.Time))/float64(halfLife))
	// Subtracting heavy peaks in another order may change the digits of light ones.
	if math.Abs(total-y.TotalWeight) > 1e-3*max(total, y.TotalWeight)+2e-4 { // what is less than the least weight is nothing
		return false
	}
	for n := range 200 {
		if d := int64(x.BucketWeights[n]) - int64(y.BucketWeights[n]); d < -1 || d > 1 {
			return false
		}
	}
	return true
}
