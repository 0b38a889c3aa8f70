package policy

import (
	"slices"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// Admits reports whether a VPA changes new pods by the rules of pod.admit, as admission asks them:
// without the pipeline that a VPA pins, the default one counts.
func Admits(book *compile.Rulebook, v *vpav1.VerticalPodAutoscaler) bool {
	return v.Unreadable() == "" && For(book, v).Plan.Decide(facts.PodAdmit, facts.AdmitFacts(v), nil).Do == facts.DoApply
}

// Boosting are those VPAs of one target that may have boosted its pods: those that change new pods.
// If none does any more, they are all that can be read, because boosts must end.
func Boosting(book *compile.Rulebook, vpas []*vpav1.VerticalPodAutoscaler) []*vpav1.VerticalPodAutoscaler {
	var readable []*vpav1.VerticalPodAutoscaler
	for _, v := range vpas {
		if v.Unreadable() == "" {
			readable = append(readable, v)
		}
	}
	admit := slices.DeleteFunc(slices.Clone(readable), func(v *vpav1.VerticalPodAutoscaler) bool { return !Admits(book, v) })
	if len(admit) == 0 {
		return readable
	}
	return admit
}
