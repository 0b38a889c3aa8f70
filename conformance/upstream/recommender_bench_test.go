package upstream

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	upstreammodel "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"

	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// benchBegin is the start of the benchmarks' history.
var benchBegin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// BenchmarkIngest adds samples of CPU and memory in alternation, for 1000 containers under one VPA,
// a round a minute. An operation is one sample.
func BenchmarkIngest(b *testing.B) {
	const containers = 1000
	s := story{}
	pod := func(i int) happens {
		return happens{Do: doPod, Name: fmt.Sprintf("p%d", i), Labels: map[string]string{"app": "a", "version": fmt.Sprint(i % 100)}, Containers: []string{"app"}}
	}
	vpa := happens{Do: doVPA, Name: "v", Selector: "app=a"}
	amount := func(i int) int64 { return int64(i%2)*1e8 + int64(i%977)*1000 }
	b.Run("by=upstream", func(b *testing.B) {
		u := newByUpstream(s, benchBegin)
		u.setVPA(vpa)
		var all []upstreammodel.ContainerUsageSampleWithKey
		for i := range containers {
			u.setPod(pod(i))
			for _, r := range []upstreammodel.ResourceName{upstreammodel.ResourceCPU, upstreammodel.ResourceMemory} {
				all = append(all, upstreammodel.ContainerUsageSampleWithKey{
					ContainerUsageSample: upstreammodel.ContainerUsageSample{Resource: r}, Container: containerID(pod(i), "app"),
				})
			}
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			one := &all[i%len(all)]
			one.MeasureStart, one.Usage = benchBegin.Add(time.Duration(i/len(all))*time.Minute), upstreammodel.ResourceAmount(amount(i))
			if err := u.cluster.AddSample(one); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("by=celvpa", func(b *testing.B) {
		c := newByCelvpa(s, benchBegin)
		c.setVPA(vpa)
		var all []model.Sample
		for i := range containers {
			c.setPod(pod(i))
			for _, r := range []model.Resource{model.CPU, model.Memory} {
				all = append(all, model.Sample{Pod: model.PodID{Namespace: "ns", Name: pod(i).Name}, Container: "app", Resource: r})
			}
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			one := &all[i%len(all)]
			one.At, one.Amount = benchBegin.Add(time.Duration(i/len(all))*time.Minute), amount(i)
			if taken := c.cluster.AddSample(*one, one.At); taken != model.Accepted {
				b.Fatal(taken)
			}
			i++
		}
	})
}

// aDay is a day of samples of two containers, one a minute, for pods with each of the given labels.
func aDay(to recommending, groups int, policies []upstreamv1.ContainerResourcePolicy) {
	to.setVPA(happens{Do: doVPA, Name: "v", Selector: "app=a", Policies: policies})
	for g := range groups {
		pod := happens{Do: doPod, Name: fmt.Sprintf("p%d", g), Labels: map[string]string{"app": "a", "version": fmt.Sprint(g)}, Containers: []string{"app", "sidecar"}}
		to.setPod(pod)
		for i := range 1440 {
			for c, name := range pod.Containers {
				h := happens{At: span(i) * span(time.Minute), Name: pod.Name, Container: name}
				h.Do, h.Amount = doCPU, int64(100+c*300+i%977)
				to.add(h)
				h.Do, h.Amount = doMemory, int64(2e8+1e6*(i%500)+g)
				to.add(h)
			}
		}
	}
}

// BenchmarkRecommend recommends for a VPA with two containers: merge, estimate and cap. celvpa's
// state skips unchanged VPAs, so both sides get one sample an operation.
func BenchmarkRecommend(b *testing.B) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	for name, policies := range map[string][]upstreamv1.ContainerResourcePolicy{
		"none":   nil,
		"bounds": {{ContainerName: "*", MinAllowed: list("100m", "64Mi"), MaxAllowed: list("1", "512Mi")}},
	} {
		next := func(i int) happens {
			return happens{At: span(24*time.Hour) + span(i)*span(time.Second), Do: doCPU, Name: "p0", Container: "app", Amount: int64(100 + i%977)}
		}
		upstream := func(sample bool) func(b *testing.B) {
			return func(b *testing.B) {
				u := newByUpstream(story{Raw: true}, benchBegin)
				aDay(u, 1, policies)
				id := upstreammodel.VpaID{Namespace: "ns", VpaName: "v"}
				v, object := u.cluster.VPAs()[id], u.objects[id]
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if sample && !u.add(next(i)) {
						b.Fatal("the sample does not count")
					}
					if len(u.recommend(v, object).ContainerRecommendations) != 2 {
						b.Fatal("containers are missing")
					}
					i++
				}
			}
		}
		b.Run("policy="+name+"/by=upstream", upstream(false))
		b.Run("policy="+name+"/by=upstream-after-a-sample", upstream(true))
		b.Run("policy="+name+"/by=celvpa", func(b *testing.B) {
			c := newByCelvpa(story{}, benchBegin)
			aDay(c, 1, policies)
			id := model.WorkloadID{Namespace: "ns", Name: "v"}
			w, v := c.cluster.Workload(id), c.objects[id]
			b.ReportAllocs()
			for b.Loop() {
				if len(recommender.Recommend(c.plan, v, w.View(c.settings), false).Recommendations) != 2 {
					b.Fatal("containers are missing")
				}
			}
		})
		b.Run("policy="+name+"/by=celvpa-state-after-a-sample", func(b *testing.B) {
			benchmarkState(b, policies, next)
		})
	}
}

// benchmarkState computes the whole status of a VPA.
func benchmarkState(b *testing.B, policies []upstreamv1.ContainerResourcePolicy, next func(i int) happens) {
	now := benchBegin.Add(30 * 24 * time.Hour)
	s := recommender.NewState(model.DefaultSettings(), logr.Discard(), nil)
	s.UseRules(bookFor(story{}))
	h := happens{Do: doVPA, Name: "v", Selector: "app=a", Policies: policies}
	v := converted[vpav1.VerticalPodAutoscaler](h.upstreamVPA(benchBegin))
	v.ResourceVersion = "1"
	w := s.SetVPA(v, target.Answer{Selector: labels.SelectorFromSet(labels.Set{"app": "a"})})
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.Labels, pod.ResourceVersion, pod.Status.Phase = "ns", "p0", map[string]string{"app": "a"}, "1", corev1.PodRunning
	pod.Spec.Containers = []corev1.Container{{Name: "app"}, {Name: "sidecar"}}
	s.SetPod(pod, false, benchBegin)
	s.Govern()
	for i := range 1440 {
		var samples []model.Sample
		for c, name := range []string{"app", "sidecar"} {
			h := happens{At: span(i) * span(time.Minute), Name: "p0", Container: name, Do: doCPU, Amount: int64(100 + c*300 + i%977)}
			samples = append(samples, sampleOf(h, benchBegin))
			h.Do, h.Amount = doMemory, int64(2e8+1e6*(i%500))
			samples = append(samples, sampleOf(h, benchBegin))
		}
		s.Add(samples, now)
	}
	first := s.Update(w, now)
	require.NotNil(b, first)
	require.Len(b, first.Status.Recommendation.ContainerRecommendations, 2)
	one := make([]model.Sample, 1)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		one[0] = sampleOf(next(i), benchBegin)
		if s.Add(one, now)[model.CPU][model.Accepted] != 1 || s.Update(w, now) == nil {
			b.Fatal("nothing changed")
		}
		i++
	}
}

