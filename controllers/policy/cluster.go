package policy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

// ClusterOverlays lists the RuleOverlay objects of the cluster.
type ClusterOverlays func(context.Context) ([]rulesv1alpha1.RuleOverlay, error)

// Acceptance says whether a RuleOverlay object is in force.
type Acceptance struct {
	UID        types.UID
	Generation int64
	Err        error // why this generation is not in force; nil = it is
	InUse      int64 // the generation that is in force instead; 0 = none
}

// accepted is an overlay of the cluster that is in force.
type accepted struct {
	overlay    *document.Overlay
	uid        types.UID
	generation int64
}

// overlaid adds the overlays of the cluster to the rules of the files: overlays in force first,
// unchanged before edited ones, then older objects before younger ones, so that a new overlay
// cannot displace one in force. An overlay that conflicts keeps the version that was in force. A
// faulty overlay does not affect the others.
func (s *Source) overlaid(book *compile.Rulebook, objects []rulesv1alpha1.RuleOverlay) (*compile.Rulebook, map[string]Acceptance, map[string]accepted) {
	results, inUse := map[string]Acceptance{}, map[string]accepted{}
	use := func(next *compile.Rulebook, a accepted) {
		book = next
		inUse[a.overlay.Name.Value] = a
	}
	if book == s.files && s.files != nil && !s.pending {
		book = s.unchanged(objects, inUse)
	}
	for _, o := range s.inOrder(objects) {
		if used, ok := inUse[o.Name]; ok && used.uid == o.UID {
			results[o.Name] = Acceptance{UID: o.UID, Generation: o.Generation}
			continue
		}
		if len(inUse) >= maxOverlays {
			results[o.Name] = Acceptance{UID: o.UID, Generation: o.Generation, Err: fmt.Errorf("%d RuleOverlays are in use, and that is the most there can be: "+
				"let one overlay match several namespaces, or delete others", maxOverlays)}
			continue
		}
		result := Acceptance{UID: o.UID, Generation: o.Generation}
		before, had := s.inUse[o.Name]
		had = had && before.uid == o.UID
		next, overlay, err := s.compiling.overlay(s.files, book, &o)
		if err == nil {
			use(next, accepted{overlay: overlay, uid: o.UID, generation: o.Generation})
		} else if had {
			if next, err := s.compiling.back(book, before); err == nil {
				use(next, before)
				result.InUse = before.generation
			}
		}
		result.Err = err
		results[o.Name] = result
	}
	s.compiling.forget(objects)
	return book, results, inUse
}

// maxOverlays bounds the overlays in force. Each takes about 300 kB, and each is compiled again
// when files change.
const maxOverlays = 500

// unchanged is the rulebook in force with only the overlays that did not change, which it records
// as in force. They need no new compilation when others are added, changed or deleted.
func (s *Source) unchanged(objects []rulesv1alpha1.RuleOverlay, inUse map[string]accepted) *compile.Rulebook {
	for i := range objects {
		o := &objects[i]
		if before, ok := s.inUse[o.Name]; ok && before.uid == o.UID && before.generation == o.Generation {
			inUse[o.Name] = before
		}
	}
	return s.Rules().Only(func(name string) bool {
		_, keep := inUse[name]
		return keep || s.files.HasOverlay(name)
	})
}

// inOrder sorts objects by precedence.
func (s *Source) inOrder(objects []rulesv1alpha1.RuleOverlay) []rulesv1alpha1.RuleOverlay {
	class := func(o *rulesv1alpha1.RuleOverlay) int {
		before, ok := s.inUse[o.Name]
		switch {
		case !ok || before.uid != o.UID:
			return 2
		case before.generation != o.Generation:
			return 1
		}
		return 0
	}
	out := slices.Clone(objects)
	slices.SortFunc(out, func(a, b rulesv1alpha1.RuleOverlay) int {
		return cmp.Or(class(&a)-class(&b), a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}

// parseOverlay reads an object with the decoder of rule files. Positions in errors are those of the
// object as YAML.
func parseOverlay(o *rulesv1alpha1.RuleOverlay) (*document.Overlay, error) {
	if o.Unreadable != "" {
		return nil, fmt.Errorf("RuleOverlay %s cannot be read: %s", o.Name, o.Unreadable)
	}
	spec, err := json.Marshal(o.Spec)
	if err != nil {
		return nil, fmt.Errorf("encoding RuleOverlay %s: %w", o.Name, err)
	}
	text, err := yaml.JSONToYAML(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},"spec":%s}`,
		document.APIVersion, document.KindOverlay, o.Name, spec))
	if err != nil {
		return nil, fmt.Errorf("encoding RuleOverlay %s: %w", o.Name, err)
	}
	return loader.Overlay("RuleOverlay/"+o.Name, text)
}

// overlaysFingerprint changes when an overlay is added, changed or deleted.
func overlaysFingerprint(objects []rulesv1alpha1.RuleOverlay) [sha256.Size]byte {
	h := sha256.New()
	sorted := slices.SortedFunc(slices.Values(objects), func(a, b rulesv1alpha1.RuleOverlay) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range sorted {
		fmt.Fprintf(h, "%q %q %d\n", o.Name, o.UID, o.Generation)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
