package backtest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// shard is a part of the cluster that no other part has an effect on: workloads, and the VPAs and
// disruption budgets that select their pods. Shards are replayed independently.
type shard struct {
	vpas      []*vpav1.VerticalPodAutoscaler
	workloads []*simulate.StagedWorkload
	budgets   []budget
	slots     []slot
	excess    model.Excess // of the usage that was read
}

// slot is a pod of the history. Evictions replace the pod that is in it; its usage goes on.
type slot struct {
	workload   int // in shard.workloads
	staged     *simulate.StagedPod
	containers []demand // those that the history names, by name
	first, end int64    // unix nanoseconds; the first and the last sample
}

// demand is what a container wanted to use, as the history has it.
type demand struct {
	name              string
	cpu, memory, ooms []history.Point
	series            [3]int       // in the store, by usagefile.Kind; -1 = none
	window            facts.Window // says which samples count at all
}

// budget is a PodDisruptionBudget.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
}

func (b *budget) selects(pod *corev1.Pod) bool {
	return b.Namespace == pod.Namespace && b.selector.Matches(labels.Set(pod.Labels))
}

// stage is the whole cluster, divided into shards.
type stage struct {
	*simulate.Stage
	limits map[string]*facts.LimitRanges                             // by namespace
	vpaOf  map[*simulate.StagedWorkload]*vpav1.VerticalPodAutoscaler // that selects its pods, the first by name
	shards []*shard
	notes  []string
}

// divide divides a cluster into shards, without the series that begin after a time.
func divide(s *simulate.Stage, spans []history.Span, until int64) *stage {
	out := &stage{Stage: s, limits: map[string]*facts.LimitRanges{}, vpaOf: map[*simulate.StagedWorkload]*vpav1.VerticalPodAutoscaler{}}
	for namespace, list := range s.LimitRanges {
		out.limits[namespace] = facts.FoldLimitRanges(list)
	}
	parts := newParts(len(s.Workloads) + len(s.VPAs))
	for i, v := range s.VPAs {
		for _, w := range out.selectedBy(v) {
			parts.join(w, len(s.Workloads)+i)
			if of := s.Workloads[w]; out.vpaOf[of] == nil || v.Name < out.vpaOf[of].Name {
				out.vpaOf[of] = v
			}
		}
	}
	budgets := out.budgets()
	for i := range budgets {
		last := -1
		for w, of := range s.Workloads {
			if !budgets[i].selects(of.Pods[0].First) && !budgets[i].selects(of.Pods[0].Next) {
				continue
			}
			if last >= 0 {
				parts.join(last, w)
			}
			last = w
		}
	}
	out.fill(parts, budgets, spans, until)
	out.shards = slices.DeleteFunc(out.shards, func(sh *shard) bool { return !slices.ContainsFunc(sh.workloads, out.reports) })
	return out
}

// reports says whether the report is about a workload. Others in its shard are replayed for their effect on it.
func (s *stage) reports(w *simulate.StagedWorkload) bool {
	v := s.vpaOf[w]
	return s.Selects == nil || v != nil && s.Selects(v)
}

// selectedBy lists the workloads whose pods a VPA selects, or that it targets.
func (s *stage) selectedBy(v *vpav1.VerticalPodAutoscaler) (out []int) {
	ref := target.Of(v)
	selector, problem := s.Resolver.Selector(nowhere, v)
	for i, w := range s.Workloads {
		targeted := w.Kind == ref.Kind && w.Name == ref.Name
		if w.Namespace == v.Namespace && (targeted || problem == nil && slices.ContainsFunc(w.Pods, selects(selector))) {
			out = append(out, i)
		}
	}
	return out
}

// selects matches the pods whose labels a selector matches.
func selects(selector labels.Selector) func(simulate.StagedPod) bool {
	return func(p simulate.StagedPod) bool {
		return selector.Matches(labels.Set(p.First.Labels)) || selector.Matches(labels.Set(p.Next.Labels))
	}
}