// BenchmarkMerge merges the histories of ten kinds of pods with two containers each.
func BenchmarkMerge(b *testing.B) {
	b.Run("by=upstream", func(b *testing.B) {
		u := newByUpstream(story{Raw: true}, benchBegin)
		aDay(u, 10, nil)
		v := u.cluster.VPAs()[upstreammodel.VpaID{Namespace: "ns", VpaName: "v"}]
		b.ReportAllocs()
		for b.Loop() {
			if len(v.AggregateStateByContainerName()) != 2 {
				b.Fatal("containers are missing")
			}
		}
	})
	b.Run("by=celvpa", func(b *testing.B) {
		c := newByCelvpa(story{}, benchBegin)
		aDay(c, 10, nil)
		w := c.cluster.Workload(model.WorkloadID{Namespace: "ns", Name: "v"})
		b.ReportAllocs()
		for b.Loop() {
			if len(w.View(c.settings).Containers) != 2 {
				b.Fatal("containers are missing")
			}
		}
	})
}

// BenchmarkCheckpoint encodes the checkpoints of two containers as JSON.
func BenchmarkCheckpoint(b *testing.B) {
	for name, one := range map[string]recommending{"upstream": newByUpstream(story{Raw: true}, benchBegin), "celvpa": newByCelvpa(story{}, benchBegin)} {
		aDay(one, 1, nil)
		b.Run("by="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if len(one.checkpoints()) != 2 {
					b.Fatal("containers are missing")
				}
			}
		})
	}
}
