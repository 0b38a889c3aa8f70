package page

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/markup"
	"github.com/celvpa/celvpa/simulate"
)

// traced is how many pods have their rules written out.
const traced = 20

// pods writes what happens to each pod next.
func pods(w *writer, r *explain.Report) {
	if len(r.Pods) == 0 {
		w.Put("<p>No running pod is known.</p>\n")
		return
	}
	w.Put("<p>In the order in which the updater takes them.</p>\n")
	w.Folds("pods", len(r.Pods), markup.Shown, func(from, to int) {
		w.Table("Pods", "Pod", "Next", "Why", "Priority", "Change")
		for _, p := range r.Pods[from:to] {
			pod(w, p)
		}
		w.EndTable()
	})
	for i, p := range r.Pods {
		if i == traced || w.Full() {
			w.Put("<p class=\"more\">The rules that ran for the other pods are left out.</p>\n")
			break
		}
		if len(p.Steps) > 0 {
			w.Put("<details class=\"fold\"><summary>Rules that ran for pod {}</summary>\n", p.Pod)
			steps(w, p.Pod, p.Steps)
			w.Put("</details>\n")
		}
	}
}

func pod(w *writer, p explain.Pod) {
	w.Row()
	w.HeadCell()
	w.Put("{}<small>{}</small></th>", p.Pod, about(p))
	w.Cell("")
	w.Put("<strong>{}</strong></td>", p.Action)
	w.Cell("")
	if p.Rule != "" {
		w.Put("<p class=\"labels\"><code>{}</code> ", p.Rule)
		w.label(p.Class, p.Class)
		w.Put("</p>")
	}
	w.Put("<p>{}</p>", p.Reason)
	for _, more := range [][2]string{
		{"Until", p.Until}, {"Resize", p.Resize}, {"Its node could not give", p.Infeasible}, {"Postponed by the last cycle", p.Postponed}, {"To be postponed", p.Later},
		{"Evictions that the API server refused", refused(p.Evictions)}, {"Resizes that the API server refused", refused(p.Resizes)},
	} {
		if more[1] != "" {
			w.Put("<p><span class=\"of\">{}:</span> {}</p>", more[0], more[1])
		}
	}
	w.Put("</td>")
	w.Cells(p.Priority.String())
	w.Cell("")
	if len(p.Change) == 0 {
		w.Put("none")
	} else {
		w.Put("<ul class=\"plain\">")
		for i, c := range p.Change {
			if i == markup.Shown {
				w.Put("<li>and {}</li>", simulate.Counted(len(p.Change)-markup.Shown, "other change"))
				break
			}
			w.Put("<li>{}</li>", c.String())
		}
		w.Put("</ul>")
	}
	w.Put("</td></tr>\n")
}

func refused(r *answers.Refusals) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%d, the last at %s: %s", r.Times, r.Last.UTC().Format(markup.Clock), r.Message)
}

// about is where a pod runs, and how.
func about(p explain.Pod) string {
	var words []string
	for _, word := range []string{p.Phase, p.QOS, p.Node} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

// steps writes rules as a table.
func steps(w *writer, of string, list []engine.Step) {
	const most = 100
	w.Table("Rules that ran for "+of, "Item", "Field", "From", "To", "Rule")
	for _, s := range list[:min(len(list), most)] {
		w.Row()
		w.Cells(cmp.Or(s.Item, "–"), cmp.Or(s.Field, "–"), cmp.Or(s.From, "–"), cmp.Or(s.To, "–"))
		w.Cell("")
		if s.Error != "" {
			w.Put("<p>Failed: {}</p>", s.Error)
		}
		rule(w, s)
		w.Put("</td></tr>\n")
	}
	w.EndTable()
	if n := len(list) - most; n > 0 {
		w.Put("<p class=\"more\">{} left out.</p>\n", simulate.Counted(n, "more rule"))
	}
}
