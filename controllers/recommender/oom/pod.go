package oom

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// FromPod returns the containers of a pod that were killed for their memory between two states of
// it (UPSTREAM.md §2.10):
//   - those that are terminated now and were not before, or have been restarted since: memory is what the new pod requests;
//   - those that run or wait now, and whose last end is a kill that the old state does not show: memory is what the old
//     pod requests. Upstream lacks those that wait now, or did before: nobody sees them terminated if a watch begins
//     anew, or if the kubelet writes only the later of two statuses.
//
// So a container that waits between a kill and its restart is returned once. Memory is the request,
// in bytes, as the node applies it if the status says so; 0 without one. Share is for a container without a request. Init containers,
// containers that only one of the states has, and kills without a time, which belong to no window,
// are left out. Either pod may be nil or lack any part of its status.
func FromPod(old, new *corev1.Pod) []model.OOM {
	if old == nil || new == nil {
		return nil
	}
	var out []model.OOM
	for i := range new.Status.ContainerStatuses {
		now := &new.Status.ContainerStatuses[i]
		last := now.LastTerminationState.Terminated
		if !forMemory(now.State.Terminated) && !forMemory(last) {
			continue // the usual case
		}
		before := statusOf(old, now.Name)
		if before == nil {
			continue
		}
		restarted := now.RestartCount > before.RestartCount
		kill, pod := now.State.Terminated, new
		switch {
		case forMemory(kill) && (before.State.Terminated == nil || restarted):
		case now.State.Terminated == nil && forMemory(last) && !shows(before, last):
			kill, pod = last, old
		default:
			continue
		}
		if kill.FinishedAt.IsZero() {
			continue
		}
		out = append(out, model.OOM{
			Pod:       model.PodID{Namespace: new.Namespace, Name: new.Name},
			Container: now.Name,
			Memory:    requested(pod, now.Name),
			Share:     share(pod, now.Name),
			At:        kill.FinishedAt.Time,
		})
	}
	return out
}

// FromFirst returns the containers of a new pod that have been killed for their memory: those that
// are terminated now, and those whose last state was. They are late, so the caller must make sure
// that none counts twice. Memory is what the pod requests now. It leaves out what FromPod leaves
// out.
func FromFirst(pod *corev1.Pod) []model.OOM {
	if pod == nil {
		return nil
	}
	var out []model.OOM
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		for _, end := range []*corev1.ContainerStateTerminated{s.LastTerminationState.Terminated, s.State.Terminated} {
			if forMemory(end) && !end.FinishedAt.IsZero() {
				out = append(out, model.OOM{
					Pod:       model.PodID{Namespace: pod.Namespace, Name: pod.Name},
					Container: s.Name,
					Memory:    requested(pod, s.Name),
					Share:     share(pod, s.Name),
					At:        end.FinishedAt.Time,
					Late:      true,
				})
			}
		}
	}
	return out
}

// shows: a status has the end of a container, or one that came later.
func shows(s *corev1.ContainerStatus, end *corev1.ContainerStateTerminated) bool {
	for _, terminated := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if terminated == nil {
			continue
		}
		if terminated.FinishedAt.After(end.FinishedAt.Time) || terminated.FinishedAt.Equal(&end.FinishedAt) && terminated.ContainerID == end.ContainerID {
			return true
		}
	}
	return false
}

func forMemory(end *corev1.ContainerStateTerminated) bool {
	return end != nil && end.Reason == facts.ReasonOOMKilled
}

func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
			return s
		}
	}
	return nil
}

// requested is the memory that a container requests, in bytes; as reported by the node, if it is,
// even if that is none.
func requested(pod *corev1.Pod, container string) int64 {
	if s := statusOf(pod, container); s != nil && s.Resources != nil {
		return bytes(s.Resources.Requests)
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == container {
			return bytes(c.Resources.Requests)
		}
	}
	return 0
}

// share is what the other containers leave of the pod-level memory request (AEP-7571), in bytes, for
// the only container without a request of its own. It is 0 for other containers: where several share
// the rest, one of them may have used any part of it. API servers fill in the request of a pod that
// has only a limit.
func share(pod *corev1.Pod, container string) int64 {
	left := podRequest(pod)
	if left == 0 || requested(pod, container) > 0 {
		return 0
	}
	found := false
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		if name == container {
			found = true
			continue
		}
		asked := requested(pod, name)
		if asked == 0 || asked >= left {
			return 0
		}
		left -= asked
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			continue // it has ended
		}
		asked := bytes(c.Resources.Requests)
		if asked == 0 || asked >= left {
			return 0
		}
		left -= asked
	}
	if !found {
		return 0
	}
	return left
}

// podRequest is the memory that a pod requests as a whole, in bytes; as reported by the node, if it is.
func podRequest(pod *corev1.Pod) int64 {
	asked := pod.Spec.Resources
	if asked == nil {
		return 0
	}
	if actual := pod.Status.Resources; actual != nil {
		asked = actual
	}
	return bytes(asked.Requests)
}
