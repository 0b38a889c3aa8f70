package policy

import (
	"maps"
	"slices"

	"github.com/celvpa/celvpa/engine/document"
)

// Under returns the rules with those at a path, a folder or one file, laid over them. Overlays at
// the path that are in mode Audit or Warn count as enforced, and tried names them: the result is
// for comparisons, not for decisions. The error lists every fault with its position.
func (r *Rules) Under(path string) (over *Rules, tried []string, err error) {
	layer, _, err := own(path)
	if err != nil {
		return nil, nil, err
	}
	load := loader
	load.Base = r.Library
	library, err := load.Load(*layer)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(library.Overlays)) {
		o := library.Overlays[name]
		if o == r.Library.Overlays[name] || o.ModeOf() == document.ModeEnforce {
			continue
		}
		enforced := *o
		enforced.Mode.Value = document.ModeEnforce
		library = library.With(&enforced)
		tried = append(tried, name+" ("+o.ModeOf()+")")
	}
	options := r.Options
	options.Path = path
	return &Rules{Library: library, registry: r.registry, Options: options}, tried, nil
}
