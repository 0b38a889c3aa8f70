package backtest

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
)

// perfection gives a pod resources that no rule could know.
type perfection func(sh *shard, slot int, pod *corev1.Pod)

// hindsight gives each container the most that any container of its name in the workload will want,
// and no limits: the least constant requests that usage never exceeds.
func hindsight(sh *shard, slot int, pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		peak, known := sh.peak(sh.slots[slot].workload, c.Name)
		if !known {
			continue
		}
		c.Resources.Limits = nil
		c.Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: facts.CPUQuantity(peak[cpu]), corev1.ResourceMemory: facts.MemoryQuantity(peak[memory]),
		}
	}
}

// peak is the most that containers of a name want.
func (s *shard) peak(workload int, container string) (out [resourceKinds]int64, known bool) {
	for i := range s.slots {
		if s.slots[i].workload != workload {
			continue
		}
		for j := range s.slots[i].containers {
			d := &s.slots[i].containers[j]
			if d.name != container {
				continue
			}
			known = true
			for _, p := range d.cpu {
				out[cpu] = max(out[cpu], p.Amount)
			}
			for _, p := range d.memory {
				out[memory] = max(out[memory], p.Amount)
			}
			for _, p := range d.ooms {
				out[memory] = max(out[memory], p.Amount+1)
			}
		}
	}
	return out, known
}
