package backtest

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// nowhere is the context of lookups in memory.
var nowhere = context.Background()

// replay is one policy on one shard.
type replay struct {
	*setting
	in     *shard
	policy *Candidate
	pods   []livePod // by slot
	vpas   []*liveVPA
	state  *recommender.State // nil: the policy makes no recommendations

	tallies  []map[string]*tally // by workload, then container
	whole    []tally             // evictions and resizes of workloads, by workload
	touched  []int               // pods that this cycle evicted or resized, by workload
	obstacle []*Obstacle         // the first to an update, by workload
	series   []map[string]*recorder
	samples  []arrival
	ooms     []model.OOM
	changed  bool             // pods came or went since the recommender last looked
	memory   podupdate.Memory // of the updater
	made     int              // pods, for their UIDs
	notes    []string
}

// setting is what all replays of a backtest have in common.
type setting struct {
	*stage
	from, to int64 // unix nanoseconds
	since    int64 // from when on figures count
	interval int64
	maxGap   int64
	points   int                // of series; 0 = none are recorded
	passed   func(cycles int64) // of each pod
	thorough bool               // every pod is assessed in every cycle, changed or not
	listen   func(policy string, at time.Time, v *vpav1.VerticalPodAutoscaler)
}

// livePod is what is in a slot.
type livePod struct {
	pod        *corev1.Pod // nil before the first sample and after the last
	name       string      // of the pod, or of the last one
	born       int         // pods so far
	containers []liveContainer
	changer    *liveVPA // whose updates change the running pod
	other      string   // the VPA by which admission would replace it, if that is another one

	assessed *podupdate.Candidate // what the updater found out last; nil = assess it again
	version  int                  // of the recommendation that it was assessed by
}

// liveContainer is a container of the pod in a slot.
type liveContainer struct {
	*demand
	index    int // in the pod
	next     [3]int
	meters   [resourceKinds]meter
	started  int64
	tally    *tally
	recorder *recorder
}

// arrival is a sample on its way to the recommender.
type arrival struct {
	at        int64
	slot      int
	container int
	resource  model.Resource
	amount    int64
}

func newReplay(s *setting, in *shard, c *Candidate) *replay {
	r := &replay{setting: s, in: in, policy: c, pods: make([]livePod, len(in.slots)), touched: make([]int, len(in.workloads))}
	for range in.workloads {
		r.obstacle = append(r.obstacle, nil)
		r.tallies, r.whole, r.series = append(r.tallies, map[string]*tally{}), append(r.whole, tally{}), append(r.series, map[string]*recorder{})
	}
	for i := range in.slots {
		slot := &in.slots[i]
		p := &r.pods[i]
		p.containers = make([]liveContainer, len(slot.containers))
		for j := range slot.containers {
			d := &slot.containers[j]
			t := r.tallies[slot.workload][d.name]
			if t == nil {
				t = &tally{firstSeen: math.MaxInt64}
				r.tallies[slot.workload][d.name] = t
				if s.points > 0 {
					r.series[slot.workload][d.name] = newRecorder(s)
				}
			}
			t.firstSeen = min(t.firstSeen, slot.first)
			p.containers[j] = liveContainer{demand: d, tally: t, recorder: r.series[slot.workload][d.name]}
			for k := range resourceKinds {
				p.containers[j].meters[k] = meter{tally: t, kind: k}
			}
		}
	}
	if c.Book != nil {
		r.state = recommender.NewState(model.UnusedGrace, logr.New(&noteSink{to: r}), nil)
		r.state.Quiet()
		r.state.Objects = r.Objects
		r.state.UseRules(c.Book)
		r.useVPAs()
	}
	return r
}

// cyclesPerProgress is how many cycles are run from one report of progress to the next.
const cyclesPerProgress = 1440

