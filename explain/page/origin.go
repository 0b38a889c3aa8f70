package page

import (
	"cmp"
	"strings"

	"github.com/celvpa/celvpa/explain"
)

// processes writes which processes were asked, and by which rules they decide.
func processes(w *writer, r *explain.Report) {
	if len(r.Processes) == 0 {
		w.put("<p>No process could be asked.</p>\n")
	} else {
		w.table("Processes", "Process", "Instance", "Version", "Leads", "Its time", "Pipeline", "Rules")
		for _, p := range r.Processes {
			leads := "no"
			if p.Leads {
				leads = "yes"
			}
			w.row()
			w.headCell()
			w.put("{}</th>", p.Component)
			w.cells(p.Instance, p.Version, leads)
			w.cell("when")
			w.time(p.Now)
			w.put("</td>")
			w.cells(cmp.Or(p.Rules.Pipeline, "–"))
			w.cell("")
			w.put("<code>{}</code>", cmp.Or(p.Rules.Digest, "not known"))
			if p.Rules.Digest != "" && r.Rules.Digest != "" && p.Rules.Digest != r.Rules.Digest {
				w.put(" <strong>differs</strong>")
			}
			w.put("</td></tr>\n")
		}
		w.endTable()
	}
	w.put("<h3>Rules of this page</h3>\n<dl class=\"about\">\n")
	for _, row := range [][2]string{
		{"Pipeline", cmp.Or(r.Rules.Pipeline, "not known")}, {"Digest", cmp.Or(r.Rules.Digest, "not known")},
		{"Overlays", cmp.Or(strings.Join(r.Rules.Overlays, ", "), "none")}, {"Audited overlays", strings.Join(r.Rules.Audited, ", ")}, {"Overlays that cannot be evaluated", strings.Join(r.Rules.Untried, "; ")}, {"Fault", r.Rules.Fault},
	} {
		if row[1] != "" {
			w.put("<div><dt>{}</dt><dd>{}</dd></div>\n", row[0], row[1])
		}
	}
	w.put("</dl>\n")
}

// unknown writes what could not be found out.
func unknown(w *writer, r *explain.Report) {
	w.folds("things", len(r.Unknown), shown, func(from, to int) {
		w.put("<ul class=\"findings\">\n")
		for _, text := range r.Unknown[from:to] {
			w.put("<li class=\"wait\"><p>{}</p></li>\n", text)
		}
		w.put("</ul>\n")
	})
}
