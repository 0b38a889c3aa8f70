package recommender

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// crowd is a cluster of VPAs in 100 namespaces, each with two pods of two containers.
type crowd struct {
	*Recommender
	vpas    []*vpav1.VerticalPodAutoscaler
	answers []target.Answer
	pods    []*corev1.Pod
	cycles  int
}

func newCrowd(b *testing.B, vpas int) *crowd {
	c := &crowd{Recommender: New(Options{UnusedGrace: model.UnusedGrace, Log: logr.Discard()})}
	book, err := policy.Load(upstreamsStart) // without samples there would be nothing to do
	if err != nil {
		b.Fatal(err)
	}
	c.UseRules(book)
	for i := range vpas {
		namespace, name := fmt.Sprint("ns-", i%100), fmt.Sprint("app-", i)
		v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1", Generation: 1}}
		c.vpas = append(c.vpas, v)
		set := map[string]string{"app": name, "pod-template-hash": "5d4f8c7b9", "app.kubernetes.io/managed-by": "Helm"}
		c.answers = append(c.answers, target.Answer{Selector: labels.SelectorFromSet(labels.Set{"app": name, "app.kubernetes.io/managed-by": "Helm"})})
		for p := range 2 {
			c.pods = append(c.pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(name, "-", p), ResourceVersion: "1", Labels: set},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}, {Name: "sidecar"}}},
			})
		}
	}
	return c
}

// load takes in all objects, and with it a sample of each container when there are any. It lends the
// state between its steps, as RunOnce does.
func (c *crowd) load(sampled bool) {
	c.cycles++
	now := start.Add(time.Duration(c.cycles) * time.Minute)
	seen := map[model.PodID]bool{}
	for i, v := range c.vpas {
		c.using(func() { c.SetVPA(v, c.answers[i]) })
	}
	c.using(func() {
		for _, pod := range c.pods {
			c.SetPod(pod, false, now)
			seen[model.PodID{Namespace: pod.Namespace, Name: pod.Name}] = true
		}
	})
	c.using(c.Govern)
	if sampled {
		samples := make([]model.Sample, 0, 4*len(c.pods))
		for i, pod := range c.pods {
			id := model.PodID{Namespace: pod.Namespace, Name: pod.Name}
			for _, name := range []string{"app", "sidecar"} {
				samples = append(samples,
					model.Sample{Pod: id, Container: name, Resource: model.CPU, Amount: int64(100 + (i*7+c.cycles*13)%900), At: now},
					model.Sample{Pod: id, Container: name, Resource: model.Memory, Amount: int64(1+(i*7+c.cycles)%900) << 20, At: now})
			}
		}
		c.using(func() { c.Add(samples, now) })
	}
	c.using(func() { c.cluster.KeepPods(seen) })
}

// update evaluates all VPAs and takes every status for written.
func (c *crowd) update() (changed int) {
	now := start.Add(time.Duration(c.cycles) * time.Minute)
	for _, w := range c.Workloads() {
		var u *Update
		c.using(func() { u = c.Update(w, now) })
		if u != nil {
			changed++
			v := *w.VPA
			v.Status = *u.Status
			v.ResourceVersion += "1"
			w.VPA = &v
		}
	}
	byName := map[string]*vpav1.VerticalPodAutoscaler{}
	for _, w := range c.Workloads() {
		byName[w.VPA.Name] = w.VPA
	}
	for i, v := range c.vpas {
		c.vpas[i] = byName[v.Name]
	}
	return changed
}

// BenchmarkCycle is a cycle of the recommender without what it reads from and writes to the
// cluster.
func BenchmarkCycle(b *testing.B) {
	for _, vpas := range []int{1000, 10000} {
		for _, sampled := range []bool{false, true} {
			name := fmt.Sprintf("vpas=%d/samples=%t", vpas, sampled)
			b.Run(name, func(b *testing.B) {
				c := newCrowd(b, vpas)
				for range 3 {
					c.load(sampled)
					c.update()
				}
				b.ReportAllocs()
				changed := 0
				for b.Loop() {
					c.load(sampled)
					changed += c.update()
				}
				b.ReportMetric(float64(changed)/float64(b.N), "changed/op")
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB-heap")
				runtime.KeepAlive(c)
			})
		}
	}
}
