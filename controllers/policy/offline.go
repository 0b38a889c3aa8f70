package policy

import (
	"fmt"

	"k8s.io/utils/clock"

	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
)

// WithOverlays applies RuleOverlay objects to the rules as a component does at its start. An
// invalid one is left out, and the error names it and its fault.
func WithOverlays(book *compile.Rulebook, objects []rulesv1alpha1.RuleOverlay) (*compile.Rulebook, error) {
	fresh := Source{compiling: compiling{clock: clock.RealClock{}}} // nothing is in force yet
	book, results, _ := fresh.overlaid(book, objects)
	var errs []error
	for _, o := range objects {
		if err := results[o.Name].Err; err != nil {
			errs = append(errs, fmt.Errorf("RuleOverlay %s cannot be used: %w", o.Name, err))
		}
	}
	return book, faults.Join(errs...)
}
