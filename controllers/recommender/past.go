package recommender

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// past is what was recommended for a container in the last day: a fact of container.recommend. It is kept
// for VPAs whose rules read it.
type past struct {
	begun   time.Time     // since when it is kept
	changed time.Time     // when the target changed last; zero = not since begun
	target  facts.Amounts // the last one
	hours   []targetHour  // by begin
}

// targetHour are the targets of one hour, with the one that it began with.
type targetHour struct {
	begin           time.Time
	lowest, highest facts.Amounts
}

// view is the usage of a workload, with the other facts that its rules read.
func (s *State) view(w *Workload, now time.Time) model.View {
	out := w.model.View()
	past, requests := w.asks(facts.ReadsPast), w.asks(facts.ReadsRequests)
	objects := s.asksObjects(w)
	if !past && !requests && !objects {
		return out
	}
	for i := range out.Containers {
		c := &out.Containers[i]
		if past {
			c.Input.Past = w.pastOf(c.Container, now).facts(now)
			c.Input.Past.OOMs = w.ooms[c.Container].since(now.Add(-facts.PastTime))
		}
		if objects {
			c.Input.Objects = s.Objects
		}
		if requests {
			c.Input.Requests, c.Input.Limits = w.model.Largest(c.Container)
		}
	}
	return out
}

// asksObjects reports whether a recommendation may change although usage and the VPA do not.
func (s *State) asksObjects(w *Workload) bool { return s.Objects != nil && w.asks(facts.ReadsObjects) }

// asks reports whether the rules of the VPA read something, or those that are tried beside them.
func (w *Workload) asks(reads func(*engine.Plan) bool) bool {
	return w.Chosen.Plan != nil && reads(w.Chosen.Plan) || slices.ContainsFunc(w.Chosen.Shadows, func(s compile.Shadow) bool { return reads(s.Plan) })
}

// pastOf begins with the target in the status of the VPA.
func (w *Workload) pastOf(container string, now time.Time) *past {
	if w.past == nil {
		w.past = map[string]*past{}
	}
	p := w.past[container]
	if p == nil {
		p = &past{begun: now}
		if before := recommendedFor(w.VPA, container); before != nil {
			p.note(facts.AmountsOf(before.Target), now)
		}
		w.past[container] = p
	}
	return p
}

// noteTargets notes what is recommended now, if rules read it later.
func (w *Workload) noteTargets(r *vpav1.RecommendedPodResources, now time.Time) {
	if !w.asks(facts.ReadsPast) {
		w.past = nil
		return
	}
	for _, c := range r.ContainerRecommendations {
		w.pastOf(c.ContainerName, now).note(facts.AmountsOf(c.Target), now)
	}
}

func (p *past) note(target facts.Amounts, now time.Time) {
	if target == (facts.Amounts{}) {
		return
	}
	before := p.target
	if before != target && before != (facts.Amounts{}) {
		p.changed = now
	}
	p.target = target
	if last := len(p.hours) - 1; last < 0 || now.Truncate(time.Hour).After(p.hours[last].begin) {
		p.hours = append(p.hours, targetHour{begin: now.Truncate(time.Hour), lowest: before, highest: before})
	}
	hour := &p.hours[len(p.hours)-1]
	hour.lowest, hour.highest = hour.lowest.Smaller(target), hour.highest.Larger(target)
	for len(p.hours) > 1 && p.hours[0].ended(now) {
		p.hours = slices.Delete(p.hours, 0, 1)
	}
}

// ended reports whether an hour is over for longer than facts.PastTime.
func (h targetHour) ended(now time.Time) bool {
	return now.Sub(h.begin) >= facts.PastTime+time.Hour
}

func (p *past) facts(now time.Time) facts.Past {
	out := facts.Past{Known: min(max(0, now.Sub(p.begun)), facts.PastTime), Lowest: p.target, Highest: p.target}
	for _, h := range p.hours {
		if !h.ended(now) {
			out.Lowest, out.Highest = out.Lowest.Smaller(h.lowest), out.Highest.Larger(h.highest)
		}
	}
	if !p.changed.IsZero() {
		out.Unchanged = max(0, now.Sub(p.changed))
	}
	return out
}

// storePast adds to the checkpoint of a container what was recommended for it.
func (w *Workload) storePast(container string, status *vpav1.VerticalPodAutoscalerCheckpointStatus) {
	p := w.past[container]
	if p == nil || status.Resume == nil {
		return
	}
	out := &vpav1.CheckpointPast{Begun: *vpav1.NewInstant(p.begun), Changed: vpav1.NewInstant(p.changed), Target: written(p.target)}
	for _, h := range p.hours {
		out.Hours = append(out.Hours, vpav1.CheckpointHour{Begin: *vpav1.NewInstant(h.begin), Lowest: written(h.lowest), Highest: written(h.highest)})
	}
	status.Resume.Past = out
}

// resumePast takes up what a checkpoint says was recommended for a container. The error says why it cannot.
func (w *Workload) resumePast(container string, status *vpav1.VerticalPodAutoscalerCheckpointStatus, now time.Time) error {
	if status.Resume == nil || status.Resume.Past == nil || !w.asks(facts.ReadsPast) {
		return nil
	}
	from := status.Resume.Past
	p := &past{begun: from.Begun.At(), changed: from.Changed.At(), target: read(from.Target)}
	for _, h := range from.Hours {
		p.hours = append(p.hours, targetHour{begin: h.Begin.At(), lowest: read(h.Lowest), highest: read(h.Highest)})
	}
	if err := p.fault(now); err != nil {
		return fmt.Errorf("status.resume.past: %w", err)
	}
	if w.past == nil {
		w.past = map[string]*past{}
	}
	w.past[container] = p
	return nil
}

// fault is why a past cannot be one that this program kept.
func (p *past) fault(now time.Time) error {
	times := []time.Time{p.begun, p.changed}
	for i, h := range p.hours {
		if i > 0 && !h.begin.After(p.hours[i-1].begin) {
			return errors.New("hours are out of order")
		}
		times = append(times, h.begin)
	}
	switch {
	case len(p.hours) > int(facts.PastTime/time.Hour)+1:
		return fmt.Errorf("it has %d hours", len(p.hours))
	case slices.ContainsFunc(times, func(t time.Time) bool { return t.After(now) }):
		return errors.New("it has a time in the future")
	}
	return nil
}

func written(a facts.Amounts) vpav1.CheckpointAmounts {
	return vpav1.CheckpointAmounts{MilliCPU: a.CPU, Memory: a.Memory}
}

func read(a vpav1.CheckpointAmounts) facts.Amounts {
	return facts.Amounts{CPU: max(0, a.MilliCPU), Memory: max(0, a.Memory)}
}

// since counts the OOM kills after a time that rules judged.
func (l *oomLog) since(begin time.Time) (n int) {
	if l == nil {
		return 0
	}
	for _, o := range l.judged {
		if o.Time.After(begin) {
			n++
		}
	}
	return n
}
