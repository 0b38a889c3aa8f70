// Package matcher says which VerticalPodAutoscaler has a pod: for its admission, for updates while it
// runs, and for the end of its startup boost (UPSTREAM.md §4.2). Nothing else asks rules whether a VPA
// changes pods (points pod.admit and vpa.update), or which of several comes first (vpa.order).
package matcher

import (
	"cmp"
	"strings"
	"sync"

	"github.com/go-logr/logr"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// Purpose is what a VPA is looked for.
type Purpose int

// The purposes.
const (
	Admission Purpose = iota // to change a new pod
	Update                   // to evict a running pod, or to resize it
	Boost                    // to end the startup boost of a pod
)

// Ask asks rules whether a VPA changes new pods or, for Update, running ones: it does if the verdict is
// facts.DoApply. The trace may be nil.
func Ask(plan *engine.Plan, p Purpose, v *vpav1.VerticalPodAutoscaler, trace *engine.Trace) engine.Verdict {
	if p == Update {
		return plan.Decide(facts.VPAUpdate, facts.UpdateFacts(v), trace)
	}
	return plan.Decide(facts.PodAdmit, facts.AdmitFacts(v), trace)
}

// VPA is a VerticalPodAutoscaler with its rules, and what they say about it. They are asked once; after
// a change of the object make a new one. It is safe for concurrent use.
type VPA struct {
	Object *vpav1.VerticalPodAutoscaler
	Rules  compile.Selection

	admission, update func() engine.Verdict
	order             func() facts.Order
}

// New chooses the rules of a VPA. Rules of vpa.order that fail are logged.
func New(book *compile.Rulebook, v *vpav1.VerticalPodAutoscaler, log logr.Logger) *VPA {
	rules := policy.For(book, v)
	return &VPA{
		Object: v, Rules: rules,
		admission: sync.OnceValue(func() engine.Verdict { return Ask(rules.Plan, Admission, v, nil) }),
		update:    sync.OnceValue(func() engine.Verdict { return Ask(rules.Plan, Update, v, nil) }),
		order: sync.OnceValue(func() facts.Order {
			out, failed := facts.OrderOf(rules.Plan, v)
			policy.Report(log.WithValues("namespace", v.Namespace, "vpa", v.Name), "order among VPAs that select the same pods unchanged", failed...)
			return out
		}),
	}
}

// String returns e.g. VerticalPodAutoscaler shop/web.
func (v *VPA) String() string { return "VerticalPodAutoscaler " + v.Key() }

// Key is namespace/name.
func (v *VPA) Key() string { return v.Object.Namespace + "/" + v.Object.Name }

// Ignored is why rules are not asked about a VPA; empty = they are. New pods of a VPA that pins rules
// which are not loaded get the default ones.
func (v *VPA) Ignored(p Purpose) string {
	if fault := v.Object.Unreadable(); fault != "" {
		return "it cannot be decoded completely: " + fault
	}
	if v.Rules.Err != nil && p == Update {
		return "the rules that it asks for cannot be used: " + v.Rules.Err.Error()
	}
	return ""
}

// Verdict is what the rules of a VPA say about new pods or, for Update, running ones; zero if they are
// not asked.
func (v *VPA) Verdict(p Purpose) engine.Verdict {
	switch {
	case v.Ignored(p) != "":
		return engine.Verdict{}
	case p == Update:
		return v.update()
	}
	return v.admission()
}

// Takes reports whether a VPA changes new pods or, for Update, running ones.
func (v *VPA) Takes(p Purpose) bool { return v.Verdict(p).Do == facts.DoApply }

// Competes reports whether no other VPA gets the pods that a VPA has. One whose rules cannot be used
// changes no running pods, and leaves none to others.
func (v *VPA) Competes(p Purpose) bool { return v.Takes(p) || p == Update && v.Rules.Err != nil }

// Differs says what an overlay that is not enforced would decide otherwise about new pods or, for
// Update, running ones; nil = nothing.
func (v *VPA) Differs(p Purpose, shadow compile.Shadow) []string {
	return policy.VerdictDifference(v.Verdict(p), Ask(shadow.Plan, p, v.Object, nil))
}

// Compare is negative for a VPA that comes before another one of its namespace: by the rules of each,
// else by name.
func Compare(a, b *VPA) int {
	return cmp.Or(a.order().Compare(b.order()), strings.Compare(a.Object.Name, b.Object.Name))
}
