package backtest

import (
	"fmt"
	"strconv"
	"time"

	patch "gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/poddefaults"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// start creates the pod of a slot at its first sample.
func (r *replay) start(slot int, at int64) {
	input := &r.in.slots[slot]
	r.place(slot, input.staged.First, input.staged.ID.Name, at)
	p := &r.pods[slot]
	for i := range p.containers {
		c := &p.containers[i]
		for k := range resourceKinds {
			c.meters[k].begin(at, requestOf(p.pod, c.index, k), limitOf(p.pod, c.index, k))
		}
		c.recorder.force(slot, c)
		if at > r.from {
			c.recorder.event(Event{At: clock(at), Type: Started, Pod: p.pod.Name})
		}
	}
}

// end removes the pod of a slot after its last sample.
func (r *replay) end(slot int) {
	p, at := &r.pods[slot], r.in.slots[slot].end
	p.advance(at)
	for i := range p.containers {
		p.containers[i].recorder.event(Event{At: clock(at), Type: Ended, Pod: p.pod.Name})
		p.containers[i].recorder.end(slot)
	}
	p.pod, p.changer = nil, nil
	r.changed = true
}

// replace puts another pod into a slot, as the controller of an evicted one does.
func (r *replay) replace(slot int, at int64) {
	input, p := &r.in.slots[slot], &r.pods[slot]
	name := input.staged.ID.Name
	if r.in.workloads[input.workload].Kind != "StatefulSet" {
		name = fmt.Sprintf("%s-r%d", name, p.born)
	}
	r.place(slot, input.staged.Next, name, at)
	r.force(slot, at)
}

// place admits a pod to a slot, and runs it.
func (r *replay) place(slot int, from *corev1.Pod, name string, at int64) {
	p := &r.pods[slot]
	pod := from.DeepCopy()
	pod.Name = name
	if r.policy.Name != Hindsight {
		poddefaults.BeforeWebhooks(pod, r.LimitRanges[pod.Namespace])
		pod = r.admit(pod)
		poddefaults.Running(pod)
	} else {
		r.in.hindsight(slot, pod)
	}
	r.made++
	start := stamp(at)
	pod.UID, pod.CreationTimestamp, pod.ResourceVersion, pod.Generation = types.UID(strconv.Itoa(r.made)), start, strconv.Itoa(r.made), 1
	pod.Spec.NodeName = "node"
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: start}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, Conditions: []corev1.PodCondition{ready}}
	for i := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: pod.Spec.Containers[i].Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}},
		})
	}
	p.pod, p.name, p.born = pod, name, p.born+1
	for i := range p.containers {
		c := &p.containers[i]
		c.started, c.index = at, indexOf(pod, c.name)
	}
	r.changed = true
	if r.state != nil {
		r.assign(p)
	}
}

func indexOf(pod *corev1.Pod, container string) int {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == container {
			return i
		}
	}
	return -1 // a slot has no containers that its pods lack
}

// hindsight gives each container the most that any container of its name in the workload will want,
// and no limits: the least constant requests that usage never exceeds.
func (s *shard) hindsight(slot int, pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		peak, known := s.peak(s.slots[slot].workload, c.Name)
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

// admit is the webhook.
func (r *replay) admit(pod *corev1.Pod) *corev1.Pod {
	if r.state == nil {
		return pod
	}
	rules := policy.For(r.policy.Book, &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace}})
	req := podreview.Request{Pod: pod, Limits: r.limits[pod.Namespace], Objects: r.Objects}
	if v := r.match(matcher.Admission, pod); v != nil {
		req.VPA, rules = v.Object, v.Rules
	}
	answer := podreview.Review(rules.Plan, req, nil)
	for _, failed := range answer.Failed {
		r.note("new pods of %s: %v; its values are left as they were", ownerOf(pod), failed)
	}
	for _, left := range answer.Change.Left {
		r.note("new pods of %s: %s", ownerOf(pod), left)
	}
	if !answer.Allowed() {
		r.note("new pods of %s: admission refuses them, so the replay leaves them unchanged: %s", ownerOf(pod), answer.Causes[0].String())
		return pod
	}
	out, err := patched(pod, answer.Patch)
	if err != nil {
		r.note("new pods of %s are left as they are: %v; please report this", ownerOf(pod), err)
		return pod
	}
	return out
}

// patched is a pod with a patch of admission or of a resize.
func patched(pod *corev1.Pod, ops []patch.Operation) (*corev1.Pod, error) {
	if len(ops) == 0 {
		return pod, nil
	}
	return simulate.Patched(pod, ops)
}

// force puts the requests and limits of the pod of a slot in force.
func (r *replay) force(slot int, at int64) {
	p := &r.pods[slot]
	for i := range p.containers {
		c := &p.containers[i]
		for k := range resourceKinds {
			c.meters[k].set(at, requestOf(p.pod, c.index, k), limitOf(p.pod, c.index, k))
		}
		c.recorder.force(slot, c)
	}
}

func requestOf(pod *corev1.Pod, container int, of resourceKind) int64 {
	return amountOf(pod.Spec.Containers[container].Resources.Requests, of)
}

func limitOf(pod *corev1.Pod, container int, of resourceKind) int64 {
	return amountOf(pod.Spec.Containers[container].Resources.Limits, of)
}

// amountOf is in milli-cores or bytes, rounded up; 0 without one.
func amountOf(list corev1.ResourceList, of resourceKind) int64 {
	if of == cpu {
		return list.Cpu().MilliValue()
	}
	return list.Memory().Value()
}

// oom kills a container that wants more memory than its limit. The kubelet restarts it, and the
// observer of the recommender reports what it requested (UPSTREAM.md §2.10).
func (r *replay) oom(slot int, c *liveContainer, at, wanted int64) {
	p := &r.pods[slot]
	c.tally.ooms++
	limit, usage := float64(c.meters[memory].limit), float64(wanted)
	c.recorder.event(Event{At: clock(at), Type: OOMKill, Pod: p.pod.Name, Memory: &Change{From: &limit, To: &usage}})
	if r.state == nil {
		return
	}
	r.ooms = append(r.ooms, model.OOM{
		Pod: model.PodID{Namespace: p.pod.Namespace, Name: p.pod.Name}, Container: c.name,
		Memory: requestOf(p.pod, c.index, memory), At: clock(at),
	})
	pod := p.pod.DeepCopy() // a patch may share parts with the other one
	status := &pod.Status.ContainerStatuses[c.index]
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		Reason: facts.ReasonOOMKilled, ExitCode: 137, StartedAt: stamp(c.started), FinishedAt: stamp(at),
	}
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: stamp(at)}
	status.RestartCount++
	p.pod, c.started = pod, at
}

// stamp is a time as objects have it, in whole seconds.
func stamp(nanoseconds int64) metav1.Time {
	return metav1.NewTime(clock(nanoseconds).Truncate(time.Second))
}

func clock(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }
