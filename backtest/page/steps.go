package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/celvpa/celvpa/backtest"
)

// happening is an event, or a change of the recommendation.
type happening struct {
	at     time.Time
	what   string
	detail string
	rules  []string
	reason string
}

// steps writes what happened to a container and by which rules, oldest first.
func (w *writer) steps(p *backtest.Policy, c *backtest.Container) {
	list := happenings(c.Series)
	if len(list) == 0 {
		w.Put("<p class=\"none\">Nothing happened to it, and its recommendation did not change.</p>\n")
		return
	}
	name := "policy " + p.Name + ", container " + c.Container + " of " + c.Namespace + "/" + c.Workload
	w.Put("<details class=\"fold\"><summary>Each step, and the rules that caused it: {} <span class=\"of\">{}</span></summary>\n", plural(len(list), "step"), name)
	w.Table("Steps: "+name, "Time", "What", "From and to", "Rules")
	for _, h := range list[:min(len(list), shown)] {
		w.Row()
		w.Cell("when")
		w.Time(h.at)
		w.Put("</td>")
		w.Word(h.what)
		w.Cells(h.detail)
		w.Cell("")
		for i, rule := range h.rules {
			if i > 0 {
				w.Put(", ")
			}
			w.Put("<code>{}</code>", rule)
		}
		if h.reason != "" {
			w.Put("<small>{}</small>", h.reason)
		}
		w.Put("</td></tr>\n")
	}
	w.EndTable()
	if n := len(list) - shown + c.Series.Cut + c.Series.CausesCut; n > 0 && len(list) > shown || c.Series.Cut+c.Series.CausesCut > 0 {
		w.Put("<p class=\"more\">{} are left out.</p>\n", plural(max(n, c.Series.Cut+c.Series.CausesCut), "later step"))
	}
	w.Put("</details>\n")
}

// names of what happens to pods.
var eventNames = map[backtest.EventType]string{
	backtest.Evicted: "pod evicted", backtest.Resized: "pod resized", backtest.OOMKill: "OOM kill", backtest.Started: "pod started", backtest.Ended: "pod ended",
}

func happenings(s *backtest.Series) []happening {
	var out []happening
	for i := range s.Causes {
		c := &s.Causes[i]
		out = append(out, happening{at: c.At, what: "new target", detail: both(c.CPU, c.Memory), rules: c.Rules})
	}
	for i := range s.Events {
		e := &s.Events[i]
		if e.Type == backtest.Started || e.Type == backtest.Ended {
			continue
		}
		h := happening{at: e.At, what: cmp.Or(eventNames[e.Type], string(e.Type)), detail: both(e.CPU, e.Memory), reason: e.Reason}
		if e.Type == backtest.OOMKill && e.Memory != nil {
			h.detail = "memory limit and use " + changed(e.Memory.From, e.Memory.To, bytes)
		}
		if e.Pod != "" {
			h.detail = strings.TrimPrefix(h.detail+"; pod "+e.Pod, "; ")
		}
		if e.Rule != "" {
			h.rules = []string{e.Rule}
		}
		out = append(out, h)
	}
	slices.SortStableFunc(out, func(a, b happening) int { return a.at.Compare(b.at) })
	return out
}

// both are changes of CPU and memory, in words.
func both(cpu, memory *backtest.Change) string {
	var parts []string
	if cpu != nil {
		parts = append(parts, "CPU "+changed(cpu.From, cpu.To, cores))
	}
	if memory != nil {
		parts = append(parts, "memory "+changed(memory.From, memory.To, bytes))
	}
	return strings.Join(parts, ", ")
}