// run replays the whole window.
func (r *replay) run(ctx context.Context) error {
	cycles := int64(0)
	for now := r.from + r.interval; now <= r.to; now += r.interval {
		if cycles++; cycles%cyclesPerProgress == 0 && r.passed != nil {
			r.passed(cyclesPerProgress * int64(len(r.in.slots)))
		}
		r.arrive(now)
		if r.state != nil {
			r.cycle(time.Unix(0, now).UTC())
		}
		if now == r.since {
			r.measureAnew(now)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	r.arrive(r.to)
	r.advance(r.to)
	r.closeSeries(r.to)
	return nil
}

// measureAnew drops the figures up to a time, and leaves what is in force.
func (r *replay) measureAnew(now int64) {
	r.advance(now)
	clear(r.whole)
	for _, of := range r.tallies {
		for _, t := range of {
			*t = tally{firstSeen: t.firstSeen, first: t.first}
		}
	}
}

func (r *replay) advance(to int64) {
	for i := range r.pods {
		if r.pods[i].pod != nil {
			r.pods[i].advance(to)
		}
	}
}

func (p *livePod) advance(to int64) {
	for i := range p.containers {
		for k := range p.containers[i].meters {
			p.containers[i].meters[k].advance(to)
		}
	}
}

// arrive lets time pass: pods start and end, usage is measured against what is in force, and samples
// and OOMs wait for the recommender.
func (r *replay) arrive(now int64) {
	r.samples, r.ooms = r.samples[:0], r.ooms[:0]
	for i := range r.in.slots {
		slot, p := &r.in.slots[i], &r.pods[i]
		if p.pod == nil && p.born == 0 && slot.first <= now {
			r.start(i, slot.first)
		}
		if p.pod == nil {
			continue
		}
		for j := range p.containers {
			r.usage(i, j, min(now, slot.end))
		}
		if slot.end <= now && slot.end < r.to {
			r.end(i)
		}
	}
	slices.SortFunc(r.samples, func(a, b arrival) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.slot, b.slot), cmp.Compare(a.container, b.container), cmp.Compare(a.resource, b.resource))
	})
	r.closeSeries(now)
}

// usage replays what a container wanted up to a time.
func (r *replay) usage(slot, container int, now int64) {
	c := &r.pods[slot].containers[container]
	for c.next[usagefile.CPU] < len(c.cpu) && c.cpu[c.next[usagefile.CPU]].At <= now {
		p := c.cpu[c.next[usagefile.CPU]]
		c.next[usagefile.CPU]++
		m := &c.meters[cpu]
		m.sample(p.At, p.Amount, p.At+r.maxGap)
		c.recorder.usage(cpu, p.Amount)
		r.observe(arrival{p.At, slot, container, model.CPU, capped(p.Amount, m.limit)})
	}
	for {
		memoryDue := c.next[usagefile.Memory] < len(c.memory) && c.memory[c.next[usagefile.Memory]].At <= now
		oomDue := c.next[usagefile.OOM] < len(c.ooms) && c.ooms[c.next[usagefile.OOM]].At <= now
		switch {
		case memoryDue && (!oomDue || c.memory[c.next[usagefile.Memory]].At <= c.ooms[c.next[usagefile.OOM]].At):
			p := c.memory[c.next[usagefile.Memory]]
			c.next[usagefile.Memory]++
			m := &c.meters[memory]
			m.sample(p.At, p.Amount, p.At+r.maxGap)
			c.recorder.usage(memory, p.Amount)
			r.observe(arrival{p.At, slot, container, model.Memory, capped(p.Amount, m.limit)})
			if m.limit > 0 && p.Amount > m.limit {
				r.oom(slot, c, p.At, p.Amount)
			}
		case oomDue:
			p := c.ooms[c.next[usagefile.OOM]]
			c.next[usagefile.OOM]++
			r.recordedOOM(slot, container, p.At, p.Amount)
		default:
			return
		}
	}
}

// capped is what can be seen of usage under a limit; 0 = none.
func capped(usage, limit int64) int64 {
	if limit > 0 {
		return min(usage, limit)
	}
	return usage
}

func (r *replay) observe(a arrival) {
	if r.state != nil {
		r.samples = append(r.samples, a)
	}
}

// recordedOOM replays an OOM of the history: the container wanted more than it used then, or than
// the limit of that time. Where more is in force now, it gets that.
func (r *replay) recordedOOM(slot, container int, at, used int64) {
	c := &r.pods[slot].containers[container]
	if used == 0 {
		used = limitOf(r.in.slots[slot].staged.First, c.index, memory)
	}
	if used == 0 {
		return
	}
	wanted := used + 1
	if limit := c.meters[memory].limit; limit > 0 && wanted > limit {
		r.oom(slot, c, at, wanted)
		return
	}
	r.observe(arrival{at, slot, container, model.Memory, wanted})
}
