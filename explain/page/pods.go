package page

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/explain"
)

// traced is how many pods have their rules written out.
const traced = 20

// pods writes what happens to each pod next.
func pods(w *writer, r *explain.Report) {
	if len(r.Pods) == 0 {
		w.put("<p>No running pod is known.</p>\n")
		return
	}
	w.put("<p>In the order in which the updater takes them.</p>\n")
	w.folds("pods", len(r.Pods), shown, func(from, to int) {
		w.table("Pods", "Pod", "Next", "Why", "Priority", "Change")
		for _, p := range r.Pods[from:to] {
			pod(w, p)
		}
		w.endTable()
	})
	for i, p := range r.Pods {
		if i == traced || w.full() {
			w.put("<p class=\"more\">The rules that ran for the other pods are left out.</p>\n")
			break
		}
		if len(p.Steps) > 0 {
			w.put("<details class=\"fold\"><summary>Rules that ran for pod {}</summary>\n", p.Pod)
			steps(w, p.Pod, p.Steps)
			w.put("</details>\n")
		}
	}
}

func pod(w *writer, p explain.Pod) {
	w.row()
	w.headCell()
	w.put("{}<small>{}</small></th>", p.Pod, about(p))
	w.cell("")
	w.put("<strong>{}</strong></td>", p.Action)
	w.cell("")
	if p.Rule != "" {
		w.put("<p class=\"labels\"><code>{}</code> ", p.Rule)
		w.label(p.Class, p.Class)
		w.put("</p>")
	}
	w.put("<p>{}</p>", p.Reason)
	for _, more := range [][2]string{
		{"Until", p.Until}, {"Resize", p.Resize}, {"Its node could not give", p.Infeasible}, {"Postponed by the last cycle", p.Postponed}, {"To be postponed", p.Later},
		{"Evictions that the API server refused", refused(p.Evictions)}, {"Resizes that the API server refused", refused(p.Resizes)},
	} {
		if more[1] != "" {
			w.put("<p><span class=\"of\">{}:</span> {}</p>", more[0], more[1])
		}
	}
	w.put("</td>")
	w.cells(p.Priority.String())
	w.cell("")
	if len(p.Change) == 0 {
		w.put("none")
	} else {
		w.put("<ul class=\"plain\">")
		for i, c := range p.Change {
			if i == shown {
				w.put("<li>and {}</li>", plural(len(p.Change)-shown, "other change"))
				break
			}
			w.put("<li>{}</li>", c.String())
		}
		w.put("</ul>")
	}
	w.put("</td></tr>\n")
}

func refused(r *answers.Refusals) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%d, the last at %s: %s", r.Times, r.Last.UTC().Format(clock), r.Message)
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
	w.table("Rules that ran for "+of, "Item", "Field", "From", "To", "Rule")
	for _, s := range list[:min(len(list), most)] {
		w.row()
		w.cells(cmp.Or(s.Item, "–"), cmp.Or(s.Field, "–"), cmp.Or(s.From, "–"), cmp.Or(s.To, "–"))
		w.cell("")
		if s.Error != "" {
			w.put("<p>Failed: {}</p>", s.Error)
		}
		rule(w, s)
		w.put("</td></tr>\n")
	}
	w.endTable()
	if n := len(list) - most; n > 0 {
		w.put("<p class=\"more\">{} left out.</p>\n", plural(n, "more rule"))
	}
}
