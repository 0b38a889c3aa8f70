package policy

import (
	"cmp"
	"strings"

	"github.com/go-logr/logr"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// Precedence compares two VPAs of a namespace that select the same pod, by the rules of each at
// vpa.order: negative where a has it.
func Precedence(book *compile.Rulebook, log logr.Logger) func(a, b *vpav1.VerticalPodAutoscaler) int {
	order := func(v *vpav1.VerticalPodAutoscaler) facts.Order {
		out, failed := facts.OrderOf(For(book, v).Plan, v)
		Report(log.WithValues("namespace", v.Namespace, "vpa", v.Name), "order among VPAs that select the same pods unchanged", failed...)
		return out
	}
	return func(a, b *vpav1.VerticalPodAutoscaler) int {
		return cmp.Or(order(a).Compare(order(b)), strings.Compare(a.Name, b.Name))
	}
}
