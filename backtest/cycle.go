package backtest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// cycle is one cycle of the recommender, and then one of the updater.
func (r *replay) cycle(now time.Time) {
	r.recommend(now)
	r.update(now)
}

// recommend does what a cycle of the recommender does, in its order: pods, samples, OOMs, pods that
// are gone, recommendations, usage that is too old.
func (r *replay) recommend(now time.Time) {
	if r.changed {
		for i := range r.pods {
			if r.pods[i].pod != nil {
				r.state.SetPod(r.pods[i].pod, false, now)
			}
		}
	}
	if len(r.samples) > 0 || r.changed {
		r.state.Govern()
	}
	r.feed(now)
	if r.changed {
		r.state.KeepPods(r.present())
		r.changed = false
	}
	for _, v := range r.vpas {
		r.recommendFor(v, now)
	}
	r.state.CollectGarbage(now)
}

func (r *replay) present() map[model.PodID]bool {
	out := make(map[model.PodID]bool, len(r.pods))
	for i := range r.pods {
		if pod := r.pods[i].pod; pod != nil {
			out[model.PodID{Namespace: pod.Namespace, Name: pod.Name}] = true
		}
	}
	return out
}

func (r *replay) feed(now time.Time) {
	if len(r.samples) > 0 {
		samples := make([]model.Sample, 0, len(r.samples))
		for _, a := range r.samples {
			samples = append(samples, model.Sample{ // its pod may have ended since
				Pod: model.PodID{Namespace: r.in.slots[a.slot].staged.ID.Namespace, Name: r.pods[a.slot].name}, Container: r.pods[a.slot].containers[a.container].name,
				Resource: a.resource, Amount: a.amount, At: clock(a.at),
			})
		}
		r.state.Add(samples, now)
	}
	for _, oom := range r.ooms {
		r.state.AddOOM(oom, now)
	}
}

// recommendFor writes a recommendation if it changes.
func (r *replay) recommendFor(v *liveVPA, now time.Time) {
	if v.served == nil {
		return
	}
	next, failed, changed := r.state.Recommendation(v.served, now)
	for _, failure := range failed {
		r.note("%s: %v; its values are left as they were", v, failure)
	}
	before := v.Object.Status.Recommendation
	if !changed || equality.Semantic.DeepEqual(before, next) {
		return
	}
	v.version++
	v.Object.Status.Recommendation = next
	v.Object.ResourceVersion = strconv.Itoa(v.version)
	if r.listen != nil {
		r.listen(r.policy.Name, now, v.Object)
	}
	if before == nil {
		v.VPA = matcher.New(r.policy.Book, v.Object, logr.Discard())
		for i := range r.pods {
			if r.pods[i].pod != nil {
				r.assign(&r.pods[i])
			}
		}
	}
	for i := range next.ContainerRecommendations {
		r.recommended(v, &next.ContainerRecommendations[i], before, now)
	}
}

// recommended records what is recommended for the containers of one name.
func (r *replay) recommended(v *liveVPA, c *vpav1.RecommendedContainerResources, before *vpav1.RecommendedPodResources, now time.Time) {
	if len(c.Target) == 0 {
		return
	}
	var explained []engine.Step
	for _, w := range v.workloads {
		t := r.tallies[w][c.ContainerName]
		if t == nil {
			continue
		}
		if t.first == nil {
			after := (now.UnixNano() - t.firstSeen) / int64(time.Second)
			t.first = &after
		}
		recorder := r.series[w][c.ContainerName]
		if recorder == nil {
			continue
		}
		recorder.recommend(c)
		was := targetIn(before, c.ContainerName)
		if equality.Semantic.DeepEqual(was, c.Target) {
			continue
		}
		if explained == nil {
			explained = r.explain(v.served, c.ContainerName, now)
		}
		recorder.cause(Cause{At: now, CPU: changeOf(was, c.Target, cpu), Memory: changeOf(was, c.Target, memory), Rules: rulesOf(explained)})
	}
}

func (r *replay) explain(w *recommender.Workload, container string, now time.Time) []engine.Step {
	for _, explained := range r.state.Explain(w, now) {
		if explained.Container == container {
			return explained.Steps
		}
	}
	return nil
}

// rulesOf names the rules that set a target, with what they made of it.
func rulesOf(steps []engine.Step) []string {
	out := []string{}
	for _, s := range steps {
		if strings.HasPrefix(s.Field, "now.") && s.Item == "target" {
			out = append(out, s.Path()+": "+strings.TrimPrefix(s.Field, "now.")+" "+s.From+" → "+s.To)
		}
	}
	return out
}

func targetIn(r *vpav1.RecommendedPodResources, container string) corev1.ResourceList {
	if r == nil {
		return nil
	}
	i := slices.IndexFunc(r.ContainerRecommendations, func(c vpav1.RecommendedContainerResources) bool { return c.ContainerName == container })
	if i < 0 {
		return nil
	}
	return r.ContainerRecommendations[i].Target
}

// changeOf is the change of an amount from one list to another, in cores or bytes; nil without one.
func changeOf(before, after corev1.ResourceList, of resourceKind) *Change {
	out := &Change{From: amountIn(before, of), To: amountIn(after, of)}
	if out.From == nil && out.To == nil || out.From != nil && out.To != nil && *out.From == *out.To {
		return nil
	}
	return out
}

// amountIn is in cores or bytes; nil without one.
func amountIn(list corev1.ResourceList, of resourceKind) *float64 {
	name := corev1.ResourceCPU
	if of == memory {
		name = corev1.ResourceMemory
	}
	if _, there := list[name]; !there {
		return nil
	}
	return shown(amountOf(list, of), of)
}

// shown is an amount as results have it: in cores or bytes.
func shown(amount int64, of resourceKind) *float64 {
	out := float64(amount)
	if of == cpu {
		out /= 1000
	}
	return &out
}
