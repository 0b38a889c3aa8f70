package markup

import "strconv"

// Section is one part of a page that the list of contents names.
type Section struct {
	ID, Title string
	Count     int // of what it lists; 0 = not said
	Empty     bool
	Write     func()
}

// Body writes a page after Head: a headline, the list of contents, the sections that are not empty,
// and a footer.
func (w *Writer) Body(headline func(), sections []Section, footer func()) {
	var shown []Section
	for _, s := range sections {
		if !s.Empty {
			shown = append(shown, s)
		}
	}
	w.Put("<body>\n")
	if len(shown) > 0 {
		w.Put("<a class=\"skip\" href=\"#{}\">Skip to {}</a>\n", shown[0].ID, shown[0].Title)
	}
	w.Put("<header>\n")
	headline()
	w.Put("<nav aria-label=\"Contents\"><ul>\n")
	for _, s := range shown {
		w.Put("<li><a href=\"#{}\">{}", s.ID, s.Title)
		if s.Count > 0 {
			w.Put(" <span class=\"count\">{}</span>", strconv.Itoa(s.Count))
		}
		w.Put("</a></li>\n")
	}
	w.Put("</ul></nav>\n</header>\n<main>\n")
	for _, s := range shown {
		w.Put("<section aria-labelledby=\"{}\">\n<h2 id=\"{}\">{}</h2>\n", s.ID, s.ID, s.Title)
		s.Write()
		w.Put("</section>\n")
	}
	w.Put("</main>\n<footer><p>")
	footer()
	w.Put("</p></footer>\n</body>\n</html>\n")
}
