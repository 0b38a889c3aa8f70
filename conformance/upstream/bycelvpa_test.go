package upstream

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	upstreamapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/lang"
)

const (
	// flagIgnoreRemoved leaves out containers that no pod has any more; upstream recommends for
	// them.
	flagIgnoreRemoved = "ignore-removed-containers"
	// flagMinSamples is how many samples a resource needs before it is recommended; upstream needs
	// none.
	flagMinSamples = "recommendation-min-samples"
	// flagMaxCPU and flagMaxMemory are what samples may be at most; upstream accepts any.
	flagMaxCPU, flagMaxMemory = "max-usage-cpu", "max-usage-memory"
)

// ruleFlags are the rule parameters that each flag sets, by engine.ParamRef.Key.
var ruleFlags = sync.OnceValues(func() (map[string][]string, error) {
	library, err := policy.Shipped()
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, p := range library.Params() {
		if p.Param.Flag != "" {
			out[p.Param.Flag] = append(out[p.Param.Flag], p.Key)
		}
	}
	return out, nil
})

// storyBooks are the rulebooks by the story's flags.
var storyBooks = map[string]*compile.Rulebook{}

func bookFor(s story) *compile.Rulebook {
	flags, err := ruleFlags()
	if err != nil {
		panic(err)
	}
	options := policy.Options{Gates: map[string]bool{"PerVPAConfig": s.PerVPA}, Params: map[string]string{
		flags[flagMinSamples][0]: "0", flags[flagMaxCPU][0]: "9223372036854775807m", flags[flagMaxMemory][0]: "9223372036854775807"}}
	if !s.Raw {
		options.Params[flags[flagIgnoreRemoved][0]] = "false"
	}
	for name, text := range s.Flags {
		for _, p := range flags[name] {
			options.Params[p] = text
		}
	}
	key := fmt.Sprint(options)
	if b := storyBooks[key]; b != nil {
		return b
	}
	b, err := policy.Load(options)
	if err != nil {
		panic(fmt.Sprintf("the rules for %s: %v", key, err)) // a fault of the test
	}
	storyBooks[key] = b
	return b
}

// converted converts an object of one side to the type of the other.
func converted[To any](from any) *To {
	out := new(To)
	if err := json.Unmarshal(mustJSON(from), out); err != nil {
		panic(err) // both sides read the same objects
	}
	return out
}

func policyOf(v *upstreamv1.VerticalPodAutoscaler, container string) *upstreamv1.ContainerResourcePolicy {
	return upstreamapi.GetContainerResourcePolicy(container, v.Spec.ResourcePolicy)
}

// byCelvpa is celvpa's model with its rules.
type byCelvpa struct {
	story   story
	begin   time.Time
	plan    *engine.Plan
	cluster *model.Cluster
	objects map[model.WorkloadID]*vpav1.VerticalPodAutoscaler
	remembered
}

func newByCelvpa(s story, begin time.Time) *byCelvpa {
	c := &byCelvpa{story: s, begin: begin, plan: bookFor(s).Default()}
	c.forget()
	return c
}

func (c *byCelvpa) forget() {
	c.cluster = model.NewCluster(model.UnusedGrace)
	w, failed := facts.WindowFor(c.plan, "", facts.Policy(nil), nil)
	if len(failed) > 0 {
		panic(failed[0])
	}
	c.cluster.SetWindow(w)
	c.objects = map[model.WorkloadID]*vpav1.VerticalPodAutoscaler{}
}

// govern does what the recommender's state does before it takes the samples of a cycle.
func (c *byCelvpa) govern() {
	for id, v := range c.objects {
		c.cluster.Workload(id).Governs(func(container string, a *model.Aggregate) {
			w, failed := facts.WindowFor(c.plan, container, recordOf(c.plan, v, container), nil)
			if len(failed) > 0 {
				panic(failed[0])
			}
			a.Window = w
		})
	}
}

func recordOf(plan *engine.Plan, v *vpav1.VerticalPodAutoscaler, container string) *lang.Record {
	return facts.Policy(facts.PolicyRulesOf(plan).For(v.Spec.ResourcePolicy, container))
}

func (c *byCelvpa) setVPA(h happens) {
	c.vpas = with(c.vpas, h)
	v := converted[vpav1.VerticalPodAutoscaler](h.upstreamVPA(c.begin))
	id := model.WorkloadID{Namespace: v.Namespace, Name: v.Name}
	selector, err := labels.Parse(h.Selector)
	if err != nil {
		panic(err)
	}
	c.objects[id] = v
	order, failed := facts.OrderOf(c.plan, v)
	if len(failed) > 0 {
		panic(failed[0])
	}
	c.cluster.SetWorkload(id, order, target.Of(v).String(), selector)
	c.govern()
}

