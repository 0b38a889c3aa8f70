package page

import (
	"cmp"
	"strconv"

	"github.com/celvpa/celvpa/explain"
)

// kinds are the classes of findings: the symbol, the name in the style and what it asks for. Each has
// its name as text, so that nothing hangs on a colour.
var kinds = map[string]struct {
	symbol, style, means string
}{
	explain.Misconfigured: {"✕", "bad", "somebody has to change something"},
	explain.Waiting:       {"◷", "wait", "time or the cluster resolves it"},
	explain.Settled:       {"✓", "good", "nothing to do"},
	explain.Info:          {"i", "info", "explains a number"},
}

// label writes a class, or an action, which has no class.
func (w *writer) label(text, class string) {
	if text == "" {
		return
	}
	k := kinds[class]
	w.Put("<span class=\"label {}\">", cmp.Or(k.style, "none"))
	if k.symbol != "" {
		w.Put("<span aria-hidden=\"true\">{} </span>", k.symbol)
	}
	w.Put("{}</span>", text)
}

// verdict writes the first line of the report, and what it is about.
func verdict(w *writer, r *explain.Report) {
	class := classOf(r)
	w.Put("<h1><small>celvpa explain</small> {}</h1>\n", r.Subject)
	w.Put("<div class=\"verdict {}\" role=\"region\" aria-label=\"Verdict\">\n<p class=\"labels\">", cmp.Or(kinds[class].style, "none"))
	w.label(class, class)
	if r.Verdict.Action != "" {
		w.Put(" <span>The updater's next step: <strong>{}</strong></span>", r.Verdict.Action)
	}
	if r.Verdict.Token != "" {
		w.Put(" <code>{}</code>", r.Verdict.Token)
	}
	w.Put("</p>\n<p class=\"text\">{}</p>\n", r.Verdict.Text)
	if n := len(r.Unknown); n > 0 {
		w.Put("<p><a href=\"#unknown\">{} could not be found out</a>, so the answer may be incomplete.</p>\n", things(n))
	}
	w.Put("</div>\n<dl class=\"about\">\n")
	for _, row := range [][2]string{
		{"VerticalPodAutoscaler", cmp.Or(r.VPA, "none")}, {"Target", r.Target}, {"Update mode", r.Mode}, {"Pipeline", r.Rules.Pipeline},
	} {
		if row[1] != "" {
			w.Put("<div><dt>{}</dt><dd>{}</dd></div>\n", row[0], row[1])
		}
	}
	w.Put("<div><dt>As of</dt><dd>")
	w.Time(r.Now)
	w.Put("</dd></div>\n</dl>\n")
}

func things(n int) string {
	if n == 1 {
		return "One thing"
	}
	return strconv.Itoa(n) + " things"
}

// classOf is the class of the finding or of the rule that decides.
func classOf(r *explain.Report) string {
	for _, f := range r.Findings {
		if f.Token == r.Verdict.Token {
			return f.Class
		}
	}
	for _, p := range r.Pods {
		if p.Rule == r.Verdict.Token {
			return p.Class
		}
	}
	return ""
}

// findings writes what blocks, what is waited for and what explains a number, by class.
func findings(w *writer, r *explain.Report) {
	if len(r.Findings) == 0 {
		w.Put("<p>Nothing blocks, and nothing is waited for.</p>\n")
	}
	for list := r.Findings; len(list) > 0; {
		class, n := list[0].Class, 1
		for n < len(list) && list[n].Class == class {
			n++
		}
		w.Put("<h3 class=\"kind\">")
		w.label(class, class)
		if means := kinds[class].means; means != "" {
			w.Put(" <span>{}</span>", means)
		}
		w.Put("</h3>\n")
		for _, same := range byToken(list[:n]) {
			if w.Full() {
				w.Put("<p class=\"more\">More findings are left out: the page is full. <code>-o json</code> has them.</p>\n")
				return
			}
			w.Folds(same[0].Token, len(same), alike, func(from, to int) {
				w.Put("<ul class=\"findings\">\n")
				for _, f := range same[from:to] {
					finding(w, f)
				}
				w.Put("</ul>\n")
			})
		}
		list = list[n:]
	}
}

// alike is how many findings of one token are open.
const alike = 3

// byToken puts findings of one token together, in the order in which the tokens come.
func byToken(list []explain.Finding) [][]explain.Finding {
	var out [][]explain.Finding
	at := map[string]int{}
	for _, f := range list {
		i, ok := at[f.Token]
		if !ok {
			i = len(out)
			at[f.Token], out = i, append(out, nil)
		}
		out[i] = append(out[i], f)
	}
	return out
}

func finding(w *writer, f explain.Finding) {
	w.Put("<li class=\"{}\"><p class=\"labels\"><code>{}</code>", cmp.Or(kinds[f.Class].style, "none"), f.Token)
	if f.About != "" {
		w.Put(" <span class=\"of\">{}</span>", f.About)
	}
	w.Put("</p><p>{}</p>", f.Text)
	if f.WayOut != "" {
		label := "Way out"
		if f.Class == explain.Waiting {
			label = "Until"
		}
		w.Put("<p><strong>{}:</strong> {}</p>", label, f.WayOut)
	}
	w.Put("</li>\n")
}
