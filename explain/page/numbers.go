package page

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/markup"
	"github.com/celvpa/celvpa/simulate"
)

// open is how many containers are unfolded, on paper too.
const open = 3

// numbers writes the way of each number, a fold a container.
func numbers(w *writer, r *explain.Report) {
	groups := byContainer(r.Resources)
	w.Put("<p>For each resource: from usage by the rules to the target, by admission to new pods, and what the pods have now.</p>\n")
	having := podsHaving(r)
	w.Folds("containers", len(groups), markup.Shown, func(from, to int) {
		for i, g := range groups[from:to] {
			container(w, r, g, having, from+i < open)
		}
	})
}

// byContainer cuts the list, which is in the order of containers.
func byContainer(list []explain.Amounts) [][]explain.Amounts {
	var out [][]explain.Amounts
	for i, a := range list {
		if i == 0 || a.Container != list[i-1].Container {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], a)
	}
	return out
}

func container(w *writer, r *explain.Report, group []explain.Amounts, having map[place]*held, opened bool) {
	w.Put("<details class=\"container\"")
	if opened {
		w.Put(" open")
	}
	w.Put("><summary><h3>{}</h3>", nameOf(group[0].Container))
	for _, a := range group {
		w.Put(" <span class=\"brief\">{} <strong>{}</strong></span>", a.Resource, brief(a, having))
	}
	w.Put("</summary>\n")
	for _, a := range group {
		w.Put("<article>\n<h4>{} <span class=\"of\">of {}</span></h4>\n", a.Resource, nameOf(a.Container))
		flow(w, a, having)
		w.Put("<div class=\"charts\">\n")
		bars(w, a, having)
		overTime(w, r, a, having)
		w.Put("</div>\n")
		if len(a.Bounds) > 0 {
			w.Put("<details class=\"fold\"><summary>Rules that set the bounds of {} of {}</summary>\n", a.Resource, nameOf(a.Container))
			steps(w, a.Resource+" bounds of "+nameOf(a.Container), a.Bounds)
			w.Put("</details>\n")
		}
		w.Put("</article>\n")
	}
	w.Put("</details>\n")
}

func nameOf(container string) string {
	if container == "" {
		return "the pod as a whole"
	}
	return "container " + container
}

// brief is what the pods request now and what is recommended.
func brief(a explain.Amounts, having map[place]*held) string {
	now := "unset"
	if h := having[place{a.Container, "requests." + a.Resource}]; h != nil {
		now = h.now.brief()
	}
	return now + " → " + cmp.Or(a.Target, "no target")
}

// flow writes the way of a number from usage to the pods.
func flow(w *writer, a explain.Amounts, having map[place]*held) {
	w.Put("<ol class=\"flow\" aria-label=\"Way of {} of {}\">\n<li><h5>Usage</h5>", a.Resource, nameOf(a.Container))
	usage(w, a)
	w.Put("</li>\n<li class=\"rules\"><h5>Rules</h5>")
	way(w, a)
	w.Put("</li>\n<li><h5>Target</h5>")
	w.amount("", a.Target, "none")
	if a.LowerBound != "" || a.UpperBound != "" {
		w.amount("lower bound", a.LowerBound, "none")
		w.amount("upper bound", a.UpperBound, "none")
	}
	if a.Uncapped != "" && a.Uncapped != a.Target {
		w.amount("uncapped", a.Uncapped, "none")
	}
	w.Put("</li>\n<li><h5>Admission</h5>")
	podAmounts(w, a, having, func(h *held) *counts { return &h.new })
	w.Put("</li>\n<li><h5>Pods now</h5>")
	podAmounts(w, a, having, func(h *held) *counts { return &h.now })
	w.Put("</li>\n</ol>\n")
}

// usage writes the percentile that became the target, or else the highest ones.
func usage(w *writer, a explain.Amounts) {
	used := taken(a)
	switch {
	case len(a.Usage) == 0:
		w.Put("<p class=\"none\">No usage is known.</p>")
	case used >= 0:
		w.amount("percentile "+a.Usage[used].Percent, a.Usage[used].Amount, "none")
	default:
		for _, p := range a.Usage[max(0, len(a.Usage)-3):] {
			w.amount("percentile "+p.Percent, p.Amount, "none")
		}
	}
	if a.LastUsage != "" {
		w.amount("last", a.LastUsage, "none")
	}
}

// taken is the index of the percentile that the first rule made the target, or -1.
func taken(a explain.Amounts) int {
	return slices.IndexFunc(a.Usage, func(p answers.Percentile) bool { return p.Used })
}

func way(w *writer, a explain.Amounts) {
	steps := a.Way
	if len(steps) == 0 {
		if a.Target == "" {
			w.Put("<p class=\"none\">No rule set a target.</p>")
		} else {
			w.Put("<p class=\"none\">Which rules set the target is not known.</p>")
		}
		return
	}
	w.Put("<ol class=\"way\">")
	for _, s := range steps[:min(len(steps), markup.Shown)] {
		w.Put("<li><p>")
		if s.Item != "" && s.Item != "target" {
			w.Put("<span class=\"of\">{}</span> ", s.Item)
		}
		if s.Error != "" {
			w.Put("<span class=\"from\">{}</span> <strong>failed</strong></p><p>{}</p>", s.From, s.Error)
		} else {
			w.Put("<span class=\"from\">{}</span> <span class=\"to\">→ </span><strong>{}</strong>{}</p>", cmp.Or(s.From, "unset"), cmp.Or(s.To, "unset"), readable(s.To))
		}
		rule(w, s)
		w.Put("</li>")
	}
	w.Put("</ol>")
	if n := len(steps) - markup.Shown; n > 0 {
		w.Put("<p class=\"more\">{} more rules are left out.</p>", strconv.Itoa(n))
	}
}

// rule writes which rule made a step, where it stands, and why.
func rule(w *writer, s engine.Step) {
	if s.Reason != "" {
		w.Put("<p class=\"why\">{}</p>", s.Reason)
	}
	w.Put("<p class=\"rule\"><code>{}</code> {} <span class=\"at\">", s.Path(), s.Version)
	if s.Overlay != "" {
		w.Put("overlay {}, ", s.Overlay)
	}
	w.Put("{}</span></p>", s.At)
}

// amount writes a quantity under what it is, or what stands for none.
func (w *writer) amount(of, quantity, missing string) {
	w.Put("<p class=\"amount\">")
	if of != "" {
		w.Put("<span class=\"of\">{}</span> ", of)
	}
	w.Put("<strong>{}</strong><small>{}</small></p>", cmp.Or(quantity, missing), readable(quantity))
}

func podAmounts(w *writer, a explain.Amounts, having map[place]*held, which func(*held) *counts) {
	any := false
	for _, field := range []string{"requests.", "limits."} {
		h := having[place{a.Container, field + a.Resource}]
		if h == nil {
			continue
		}
		any = true
		for _, c := range which(h).top(3) {
			of := field[:len(field)-2] // request, limit
			if len(*which(h)) > 1 {
				of += ", " + simulate.Counted(c.pods, "pod")
			}
			w.amount(of, c.value, "unset")
		}
		if n := len(*which(h)) - 3; n > 0 {
			w.Put("<p class=\"more\">and {}</p>", simulate.Counted(n, "other value"))
		}
	}
	if !any {
		w.Put("<p class=\"none\">No pod is known.</p>")
	}
}
