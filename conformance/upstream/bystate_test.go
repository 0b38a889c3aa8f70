package upstream

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// byState is celvpa's whole state, which computes a VPA's status. It cannot be notified of deleted
// pods from outside, and exposes only the recommendation.
type byState struct {
	begin   time.Time
	state   *recommender.State
	objects map[string]*vpav1.VerticalPodAutoscaler
	version int
}

func newByState(s story, begin time.Time) *byState {
	b := &byState{begin: begin, state: recommender.NewState(model.UnusedGrace, logr.Discard(), nil), objects: map[string]*vpav1.VerticalPodAutoscaler{}}
	b.state.UseRules(bookFor(s))
	return b
}

func (b *byState) next() string {
	b.version++
	return strconv.Itoa(b.version)
}

func (b *byState) setVPA(h happens) {
	v := converted[vpav1.VerticalPodAutoscaler](h.upstreamVPA(b.begin))
	v.ResourceVersion = b.next()
	selector, err := labels.Parse(h.Selector)
	if err != nil {
		panic(err)
	}
	name := v.Namespace + "/" + v.Name
	if old := b.objects[name]; old != nil {
		v.Status = old.Status
	}
	b.objects[name] = v
	b.state.SetVPA(v, target.Answer{Selector: selector})
}

func (b *byState) dropVPA(namespace, name string) {
	delete(b.objects, namespace+"/"+name)
	keep := map[model.WorkloadID]bool{}
	for name := range b.objects {
		namespace, name, _ := strings.Cut(name, "/")
		keep[model.WorkloadID{Namespace: namespace, Name: name}] = true
	}
	b.state.KeepVPAs(keep)
}

func (b *byState) setPod(h happens) {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.Labels, pod.ResourceVersion, pod.Status.Phase = h.namespace(), h.Name, h.Labels, b.next(), h.phase()
	for _, name := range h.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
	}
	for _, name := range h.Init {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name})
	}
	b.state.SetPod(pod, false, time.Now())
}

func (b *byState) add(h happens) bool {
	b.state.Govern()
	if h.Do == doOOM {
		taken, _ := b.state.AddOOM(oomOf(h, b.begin), time.Now())
		return taken == model.Accepted
	}
	s := sampleOf(h, b.begin)
	return b.state.Add([]model.Sample{s}, time.Now())[s.Resource][model.Accepted] == 1
}

func (b *byState) look() map[string]*known {
	out := map[string]*known{}
	for _, w := range b.state.Workloads() {
		v := w.VPA
		if u := b.state.Update(w, time.Now()); u != nil {
			v = v.DeepCopy()
			v.Status, v.ResourceVersion = *u.Status, b.next()
			b.objects[w.String()] = v
			b.state.SetVPA(v, w.Found)
		}
		out[w.String()] = &known{Recommended: recommendedOf(v.Status.Recommendation.ContainerRecommendations)}
	}
	return out
}

func (*byState) dropPod(string, string)               {}
func (*byState) collect()                             {}
func (*byState) checkpoints() map[checkpointID][]byte { return nil }
func (*byState) restart(map[checkpointID][]byte)      {}
