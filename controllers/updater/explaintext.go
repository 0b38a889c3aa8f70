package updater

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

// groupOf describes a group at the start of a cycle.
func groupOf(owner target.Key, g *facts.Group, held string, now time.Time) answers.Group {
	return answers.Group{
		Owner: ownerText(owner), Configured: g.Configured, Live: g.Live, Running: g.Running, Ready: g.Ready, Disrupted: g.Disrupted,
		Evictions: refusalsOf(g.Evictions, now), Resizes: refusalsOf(g.Resizes, now), Unchanged: g.Unchanged, HeldBy: held,
	}
}

// refusalsOf is nil without refusals.
func refusalsOf(r facts.Refusals, now time.Time) *answers.Refusals {
	if r.Times == 0 {
		return nil
	}
	return &answers.Refusals{Times: r.Times, Last: now.Add(-r.Age).UTC(), Message: r.Message}
}

// ownerText is kind/name; empty for pods without owner.
func ownerText(owner target.Key) string {
	if owner.Name == "" {
		return ""
	}
	return owner.Kind + "/" + owner.Name
}

func ownerName(pod *corev1.Pod) string {
	owner, _ := target.DirectOwner(pod)
	return owner.String()
}

// podsOf are the pods of a direct owner.
func podsOf(pods []corev1.Pod, owner target.Key) (out []*corev1.Pod) {
	for i := range pods {
		if of, _ := target.DirectOwner(&pods[i]); of == owner {
			out = append(out, &pods[i])
		}
	}
	return out
}

// requestsText lists requests by container, such as "app: cpu 4, memory 8Gi"; empty for none.
func requestsText(r facts.Requests) string {
	var out []string
	for _, container := range slices.Sorted(maps.Keys(r)) {
		var amounts []string
		for _, resource := range facts.ScaledResources {
			if q, ok := r[container][resource]; ok {
				amounts = append(amounts, string(resource)+" "+q.String())
			}
		}
		if len(amounts) == 0 {
			continue
		}
		if container == "" {
			container = "the pod"
		}
		out = append(out, container+": "+strings.Join(amounts, ", "))
	}
	return strings.Join(out, "; ")
}
