package policy

import (
	"maps"
	"slices"

	"github.com/celvpa/celvpa/engine/document"
)

// Over returns the rules with those at a path, a folder or one file, laid over them. The error lists
// every fault with its position.
func (r *Rules) Over(path string) (*Rules, error) {
	layer, _, err := own(path)
	if err != nil {
		return nil, err
	}
	load := loader
	load.Base = r.Library
	library, err := load.Load(*layer)
	if err != nil {
		return nil, err
	}
	out := *r
	out.Library, out.Options.Path = library, path
	return &out, nil
}

// Under is Over, but that overlays at the path that are in mode Audit or Warn count as enforced, and
// tried names them: the result is for comparisons, not for decisions.
func (r *Rules) Under(path string) (over *Rules, tried []string, err error) {
	over, err = r.Over(path)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range over.Tried() {
		if o == r.Library.Overlays[o.Name.Value] {
			continue
		}
		over = over.Enforcing(o)
		tried = append(tried, o.Name.Value+" ("+o.ModeOf()+")")
	}
	return over, tried, nil
}

// Tried lists the overlays among the rules that are in mode Audit or Warn, by name.
func (r *Rules) Tried() (out []*document.Overlay) {
	for _, name := range slices.Sorted(maps.Keys(r.Library.Overlays)) {
		if o := r.Library.Overlays[name]; o.ModeOf() != document.ModeEnforce {
			out = append(out, o)
		}
	}
	return out
}

// Enforcing returns the rules with an overlay enforced.
func (r *Rules) Enforcing(o *document.Overlay) *Rules {
	enforced := *o
	enforced.Mode.Value = document.ModeEnforce
	out := *r
	out.Library = r.Library.With(&enforced)
	return &out
}

// With returns the rules with parameters set, by ruleset.param, besides those that are.
func (r *Rules) With(params map[string]string) *Rules {
	out := *r
	out.Options.Params = maps.Clone(r.Options.Params)
	if out.Options.Params == nil {
		out.Options.Params = map[string]string{}
	}
	maps.Copy(out.Options.Params, params)
	return &out
}
