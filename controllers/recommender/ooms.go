package recommender

import (
	"slices"
	"time"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/engine"
)

const (
	// maxOOMs is how many OOMs of a container are kept, of those that rules judged and of the others.
	maxOOMs = 10
	// maxOOMContainers is of how many containers of a workload: the pods of one may each have others.
	maxOOMContainers = 500
)

// oomLog holds the last OOMs of a container.
type oomLog struct {
	judged []answers.OOM // rules did something about them
	others []answers.OOM // dropped before, mostly
}

// AddOOM records that a container ran out of memory, by the rules of the VPA whose policies count
// for it, unless it was counted before. It also returns the sample, in bytes, that stands for it; 0
// when there is none.
func (s *State) AddOOM(o model.OOM, now time.Time) (taken model.Taken, sample int64) {
	trace, again, resumed := &engine.Trace{}, false, s.cluster.Resumed(o.Pod, o.Container)
	taken = s.cluster.AddOOM(o, now, func(of *model.Workload, reported, peak int64) (bytes int64, ok bool) {
		defer func() { sample = bytes }()
		kill := facts.OOM{Reported: reported, Share: o.Share, Peak: peak}
		if of != nil {
			w := s.workloads[of.ID]
			if w != nil && !resumed && o.At.Before(w.judged[o.Container]) {
				again = true
				return 0, false
			}
			if w != nil && w.Chosen.Plan != nil {
				s.contained(w, "judging that it ran out of memory", func() {
					e := s.effective(w, o.Container)
					var failed []*engine.RuleError
					bytes, ok, failed = facts.OOMSample(e.plan, o.Container, e.record, kill, trace)
					s.failed(w, "OOM of "+o.Container, "OOM may not be recorded", failed)
				})
				return bytes, ok
			}
		}
		bytes, ok, failed := facts.OOMSample(s.rules.Default(), o.Container, facts.Policy(nil), kill, nil)
		policy.Report(s.logger, "OOM may not be recorded", failed...)
		return bytes, ok
	})
	if again {
		taken = model.Old
	}
	if of := s.cluster.Governor(o.Pod); of != nil && s.workloads[of.ID] != nil {
		s.workloads[of.ID].keepOOM(o, taken, sample, trace.Steps())
	}
	return taken, sample
}

// keepOOM keeps an OOM with what came of it, unless its pod has no such container: events may name
// any. The items of the steps are its time.
func (w *Workload) keepOOM(o model.OOM, taken model.Taken, sample int64, steps []engine.Step) {
	if taken == model.Unknown {
		return
	}
	log := w.ooms[o.Container]
	if log == nil {
		if len(w.ooms) >= maxOOMContainers {
			return
		}
		if w.ooms == nil {
			w.ooms = map[string]*oomLog{}
		}
		log = &oomLog{}
		w.ooms[o.Container] = log
	}
	for i := range steps {
		steps[i].Item = o.At.UTC().Format(time.RFC3339)
	}
	oom := answers.OOM{Time: o.At, Pod: o.Pod.Name, Outcome: taken.String(), Reported: memory(max(o.Memory, o.Share)), Steps: steps}
	if taken == model.Accepted {
		oom.CountsAs = memory(sample)
	}
	list := &log.judged
	if len(steps) == 0 {
		list = &log.others
	}
	*list = append(*list, oom)
	if len(*list) > maxOOMs {
		*list = slices.Delete(*list, 0, 1)
	}
}

// last lists the OOMs of a container by time, newest last.
func (l *oomLog) last() []answers.OOM {
	if l == nil {
		return nil
	}
	out := slices.Concat(l.judged, l.others)
	slices.SortStableFunc(out, func(a, b answers.OOM) int { return a.Time.Compare(b.Time) })
	return out
}

// steps are the last ones of the rules about OOMs.
func (l *oomLog) steps() []engine.Step {
	if l == nil {
		return nil
	}
	var out []engine.Step
	for _, o := range l.judged {
		out = append(out, o.Steps...)
	}
	return out[max(0, len(out)-maxOOMs):]
}

// recount is how far before the last checkpoint reported OOMs are counted again if it does not say
// which ones were: it then lacks the peak of the current memory window. Eviction events exist just as
// long.
const recount = time.Hour

// counted notes that the checkpoint of a container was written at a time, with all that was known
// then but for memory windows that were not over. No later than now: a process whose clock was ahead
// must not have OOMs ignored until then.
func (w *Workload) counted(container string, at, now time.Time) {
	if at.IsZero() {
		return
	}
	if at.After(now) {
		at = now
	}
	if w.judged == nil {
		w.judged = map[string]time.Time{}
	}
	w.judged[container] = at.Add(-recount)
}
