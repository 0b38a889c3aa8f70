package backtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// modelled says what the replay assumes. docs/backtest.md says more about each.
var modelled = []string{
	"Usage is as recorded, whatever the policy. A container that was throttled or killed might have used more, and with other resources a container might use more or less.",
	"A container is OOM-killed, and restarted at once, when a sample of its memory exceeds the limit in force. After an OOM in the history it wants more memory than it used.",
	"CPU above the limit in force is throttled. The recommender sees the limit, and the rest of the work is lost, not done later.",
	"Nodes always have room. An evicted pod is replaced at once and is ready in the next cycle, and a resize in place succeeds at once.",
	"Confidence grows with the number of samples in the history. With one every five minutes, bounds narrow more slowly than with one a minute.",
	"A pod starts with its first sample in the history and ends with its last. A workload has as many pods as the history has at that time.",
}

// outcome is what came out of a replay.
type outcome struct {
	workloads []workloadOutcome // as in the shard
	notes     []string
}

type workloadOutcome struct {
	obstacle   *Obstacle          // to any update; nil = pods were updated, or there is none
	whole      tally              // of all containers; evictions and resizes count once
	containers []containerOutcome // by name
}

type containerOutcome struct {
	name   string
	tally  *tally
	series *Series
}

func (r *replay) outcome() *outcome {
	if r.state != nil {
		if text := r.state.TakeExcess().String(); text != "" { // of a policy that accepts less than the others
			r.note("%s", text)
		}
	}
	out := &outcome{notes: r.notes}
	for i := range r.in.workloads {
		w := workloadOutcome{whole: r.whole[i]}
		if w.whole.evictions == 0 && w.whole.resizes == 0 {
			w.obstacle = r.obstacleOf(i)
		}
		for _, name := range slices.Sorted(maps.Keys(r.tallies[i])) {
			t := r.tallies[i][name]
			w.whole.add(t)
			w.containers = append(w.containers, containerOutcome{name: name, tally: t, series: r.series[i][name].finish()})
		}
		out.workloads = append(out.workloads, w)
	}
	return out
}

// obstacleOf is what kept pods of a workload from being updated.
func (r *replay) obstacleOf(workload int) *Obstacle {
	if found := r.obstacle[workload]; found != nil {
		return found
	}
	for _, v := range r.vpas {
		if verdict := v.Verdict(matcher.Update); v.Ignored(matcher.Update) == "" && !v.Takes(matcher.Update) && slices.Contains(v.workloads, workload) {
			return &Obstacle{verdict.Rule, verdict.Reason}
		}
	}
	return nil
}

// report puts the outcomes together.
func (b *bench) report() *Report {
	out := &Report{
		Window:   Window{From: clock(b.since), To: clock(b.to), Seconds: (b.to - b.since) / int64(time.Second)},
		Prices:   b.options.Prices,
		Modelled: slices.Concat(b.short(), b.excess(), []string{b.resolution()}, modelled),
	}
	for c := range b.candidates {
		out.Policies = append(out.Policies, b.policy(c))
	}
	front(out.Policies)
	return out
}

// short is a remark on a history that is too short for recommendations to settle.
func (b *bench) short() []string {
	var halfLife time.Duration
	for i := range b.candidates {
		if of := &b.candidates[i]; of.Book != nil {
			halfLife = max(halfLife, HalfLife(of.Book))
		}
	}
	length := time.Duration(b.to - b.from)
	if length >= halfLife {
		return nil
	}
	return []string{fmt.Sprintf("The history covers only %s, and a sample takes %s to lose half its weight. Recommendations have not settled, and bounds are wide, so few pods are updated.",
		duration.HumanDuration(length), duration.HumanDuration(halfLife))}
}

// HalfLife is the time in which samples lose half their weight, the longer one of CPU and memory: recommendations of less
// usage have not settled.
func HalfLife(book *compile.Rulebook) time.Duration {
	window, _ := facts.WindowFor(book.Default(), "", facts.Policy(nil), nil) // a replay says what fails
	return max(window.CPUHalfLife, window.MemoryHalfLife)
}

func (b *bench) resolution() string {
	return fmt.Sprintf("The recommender and the updater run every %d seconds. A sample holds until the next one, and for %d seconds at most.",
		b.interval/int64(time.Second), b.maxGap/int64(time.Second))
}

