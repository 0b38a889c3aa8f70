package explain

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// Points are those at which explanations ask rules beside the processes.
var Points = []string{facts.PodAdmit, facts.ContainerPolicy, facts.VPAOrder}

// RulesIn are the rules of a book with the RuleOverlays of a cluster; unusable ones are left out, as
// the processes leave them out. Notes say what could not be read.
func RulesIn(ctx context.Context, c client.Client, book *compile.Rulebook) (out *compile.Rulebook, notes []string) {
	ctx, cancel := context.WithTimeout(ctx, gatherTimeout)
	defer cancel()
	set, notes, err := manifests.Reader{Client: c}.Read(ctx)
	if err != nil {
		notes = append(notes, fmt.Sprintf("what the RuleOverlays of the cluster change: %v", err))
	}
	overlays, _ := set.RuleOverlays()
	out, _ = policy.WithOverlays(book.WithLabels(policy.LabelsOf(func() facts.Objects { return set })), overlays)
	return out, notes
}

// order compares two VPAs of one target: negative where a controls the pods.
type order func(a, b *vpav1.VerticalPodAutoscaler) int

// orderBy is that of rules. If nothing is known of them, the first VPA by name has it, until the
// updater says otherwise.
func orderBy(book *compile.Rulebook) order {
	if book == nil {
		return func(a, b *vpav1.VerticalPodAutoscaler) int { return strings.Compare(a.Name, b.Name) }
	}
	return func(a, b *vpav1.VerticalPodAutoscaler) int {
		return matcher.Compare(matcher.New(book, a, logr.Discard()), matcher.New(book, b, logr.Discard()))
	}
}

// ruledBy notes what rules decide about the VPA that no process reports; nil = nothing is known of them.
func (o *objects) ruledBy(book *compile.Rulebook) {
	if book == nil {
		return
	}
	v := matcher.New(book, o.vpa, logr.Discard())
	o.recommendsOnly = !v.Takes(matcher.Admission)
	o.policies = facts.PolicyRulesOf(v.Rules.Plan)
}

// maxAllowed is that of a container, or of the whole pod, which has no name.
func (o *objects) maxAllowed(container string) corev1.ResourceList {
	p := o.vpa.Spec.ResourcePolicy
	if container != "" {
		if c := o.policies.For(p, container); c != nil {
			return c.MaxAllowed
		}
		return nil
	}
	if p == nil || p.PodPolicies == nil {
		return nil
	}
	return p.PodPolicies.MaxAllowed
}
