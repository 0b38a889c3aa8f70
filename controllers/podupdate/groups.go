package podupdate

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

// Groups counts the pods of a VPA by their direct owners (UPSTREAM.md §5.4). A group whose desired
// replicas are unknown has Configured 0, and report is called with the reason.
func Groups(ctx context.Context, resolver *target.Resolver, pods []*corev1.Pod, now time.Time, report func(owner target.Key, err error)) map[target.Key]*facts.Group {
	groups := map[target.Key]*facts.Group{}
	for _, pod := range pods {
		owner, _ := target.DirectOwner(pod)
		g := groups[owner]
		if g == nil {
			g = &facts.Group{}
			groups[owner] = g
		}
		g.Live++
		if pod.Status.Phase != corev1.PodPending {
			g.Running++
		}
		if podutils.IsPodReady(pod) {
			g.Ready++
		}
	}
	for owner, g := range groups {
		demand, err := resolver.Demand(ctx, owner, g.Live)
		if err != nil {
			report(owner, err)
		}
		g.Configured, g.Counted = demand.Replicas, demand.Counted
		if !demand.Created.IsZero() {
			g.Age, g.AgeKnown = max(0, now.Sub(demand.Created)), true
		}
		if refused := demand.Refused; refused.Message != "" {
			g.CreateRefused, g.CreateRefusedAge = refused.Message, max(0, now.Sub(refused.Since))
		}
	}
	return groups
}

// Resizing counts the pods of an owner that a resize disrupts now, except one: those whose resize was
// sent or is in progress, and those for which busy holds. A deferred resize disrupts nothing; it may
// be waiting for the very CPU that the end of a startup boost returns. Pods that have not started do
// not count, nor do those that the updater ignores.
func Resizing(pods []*corev1.Pod, except *corev1.Pod, busy func(*corev1.Pod) bool) (n int) {
	for _, pod := range pods {
		if pod.UID == except.UID && pod.Name == except.Name || pod.Status.Phase == corev1.PodPending || IgnoredReason(pod) != "" {
			continue
		}
		status, _, _ := facts.ResizeOf(pod)
		if status == facts.ResizeSent || status == facts.ResizeInProgress || busy(pod) {
			n++
		}
	}
	return n
}

// IgnoredReason is why the updater ignores a pod; empty for one that is scheduled, not finished and
// not terminating (UPSTREAM.md §5.1).
func IgnoredReason(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "The pod is terminating"
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return "The pod has finished"
	case pod.Spec.NodeName == "":
		return "The pod has no node"
	}
	return ""
}
