package page

import (
	"cmp"
	"strings"

	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/markup"
)

// processes writes which processes were asked, and by which rules they decide.
func processes(w *writer, r *explain.Report) {
	if len(r.Processes) == 0 {
		w.Put("<p>No process could be asked.</p>\n")
	} else {
		w.Table("Processes", "Process", "Instance", "Version", "Leads", "Its time", "Pipeline", "Rules")
		for _, p := range r.Processes {
			leads := "no"
			if p.Leads {
				leads = "yes"
			}
			w.Row()
			w.HeadCell()
			w.Put("{}</th>", p.Component)
			w.Cells(p.Instance, p.Version, leads)
			w.Cell("when")
			w.Time(p.Now)
			w.Put("</td>")
			w.Cells(cmp.Or(p.Rules.Pipeline, "–"))
			w.Cell("")
			w.Put("<code>{}</code>", cmp.Or(p.Rules.Digest, "not known"))
			if p.Rules.Digest != "" && r.Rules.Digest != "" && p.Rules.Digest != r.Rules.Digest {
				w.Put(" <strong>differs</strong>")
			}
			w.Put("</td></tr>\n")
		}
		w.EndTable()
	}
	w.Put("<h3>Rules of this page</h3>\n<dl class=\"about\">\n")
	for _, row := range [][2]string{
		{"Pipeline", cmp.Or(r.Rules.Pipeline, "not known")}, {"Digest", cmp.Or(r.Rules.Digest, "not known")},
		{"Overlays", cmp.Or(strings.Join(r.Rules.Overlays, ", "), "none")}, {"Audited overlays", strings.Join(r.Rules.Audited, ", ")}, {"Overlays that cannot be evaluated", strings.Join(r.Rules.Unevaluated, "; ")}, {"Fault", r.Rules.Fault},
	} {
		if row[1] != "" {
			w.Put("<div><dt>{}</dt><dd>{}</dd></div>\n", row[0], row[1])
		}
	}
	w.Put("</dl>\n")
}

// unknown writes what could not be found out.
func unknown(w *writer, r *explain.Report) {
	w.Folds("things", len(r.Unknown), markup.Shown, func(from, to int) {
		w.Put("<ul class=\"findings\">\n")
		for _, text := range r.Unknown[from:to] {
			w.Put("<li class=\"wait\"><p>{}</p></li>\n", text)
		}
		w.Put("</ul>\n")
	})
}
