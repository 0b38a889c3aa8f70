package recommender

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// historyLabels know by which labels the pods of the history are selected.
type historyLabels struct {
	running map[model.PodID]map[string]string
	names   map[string][]string // that selectors use, by namespace
}

// historyLabels are read from the pods in the cluster, and from the selectors of VPAs.
func (r *Recommender) historyLabels(ctx context.Context) historyLabels {
	out := historyLabels{running: map[model.PodID]map[string]string{}, names: map[string][]string{}}
	var list corev1.PodList
	if err := r.Client.List(ctx, &list); err != nil {
		r.Log.Error(err, "cannot list pods; their history has the labels that Prometheus knows")
	}
	for i := range list.Items {
		pod := &list.Items[i]
		out.running[model.PodID{Namespace: pod.Namespace, Name: pod.Name}] = pod.Labels
	}
	for id, w := range r.workloads {
		selector := w.selector()
		if selector == nil {
			continue
		}
		requirements, _ := selector.Requirements()
		for _, requirement := range requirements {
			if !slices.Contains(out.names[id.Namespace], requirement.Key()) {
				out.names[id.Namespace] = append(out.names[id.Namespace], requirement.Key())
			}
		}
	}
	return out
}

// of are the labels of a pod: its own while it exists, else those that Prometheus knows, to which
// names are added that selectors use and Prometheus does not allow.
func (h historyLabels) of(p history.Pod) map[string]string {
	if own, exists := h.running[p.ID]; exists {
		return own
	}
	out := p.Labels
	for _, name := range h.names[p.ID.Namespace] {
		if _, known := p.Labels[name]; known {
			continue
		}
		for _, other := range prometheusNames(name) {
			value, known := p.Labels[other]
			if !known {
				continue
			}
			if len(out) == len(p.Labels) {
				out = maps.Clone(out)
			}
			out[name] = value
			break
		}
	}
	return out
}

var (
	notAllowed = regexp.MustCompile(`[^a-zA-Z0-9_]`)
	upper      = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// prometheusNames are what a label of a pod is called by Prometheus's discovery, and by
// kube-state-metrics, which has no capitals either: app.kubernetes.io/partOf is
// app_kubernetes_io_partOf or app_kubernetes_io_part_of.
func prometheusNames(label string) [2]string {
	name := notAllowed.ReplaceAllString(label, "_")
	return [2]string{name, strings.ToLower(upper.ReplaceAllString(name, "${1}_${2}"))}
}
