package recommender

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// History supplies usage from before the start, once.
type History interface {
	// Load returns what it could read, and an error about the rest.
	Load(ctx context.Context, now time.Time) ([]history.Pod, error)
}

// loadHistory loads usage from before the start; false = retry.
func (r *Recommender) loadHistory(ctx context.Context, existing map[model.WorkloadID]bool) bool {
	if r.History != nil {
		now := r.Clock.Now()
		pods, err := r.History.Load(ctx, now)
		if ctx.Err() != nil {
			return false
		}
		if err != nil {
			r.Log.Error(err, "history incomplete; continuing with what was loaded")
		}
		known := r.historyLabels(ctx)
		var excess model.Excess
		r.using(func() {
			r.addHistory(pods, known, now)
			excess = r.TakeExcess()
		})
		if text := excess.String(); text != "" {
			r.Log.Info("history has unusable samples", "detail", text)
		}
		r.Log.Info("history loaded", "pods", len(pods))
		return true
	}
	if r.Checkpoints == nil {
		return true
	}
	counts, err := r.loadCheckpoints(ctx, existing)
	r.notices.Report(r.Log, "reading checkpoints", err, "cannot read checkpoints; recommendations and checkpoints in the cluster stay unchanged until it succeeds")
	if err != nil {
		return false
	}
	r.Log.Info("checkpoints loaded", "loaded", counts.loaded, "unused", counts.unused, "unreadable", counts.unreadable)
	if counts.ahead > 0 {
		r.Log.Info("checkpoints have times in the future, or this machine's clock is behind; waiting for a sample to find out which", "checkpoints", counts.ahead)
	}
	return true
}

// addHistory adds the samples of pods, most of which are gone.
func (s *State) addHistory(pods []history.Pod, known historyLabels, now time.Time) {
	for _, p := range pods {
		spec := model.PodSpec{Labels: known.of(p)}
		named := map[string]bool{}
		for _, sample := range p.Samples() {
			if !named[sample.Container] {
				named[sample.Container] = true
				spec.Containers = append(spec.Containers, sample.Container)
			}
		}
		s.cluster.SetPod(p.ID, spec, now)
	}
	s.Govern()
	for _, p := range pods {
		s.Add(p.Samples(), now)
	}
}

type loadCounts struct{ loaded, unused, unreadable, ahead int }

// loadCheckpoints restores the history of the VPAs served, page by page, and keeps that of VPAs that
// do not exist. An unreadable checkpoint is logged and skipped.
func (r *Recommender) loadCheckpoints(ctx context.Context, existing map[model.WorkloadID]bool) (counts loadCounts, err error) {
	r.ahead = nil
	err = r.eachCheckpoint(ctx, func(listed listedCheckpoint) {
		c, faulty, err := decodeCheckpoint(listed)
		if faulty != nil {
			r.Log.Error(faulty, resumeIgnored, "namespace", listed.namespace, "checkpoint", listed.name)
		}
		known := true
		if err == nil {
			r.using(func() {
				known, err = r.Restore(c, r.Clock.Now())
				if id := (model.WorkloadID{Namespace: c.Namespace, Name: c.Spec.VPAObjectName}); !existing[id] && r.Namespaces.Serve(c.Namespace) {
					err = r.cluster.RestoreGone(id, c.Spec.ContainerName, &c.Status, r.Clock.Now())
				}
			})
		}
		switch {
		case errors.Is(err, model.ErrAhead):
			counts.ahead++
			r.ahead = append(r.ahead, c)
			return
		case err != nil:
			r.reportUnusable(listed.namespace, listed.name, err)
			counts.unreadable++
		case !known:
			counts.unused++
			checkpointsTotal.WithLabelValues("unused").Inc()
		default:
			counts.loaded++
			checkpointsTotal.WithLabelValues("loaded").Inc()
		}
	})
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w: allow this process to list, create, patch and delete verticalpodautoscalercheckpoints.autoscaling.k8s.io, or use --storage=prometheus", err)
	}
	return counts, err
}

func (r *Recommender) reportUnusable(namespace, checkpoint string, err error) {
	checkpointsTotal.WithLabelValues("unreadable").Inc()
	r.Log.Error(err, "checkpoint unusable; the history of this container starts anew and replaces it",
		"namespace", namespace, "checkpoint", checkpoint)
}

// loadAhead decides about the checkpoints that seem to be of a time to come. Once a sample was
// accepted, this machine's clock agrees with that of the source of usage; until then it may be the
// one that is wrong, and nothing replaces them.
func (r *Recommender) loadAhead() {
	if len(r.ahead) == 0 || r.cluster.Newest().IsZero() {
		return
	}
	loaded := 0
	for _, c := range r.ahead {
		var err error
		r.using(func() {
			known := false
			if known, err = r.Restore(c, r.Clock.Now()); known { // it lacks the samples of this cycle
				delete(r.workloads[model.WorkloadID{Namespace: c.Namespace, Name: c.Spec.VPAObjectName}].stored, c.Spec.ContainerName)
			}
		})
		if err != nil {
			r.reportUnusable(c.Namespace, c.Name, err)
			continue
		}
		loaded++
		checkpointsTotal.WithLabelValues("loaded").Inc()
	}
	r.Log.Info("the clock agrees with that of the metrics source; decided whether to use checkpoints with times in the future", "checkpoints", len(r.ahead), "loaded", loaded)
	r.ahead = nil
	r.using(func() { r.Continue(r.Clock.Now()) })
}

// read reports whether all checkpoints are read, and nothing is to be decided about any.
func (r *Recommender) read() bool { return r.loaded && len(r.ahead) == 0 }

// Restore adds the history of a container from its checkpoint, and replaces what was restored
// before. known is false for a checkpoint of a VPA that is not there. The error names the field that
// cannot be used.
func (s *State) Restore(c *vpav1.VerticalPodAutoscalerCheckpoint, now time.Time) (known bool, err error) {
	w := s.workloads[model.WorkloadID{Namespace: c.Namespace, Name: c.Spec.VPAObjectName}]
	if w == nil {
		return false, nil
	}
	if err := w.model.Restore(s.windowOf(w, c.Spec.ContainerName), c.Spec.ContainerName, &c.Status, now); err != nil {
		return true, err
	}
	w.knows(c.Spec.ContainerName)
	w.counted(c.Spec.ContainerName, c.Status.LastUpdateTime.Time, now)
	s.resume(w, c, now)
	return true, nil
}

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