func (s *stage) budgets() (out []budget) {
	for i := range s.Budgets {
		b := &s.Budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			s.notes = append(s.notes, fmt.Sprintf("PodDisruptionBudget %s/%s is left out: spec.selector: %v", b.Namespace, b.Name, err))
			continue
		}
		out = append(out, budget{b, selector})
	}
	return out
}

// fill makes the shards.
func (s *stage) fill(parts parts, budgets []budget, spans []history.Span, until int64) {
	of := map[int]*shard{}
	byPod := map[string][]int{}
	for i, span := range spans {
		key := span.Pod.Namespace + "/" + span.Pod.Name
		if span.First <= until {
			byPod[key] = append(byPod[key], i)
		}
	}
	for i, w := range s.Workloads {
		root := parts.root(i)
		sh := of[root]
		if sh == nil {
			sh = &shard{}
			of[root] = sh
			s.shards = append(s.shards, sh)
		}
		sh.workloads = append(sh.workloads, w)
		for j := range w.Pods {
			p := &w.Pods[j]
			if made := newSlot(len(sh.workloads)-1, p, byPod[p.ID.Namespace+"/"+p.ID.Name], spans); len(made.containers) > 0 {
				sh.slots = append(sh.slots, made)
			}
		}
	}
	for i, v := range s.VPAs {
		if sh := of[parts.root(len(s.Workloads)+i)]; sh != nil {
			sh.vpas = append(sh.vpas, v)
		}
	}
	for _, sh := range s.shards {
		for i := range budgets {
			if slices.ContainsFunc(sh.slots, func(other slot) bool {
				return budgets[i].selects(other.staged.First) || budgets[i].selects(other.staged.Next)
			}) {
				sh.budgets = append(sh.budgets, budgets[i])
			}
		}
	}
}

// newSlot is a pod with its series, which are sorted by container.
func newSlot(workload int, p *simulate.StagedPod, series []int, spans []history.Span) slot {
	out := slot{workload: workload, staged: p}
	for _, i := range series {
		span := &spans[i]
		if !hasContainer(p.First, span.Container) {
			continue
		}
		if n := len(out.containers); n == 0 || out.containers[n-1].name != span.Container {
			out.containers = append(out.containers, demand{name: span.Container, series: [3]int{-1, -1, -1}})
		}
		out.containers[len(out.containers)-1].series[span.Kind] = i
		if out.first == 0 || span.First < out.first {
			out.first = span.First
		}
		out.end = max(out.end, span.Last)
	}
	return out
}

func hasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}

// read reads the usage of a shard up to a time, without what no policy and no measure is to see; forget drops it.
func (s *shard) read(store *history.Store, until int64) error {
	for i := range s.slots {
		for j := range s.slots[i].containers {
			d := &s.slots[i].containers[j]
			for kind, into := range map[usagefile.Kind]*[]history.Point{usagefile.CPU: &d.cpu, usagefile.Memory: &d.memory, usagefile.OOM: &d.ooms} {
				if d.series[kind] < 0 {
					continue
				}
				var err error
				if *into, err = store.Read(d.series[kind], nil); err != nil {
					return err
				}
				*into = slices.DeleteFunc(*into, func(p history.Point) bool { return p.At > until })
				*into = s.plausible(*into, s.slots[i].staged.ID, d, kind)
			}
		}
	}
	return nil
}

func (s *shard) forget() {
	for i := range s.slots {
		for j := range s.slots[i].containers {
			d := &s.slots[i].containers[j]
			d.cpu, d.memory, d.ooms = nil, nil, nil
		}
	}
}

// parts are disjoint sets of numbers.
type parts []int

func newParts(n int) parts {
	p := make(parts, n)
	for i := range p {
		p[i] = i
	}
	return p
}

func (p parts) root(i int) int {
	for p[i] != i {
		p[i] = p[p[i]]
		i = p[i]
	}
	return i
}

// join makes one set of two; the root is the smaller number.
func (p parts) join(i, j int) {
	a, b := p.root(i), p.root(j)
	p[max(a, b)] = min(a, b)
}
