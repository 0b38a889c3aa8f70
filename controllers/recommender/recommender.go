package recommender

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// DefaultName is the recommender that serves VPAs which name none.
const DefaultName = "default"

// garbageInterval is how often aggregates are collected (UPSTREAM.md §2.19).
const garbageInterval = time.Hour

// Options configure a Recommender; all fields are required unless stated.
type Options struct {
	Client     client.Client // reads from a cache, writes to the API
	Source     Source
	Resolver   *target.Resolver
	Rules      func() *engine.Rulebook // the rules in force, asked once a cycle
	Shadows    *policy.Shadows
	Clock      clock.WithTicker
	Log        logr.Logger
	Name       string // --recommender-name
	Interval   time.Duration
	Namespaces target.Namespaces
	Settings   model.Settings
}

// Recommender runs cycles of sampling and recommending while it leads.
type Recommender struct {
	*cycle.Loop
	Options
	cluster     *model.Cluster
	rules       *engine.Rulebook // of the cycle at hand
	folded      *folded
	lastGarbage time.Time
}

// New returns a recommender without history.
func New(o Options) *Recommender {
	r := &Recommender{Options: o, cluster: model.NewCluster(o.Settings), folded: newFolded()}
	r.Loop = cycle.New("recommender", o.Interval, o.Clock, func(ctx context.Context) {
		latency.Time("total", func() { r.RunOnce(ctx) })
	})
	return r
}

// RunOnce is one cycle. What fails is logged; nothing stops the rest of the cycle.
func (r *Recommender) RunOnce(ctx context.Context) {
	r.rules = r.Rules()
	var vpas []*vpav1.VerticalPodAutoscaler
	var seen map[model.PodID]bool
	latency.Time("LoadVPAs", func() { vpas = r.loadVPAs(ctx) })
	latency.Time("LoadPods", func() { seen = r.loadPods(ctx) })
	latency.Time("LoadMetrics", func() { r.loadSamples(ctx) })
	if seen != nil {
		r.cluster.KeepPods(seen)
	}
	latency.Time("UpdateVPAs", func() {
		for _, v := range vpas {
			if ctx.Err() != nil {
				return
			}
			r.update(ctx, v)
		}
		r.folded.Sweep()
	})
	latency.Time("GarbageCollect", func() {
		if now := r.Clock.Now(); now.Sub(r.lastGarbage) >= garbageInterval {
			r.cluster.CollectGarbage(now)
			r.lastGarbage = now
		}
	})
}

func (r *Recommender) loadVPAs(ctx context.Context) []*vpav1.VerticalPodAutoscaler {
	var list vpav1.VerticalPodAutoscalerList
	if err := r.Client.List(ctx, &list); err != nil {
		r.Log.Error(err, "cannot list VerticalPodAutoscalers; this cycle only samples usage")
		return nil
	}
	var out []*vpav1.VerticalPodAutoscaler
	for i := range list.Items {
		v := &list.Items[i]
		if r.Namespaces.Serve(v.Namespace) && r.mine(v) {
			out = append(out, v)
		}
	}
	return out
}

// mine reports whether a VPA asks for this recommender (UPSTREAM.md §2.3).
func (r *Recommender) mine(v *vpav1.VerticalPodAutoscaler) bool {
	if len(v.Spec.Recommenders) == 0 {
		return r.Name == DefaultName
	}
	for _, one := range v.Spec.Recommenders {
		if one != nil && one.Name == r.Name {
			return true
		}
	}
	return false
}

// loadPods tells the model of all pods that have started; nil means that the list could not be had.
func (r *Recommender) loadPods(ctx context.Context) map[model.PodID]bool {
	var list corev1.PodList
	if err := r.Client.List(ctx, &list); err != nil {
		r.Log.Error(err, "cannot list pods; going on with those of the last cycle")
		return nil
	}
	seen := map[model.PodID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Status.Phase == corev1.PodPending || !r.Namespaces.Serve(pod.Namespace) {
			continue
		}
		id := model.PodID{Namespace: pod.Namespace, Name: pod.Name}
		seen[id] = true
		r.cluster.SetPod(id, model.PodSpec{
			Labels:         pod.Labels,
			Containers:     containerNames(pod.Spec.Containers),
			InitContainers: containerNames(pod.Spec.InitContainers),
			Active:         pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed,
		})
	}
	return seen
}

func containerNames(list []corev1.Container) []string {
	out := make([]string, 0, len(list))
	for i := range list {
		out = append(out, list[i].Name)
	}
	return out
}

func (r *Recommender) loadSamples(ctx context.Context) {
	samples, err := r.Source.Samples(ctx)
	if err != nil {
		r.Log.Error(err, "no samples in this cycle")
	}
	accepted, unknown := 0, 0
	for _, s := range samples {
		switch result := r.cluster.AddSample(s); {
		case !result.Known:
			unknown++
		case result.CPU || result.Memory:
			accepted++
			r.Log.V(6).Info("sample", "namespace", s.Pod.Namespace, "pod", s.Pod.Name, "container", s.Container,
				"cpuMilli", s.CPU, "memoryBytes", s.Memory, "at", s.At)
		}
	}
	aggregatesCount.Set(float64(r.cluster.Aggregates()))
	r.Log.V(4).Info("samples read", "accepted", accepted, "ofUnknownContainers", unknown, "total", len(samples))
}
