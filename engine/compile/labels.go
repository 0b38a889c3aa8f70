package compile

import (
	"fmt"
	"slices"

	"github.com/celvpa/celvpa/engine/document"
)

// Labels are asked for only where an overlay selects by them; nil = none are known.
type Labels struct {
	Namespace func(name string) (labels map[string]string, known bool)
	Workload  func(of document.Subject) (labels map[string]string, known bool)
}

// WithLabels returns the rulebook with other labels.
func (b *Rulebook) WithLabels(labels Labels) *Rulebook {
	out := b.Only(func(string) bool { return true })
	out.labels = labels
	return out
}

// ReadsLabels reports whether which overlays apply depends on the labels of other objects than that which they are for.
func (b *Rulebook) ReadsLabels() bool {
	return slices.ContainsFunc(b.overlays, func(o *document.Overlay) bool {
		return len(o.Match.NamespaceSelector)+len(o.Match.WorkloadSelector) > 0
	})
}

// related are the labels of an object that overlays for another one select by.
type related struct {
	what, selector string // for messages
	ask            func() (map[string]string, bool)

	asked, known bool
	labels       map[string]string
	unknown      []*document.Overlay // that would have to know them
}

// hold reports whether the labels, which are asked for once, meet the requirements of an overlay.
func (r *related) hold(o *document.Overlay, selector []document.Requirement) bool {
	if len(selector) == 0 {
		return true
	}
	if !r.asked {
		r.labels, r.known = r.ask()
		r.asked = true
	}
	if !r.known {
		r.unknown = append(r.unknown, o)
	}
	return r.known && document.Hold(selector, r.labels)
}

// err says which overlays, of those that are meant, do not apply for lack of the labels.
func (r *related) err(meant func(*document.Overlay) bool) error {
	var unknown []*document.Overlay
	for _, o := range r.unknown {
		if meant(o) {
			unknown = append(unknown, o)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("the labels of %s are not known, so overlays with a %s do not apply: %s", r.what, r.selector, document.OverlayNames(unknown))
}
