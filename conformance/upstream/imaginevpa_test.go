package upstream

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
)

// vpa creates or changes a VPA.
func (w *writer) vpa() {
	h := happens{Do: doVPA, Name: fmt.Sprintf("v%d", w.IntN(4)), Age: w.IntN(5)}
	switch {
	case w.kind.one:
		h.Name, h.Selector = "v0", "app=a"
	case w.kind.perVPA:
		h.Name = oneOf(w, "va", "vb")
		h.Selector = "app=" + h.Name[1:]
		if w.vpas[h.Name] {
			return
		}
	default:
		h.Selector = oneOf(w, "app=a", "app=b", "app in (a,b)", "tier=web", "", "app=a,tier=web", "!nothing", "app!=a")
		if w.chance(0.15) {
			h.Namespace = "other"
		}
	}
	h.Age = len(h.Selector)*7 + int(h.Name[len(h.Name)-1]) // as long as there is a VPA, it is as old as it is
	w.vpas[h.Name] = true
	for _, name := range []string{"app", "*", "sidecar", "agent"} {
		if w.chance(0.4) {
			h.Policies = append(h.Policies, w.policy(name))
		}
	}
	w.Shuffle(len(h.Policies), func(i, j int) { h.Policies[i], h.Policies[j] = h.Policies[j], h.Policies[i] })
	if w.chance(0.3) {
		h.Whole = append(h.Whole, oneOf(w, "app", "sidecar"))
	}
	w.say(h)
}

func (w *writer) policy(name string) upstreamv1.ContainerResourcePolicy {
	p := upstreamv1.ContainerResourcePolicy{ContainerName: name}
	if w.chance(0.3) {
		mode := oneOf(w, upstreamv1.ContainerScalingModeAuto, upstreamv1.ContainerScalingModeOff)
		p.Mode = &mode
	}
	list := func() corev1.ResourceList {
		out := corev1.ResourceList{}
		if w.chance(0.7) {
			out[corev1.ResourceCPU] = resource.MustParse(oneOf(w, "0", "10m", "0.126", "500m", "1", "2500m", "1k"))
		}
		if w.chance(0.7) {
			out[corev1.ResourceMemory] = resource.MustParse(oneOf(w, "0", "1", "64Mi", "250Mi", "1G", "1.5Gi", "1e9", "2Ti"))
		}
		return out
	}
	if w.chance(0.4) {
		p.MinAllowed = list()
	}
	if w.chance(0.4) {
		p.MaxAllowed = list()
	}
	if w.chance(0.2) {
		p.ControlledResources = &[][]corev1.ResourceName{{}, {"cpu"}, {"memory"}, {"memory", "cpu"}, {"cpu", "nvidia.com/gpu"}}[w.IntN(5)]
	}
	if w.kind.perVPA {
		w.remembering(&p)
	}
	return p
}

// remembering are the fields of AEP-8026. celvpa gives a ratio of 1 with no bump another meaning,
// so it is left out.
func (w *writer) remembering(p *upstreamv1.ContainerResourcePolicy) {
	quantity := func(text string) *resource.Quantity {
		q := resource.MustParse(text)
		return &q
	}
	if w.chance(0.5) {
		p.OOMBumpUpRatio = quantity(oneOf(w, "1.1", "1.234", "2", "1500m"))
	}
	if w.chance(0.5) {
		p.OOMMinBumpUp = quantity(oneOf(w, "0", "1Mi", "500Mi", "12345678"))
	}
	if w.chance(0.5) {
		p.MemoryAggregationIntervalSeconds = new(oneOf[int32](w, 60, 3600, 86400, 100000))
	}
	if w.chance(0.5) {
		p.MemoryAggregationIntervalCount = new(oneOf[int64](w, 1, 2, 8, 1000))
	}
}

// pod creates a pod, sometimes as the replacement of a deleted one.
func (w *writer) pod() {
	a := &actor{name: fmt.Sprintf("p%d", w.made), bases: map[string][2]int64{}}
	w.made++
	a.labels = w.labels()
	a.relabels = w.kind.relabel && w.chance(0.5)
	if !w.kind.one && !w.kind.perVPA && w.chance(0.15) {
		a.namespace = "other"
	}
	for _, c := range []string{"app", "sidecar", "agent"} {
		if c == "app" || w.chance(0.3) {
			a.containers = append(a.containers, c)
		}
	}
	if len(w.gone) > 0 && w.chance(0.3) {
		a.namespace, a.name = w.gone[0].namespace, w.gone[0].name
		w.gone = w.gone[1:]
	}
	for _, c := range a.containers {
		a.bases[c] = [2]int64{oneOf[int64](w, 0, 3, 50, 300, 2000, 64000), oneOf[int64](w, 0, 1e6, 5e7, 262144000, 2e9, 5e11)}
	}
	w.pods = append(w.pods, a)
	w.show(a, false)
}

func (w *writer) labels() map[string]string {
	if w.kind.one {
		return map[string]string{"app": "a"}
	}
	out := map[string]string{"app": oneOf(w, "a", "b")}
	if w.chance(0.5) {
		out["hash"] = oneOf(w, "1", "2", "3")
	}
	if w.chance(0.3) {
		out["tier"] = "web"
	}
	return out
}