func (c *byCelvpa) dropVPA(namespace, name string) {
	c.vpas = leaving(c.vpas, namespace, name)
	delete(c.objects, model.WorkloadID{Namespace: namespace, Name: name})
	keep := map[model.WorkloadID]bool{}
	for id := range c.objects {
		keep[id] = true
	}
	c.cluster.KeepWorkloads(keep)
	if !c.story.Raw { // celvpa's table of differences lists this: a VPA that comes back has its history
		c.cluster.ForgetGone(c.cluster.Gone())
	}
	c.govern()
}

func (c *byCelvpa) setPod(h happens) {
	c.pods = with(c.pods, h)
	id := model.PodID{Namespace: h.namespace(), Name: h.Name}
	c.cluster.SetPod(id, model.PodSpec{Labels: h.Labels, Containers: h.Containers, InitContainers: h.Init, Active: !h.Ended}, time.Now())
	c.govern()
}

func (c *byCelvpa) dropPod(namespace, name string) {
	c.pods = leaving(c.pods, namespace, name)
	keep := map[model.PodID]bool{}
	for _, h := range c.pods {
		keep[model.PodID{Namespace: h.namespace(), Name: h.Name}] = true
	}
	c.cluster.KeepPods(keep)
}

func sampleOf(h happens, begin time.Time) model.Sample {
	s := model.Sample{Pod: model.PodID{Namespace: h.namespace(), Name: h.Name}, Container: h.Container, Amount: h.Amount, At: h.taken(begin)}
	if h.Do == doMemory {
		s.Resource = model.Memory
	}
	return s
}

func oomOf(h happens, begin time.Time) model.OOM {
	return model.OOM{Pod: model.PodID{Namespace: h.namespace(), Name: h.Name}, Container: h.Container, Memory: h.Amount, At: h.taken(begin)}
}

func (c *byCelvpa) add(h happens) bool {
	if h.Do != doOOM {
		return c.cluster.AddSample(sampleOf(h, c.begin), time.Now()) == model.Accepted
	}
	return c.cluster.AddOOM(oomOf(h, c.begin), time.Now(), func(w *model.Workload, reported, peak int64) (int64, bool) {
		record := facts.Policy(nil)
		if w != nil {
			record = recordOf(c.plan, c.objects[w.ID], h.Container)
		}
		bytes, ok, failed := facts.OOMSample(c.plan, h.Container, record, facts.OOM{Reported: reported, Peak: peak}, nil)
		if len(failed) > 0 {
			panic(failed[0])
		}
		return bytes, ok
	}) == model.Accepted
}

func (c *byCelvpa) collect() {
	c.cluster.CollectGarbage(time.Now())
	c.govern()
}

func (c *byCelvpa) look() map[string]*known {
	out := map[string]*known{}
	for id, v := range c.objects {
		view := c.cluster.Workload(id).View()
		k := &known{Pods: view.Pods, Containers: map[string]*usage{}}
		for _, c := range view.Containers {
			x := &usage{First: c.FirstSample, Last: c.LastSample, Samples: c.Samples}
			for _, p := range percentiles {
				x.CPU = append(x.CPU, c.CPU.Percentile(p))
				x.Memory = append(x.Memory, c.Memory.Percentile(p))
			}
			k.Containers[c.Container] = x
		}
		result := recommender.Recommend(c.plan, v, view, false)
		if len(result.Failed) > 0 {
			panic(result.Failed[0])
		}
		k.Recommended = recommendedOf(result.Recommendations)
		out[id.Namespace+"/"+id.Name] = k
	}
	return out
}

func recommendedOf(list []vpav1.RecommendedContainerResources) (out []recommended) {
	for _, r := range list {
		out = append(out, recommended{r.ContainerName, r.Target, r.LowerBound, r.UpperBound, r.UncappedTarget})
	}
	return out
}

func (c *byCelvpa) checkpoints() map[checkpointID][]byte {
	out := map[checkpointID][]byte{}
	for id := range c.objects {
		w := c.cluster.Workload(id)
		for _, container := range w.Containers() {
			if status, _, ok := w.Checkpoint(container, time.Now()); ok {
				out[checkpointID{id.Namespace, id.Name, container}] = mustJSON(status)
			}
		}
	}
	return out
}

func (c *byCelvpa) restart(from map[checkpointID][]byte) {
	c.forget()
	c.again(c, func() {
		for id, text := range from {
			w := c.cluster.Workload(model.WorkloadID{Namespace: id.Namespace, Name: id.VPA})
			if w == nil {
				continue
			}
			status := &vpav1.VerticalPodAutoscalerCheckpointStatus{}
			if err := json.Unmarshal(text, status); err != nil {
				panic(err)
			}
			if err := w.Restore(c.cluster.Window(), id.Container, status, time.Now()); err != nil {
				panic(err)
			}
			if !c.story.Raw { // upstream loses what is open at a restart
				continue
			}
			if _, err := w.Resume(id.Container, status, facts.DefaultWindow(), time.Now()); err != nil {
				panic(err)
			}
		}
		c.govern()
	})
	c.cluster.Continue(time.Now())
}
