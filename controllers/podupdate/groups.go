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
		if refused := demand.Refused; refused.Message != "" {
			g.CreateRefused, g.CreateRefusedAge = refused.Message, max(0, now.Sub(refused.Since))
		}
	}
	return groups
}
