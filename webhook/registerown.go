package webhook

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// ownPods is the name of the condition that leaves out pods of the admission controller's own namespace.
const ownPods = "no-pods-of-the-webhook"

// matchConditions leave out pods of the own namespace with failure policy Fail. They would be refused once no replica answers, the
// replicas that could answer included. VPAs of the namespace are sent all the same, and so are probes.
func (r Registration) matchConditions() []admissionregistrationv1.MatchCondition {
	if r.FailurePolicy != admissionregistrationv1.Fail || r.OwnNamespace == "" || !r.Namespaces.Serve(r.OwnNamespace) || r.Deadlocks() {
		return nil
	}
	return []admissionregistrationv1.MatchCondition{noPodsOf(r.OwnNamespace)}
}

// Deadlocks reports whether no pod of the own namespace can start while no replica answers: it is the only one that is served, so
// that to leave out its pods would leave none.
func (r Registration) Deadlocks() bool {
	return r.FailurePolicy == admissionregistrationv1.Fail && r.OwnNamespace != "" && r.Namespaces.Only == r.OwnNamespace
}

func noPodsOf(namespace string) admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{Name: ownPods, Expression: fmt.Sprintf("request.resource.resource != 'pods' || request.namespace != '%s'", namespace)}
}

// LeavesOutPodsOf reports whether a registered webhook leaves out the pods of a namespace because it is the admission controller's own.
func LeavesOutPodsOf(namespace string, w *admissionregistrationv1.MutatingWebhook) bool {
	return slices.Contains(w.MatchConditions, noPodsOf(namespace))
}