// policy is what came of a candidate.
func (b *bench) policy(c int) Policy {
	from := &b.candidates[c]
	out := Policy{Name: from.Name, Params: from.Params, Enforces: from.Enforces, Implicit: from.Implicit, SameAs: b.sameAs(c), Containers: []Container{}, Workloads: []Workload{}}
	window := seconds(b.to - b.since)
	var fleet tally
	classes := map[string]*classTally{}
	managed := 0
	for s, sh := range b.shards {
		result := b.of[c][s].out
		if result == nil {
			continue // an error says why
		}
		for i, w := range sh.workloads {
			if !b.reports(w) {
				continue
			}
			of := &result.workloads[i]
			fleet.addAll(&of.whole)
			if of.whole.ooms > 0 {
				out.Fleet.WorkloadsWithOOMs++
			}
			vpa := ""
			if v := b.vpaOf[w]; v != nil {
				vpa = v.Name
				managed++
				b.classify(classes, v, &of.whole)
			}
			out.Workloads = append(out.Workloads, Workload{Namespace: w.Namespace, Workload: w.Name, Kind: w.Kind, VPA: vpa, NeverUpdated: of.obstacle, Measures: of.whole.measures(window, b.options.Prices)})
			for _, c := range of.containers {
				out.Containers = append(out.Containers, Container{
					Namespace: w.Namespace, Workload: w.Name, Kind: w.Kind, Container: c.name,
					Measures: c.tally.measures(window, b.options.Prices), Series: c.series,
				})
			}
		}
	}
	slices.SortStableFunc(out.Containers, func(x, y Container) int {
		return compareNames(x.Namespace, x.Workload, x.Kind, y.Namespace, y.Workload, y.Kind)
	})
	slices.SortStableFunc(out.Workloads, func(x, y Workload) int {
		return compareNames(x.Namespace, x.Workload, x.Kind, y.Namespace, y.Workload, y.Kind)
	})
	out.Fleet.Measures = fleet.measures(window, b.options.Prices)
	out.Fleet.Workloads = len(out.Workloads)
	if days := float64(managed) * window / (24 * 3600); days > 0 {
		out.Fleet.EvictionsPerWorkloadDay = float64(out.Fleet.Evictions) / days
		out.Fleet.ResizesPerWorkloadDay = float64(out.Fleet.Resizes) / days
	}
	out.Fleet.Spread = spread(out.Containers, window)
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		of := classes[name]
		out.Classes = append(out.Classes, Class{Name: name, Workloads: of.workloads, Measures: of.measures(window, b.options.Prices)})
	}
	return out
}

// classTally is what is known about the workloads of a class.
type classTally struct {
	tally
	workloads int
}

// classify adds a workload to the class of its VPA.
func (b *bench) classify(classes map[string]*classTally, v *vpav1.VerticalPodAutoscaler, whole *tally) {
	if b.options.Class == nil {
		return
	}
	name := b.options.Class(v)
	if name == "" {
		return
	}
	of := classes[name]
	if of == nil {
		of = &classTally{}
		classes[name] = of
	}
	of.addAll(whole)
	of.workloads++
}

// compareNames compares namespaces, names and kinds of workloads.
func compareNames(namespaceA, nameA, kindA, namespaceB, nameB, kindB string) int {
	return slices.Compare([]string{namespaceA, nameA, kindA}, []string{namespaceB, nameB, kindB})
}

// sameAs names an earlier candidate with the same outcome throughout.
func (b *bench) sameAs(c int) string {
	for before := range c {
		if slices.Equal(b.of[before], b.of[c]) {
			return b.candidates[before].Name
		}
	}
	return ""
}

func spread(containers []Container, window float64) Spread {
	of := func(f func(*Container) float64) Quantiles {
		list := make([]float64, len(containers))
		for i := range containers {
			list[i] = f(&containers[i])
		}
		return quantiles(list)
	}
	var first []float64
	for i := range containers {
		if seconds := containers[i].FirstRecommendationSeconds; seconds != nil {
			first = append(first, float64(*seconds))
		}
	}
	return Spread{
		CPUSlackShare:         of(func(c *Container) float64 { return c.CPU.SlackShare }),
		MemorySlackShare:      of(func(c *Container) float64 { return c.Memory.SlackShare }),
		CPUOverRequestShare:   of(func(c *Container) float64 { return c.CPU.OverRequestShare }),
		MemOverRequestShare:   of(func(c *Container) float64 { return c.Memory.OverRequestShare }),
		ThrottledCoreSeconds:  of(func(c *Container) float64 { return c.CPU.ThrottledCoreSeconds }),
		OOMs:                  of(func(c *Container) float64 { return float64(c.OOMs) }),
		EvictionsPerDay:       of(func(c *Container) float64 { return ratio(float64(c.Evictions)*24*3600, window) }),
		FirstRecommendationIn: quantiles(first),
	}
}

// gibPerCore is how much memory counts as much as a core in a footprint without prices.
const gibPerCore = 4

// footprint is what is requested: its cost, or without prices core-hours, of which 4 GiB-hours of memory count as one.
func (m *Measures) footprint() float64 {
	if m.Cost != nil {
		return *m.Cost
	}
	return m.CPU.RequestedCoreHours + m.Memory.RequestedGiBHours/gibPerCore
}

// front marks the policies that no other one beats.
func front(policies []Policy) {
	for i := range policies {
		policies[i].Pareto = policies[i].Name != Hindsight && !slices.ContainsFunc(policies, func(other Policy) bool {
			return other.Name != Hindsight && other.beats(&policies[i])
		})
	}
}

// beats reports whether a policy is at least as good as another one in each of four, and better in
// one.
func (p *Policy) beats(other *Policy) bool {
	better := false
	for _, pair := range [][2]float64{
		{p.Fleet.footprint(), other.Fleet.footprint()},
		{float64(p.Fleet.OOMs), float64(other.Fleet.OOMs)},
		{float64(p.Fleet.Evictions), float64(other.Fleet.Evictions)},
		{p.Fleet.CPU.OverRequestShare, other.Fleet.CPU.OverRequestShare},
	} {
		if pair[0] > pair[1] {
			return false
		}
		better = better || pair[0] < pair[1]
	}
	return better
}
