package page

import (
	"time"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/markup"
)

// shapes are how events are drawn, around 0,0: nothing hangs on a colour.
var shapes = map[backtest.EventType]struct {
	class string
	path  markup.Text
}{
	backtest.Evicted: {"evicted", "<path class=\"evicted\" d=\"M-5 -5H5L0 5Z\"/>"},
	backtest.Resized: {"resized", "<path class=\"resized\" d=\"M0 -6L5 0L0 6L-5 0Z\"/>"},
	backtest.OOMKill: {"oom", "<path class=\"oom\" d=\"M-5 -5L5 5M5 -5L-5 5\"/>"},
}

// concerns says whether an event has to do with a resource: OOM kills with memory, others with what they
// change, or with both if they change neither.
func (r *resource) concerns(e *backtest.Event) bool {
	switch e.Type {
	case backtest.OOMKill:
		return r.binary
	case backtest.Evicted, backtest.Resized:
		return r.change(e) != nil || e.CPU == nil && e.Memory == nil
	}
	return false
}

// happened draws events under a chart, the last ones if there are many. The list of steps has them in
// text.
func (w *writer) happened(s *backtest.Series, r resource, from, to time.Time) {
	var list []*backtest.Event
	for i := range s.Events {
		if e := &s.Events[i]; r.concerns(e) && !e.At.Before(from) && !e.At.After(to) {
			list = append(list, e)
		}
	}
	list = list[max(0, len(list)-marks):]
	for _, e := range list {
		at := float64(e.At.Sub(from)) / float64(to.Sub(from))
		w.Put("<svg x=\"{}\" y=\"180\"><title>{} {}</title>", markup.Percent(at), e.At.UTC().Format("2 Jan 15:04"), eventNames[e.Type])
		w.Put(shapes[e.Type].path)
		w.Put("</svg>")
	}
}

// legend names the events that are drawn.
func (w *writer) legend(s *backtest.Series, r resource) {
	for _, kind := range []backtest.EventType{backtest.Evicted, backtest.Resized, backtest.OOMKill} {
		n := 0
		for i := range s.Events {
			if e := &s.Events[i]; e.Type == kind && r.concerns(e) {
				n++
			}
		}
		if n == 0 {
			continue
		}
		w.Put("<li><svg width=\"14\" height=\"12\" viewBox=\"-7 -6 14 12\">")
		w.Put(shapes[kind].path)
		w.Put("</svg> {}, {}", eventNames[kind], times(n))
		if n > marks {
			w.Put(", the last {} drawn", count(marks))
		}
		w.Put("</li>")
	}
}
