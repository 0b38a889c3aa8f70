package upstream

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// owner generates the owner of some pods and the references to it. It may be missing, except for a
// Job, which upstream does not look up.
func (g *generator) owner(i, pods int) (owner map[string]any, refs []any) {
	kind := g.pick(list("ReplicaSet", "ReplicaSet", "ReplicaSet", "StatefulSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"), nil).(string)
	if g.chance(0.06) {
		kind = "Rollout"
	}
	name := fmt.Sprintf("owner-%d", i)
	version := map[string]string{"Job": "batch/v1", "ReplicationController": "v1", "Rollout": "argoproj.io/v1alpha1"}[kind]
	if version == "" {
		version = "apps/v1"
	}
	ref := object("apiVersion", version, "kind", kind, "name", name, "uid", "uid-of-"+name, "controller", true)
	refs = list(ref)
	if g.chance(0.05) {
		other := object("apiVersion", "v1", "kind", "ConfigMap", "name", "other", "uid", "uid-of-other", "controller", false)
		if g.chance(0.3) {
			delete(other, "controller")
		}
		refs = g.pick(list(list(other, ref), list(ref, other)), nil).([]any)
	}
	if kind != "Job" && g.chance(0.02) {
		return nil, refs
	}
	owner = object("kind", kind, "name", name)
	if kind == "Job" {
		return owner, refs
	}
	switch replicas := pods + []int{0, 0, 0, 0, 0, 0, 1, 1, -1, 2}[g.IntN(10)]; {
	case g.chance(0.03):
		owner["replicas"] = int64(0)
	default:
		owner["replicas"] = int64(max(replicas, 1))
	}
	return owner, refs
}

// runContainers generates the containers of running pods.
func (g *generator) runContainers(names []string) []any {
	containers := list()
	for _, name := range names {
		requests, limits := object("cpu", g.pick(runCPUs, nil), "memory", g.pick(runMemories, nil)), map[string]any{}
		switch g.IntN(6) {
		case 0:
			limits = object("cpu", requests["cpu"], "memory", requests["memory"])
		case 1:
			limits = object("cpu", "2", "memory", "2Gi")
		case 2:
			limits = object("memory", requests["memory"])
		}
		for _, resource := range []string{"cpu", "memory"} {
			if g.chance(0.04) {
				delete(requests, resource)
				delete(limits, resource)
			}
		}
		resources := object("requests", requests)
		if g.chance(0.06) {
			clear(requests)
			clear(limits)
		}
		if len(limits) > 0 {
			resources["limits"] = limits
		}
		c := object("name", name, "resources", resources)
		if g.chance(0.3) {
			c["resizePolicy"] = list(object("resourceName", g.pick(list("cpu", "memory"), nil), "restartPolicy", g.pick(list("RestartContainer", "NotRequired"), nil)))
		}
		containers = append(containers, c)
	}
	return containers
}

func (g *generator) runPod(name string, names []string, containers, refs []any, vpa map[string]any, inPlace bool) map[string]any {
	containers = copyOf(containers)
	meta := object("name", name)
	if len(refs) > 0 {
		meta["ownerReferences"] = copyOf(refs)
	}
	annotations := map[string]any{}
	if g.chance(0.12) {
		annotations["vpaObservedContainers"] = g.pick(list("a", "a, b", "a, b, c", "b", "gone"), list("", "a,b", "A", "a, ", "a,  b"))
	}
	if g.chance(map[bool]float64{false: 0.02, true: 0.25}[g.gates.CPUStartupBoost]) {
		annotations["vpaCpuStartupBoost/"+names[0]] = `{"requests":{"cpu":"100m"},"limits":{}}`
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	status := map[string]any{}
	if g.chance(0.12) {
		status["phase"] = "Pending"
	}
	if !g.chance(0.05) {
		status["startTime"] = g.pick(list(ago(5*time.Minute), ago(time.Hour), ago(time.Hour), ago(13*time.Hour), ago(72*time.Hour)), nil)
	}
	if status["phase"] == nil && g.chance(0.9) {
		statuses := list()
		for i, c := range containers {
			s := object("name", names[i])
			switch {
			case g.chance(0.85):
				s["resources"] = copyOf(get(c, "resources"))
			case g.chance(0.5):
				s["resources"] = copyOf(get(g.runContainers(names)[i], "resources"))
			}
			if g.chance(0.08) {
				s["lastState"] = g.lastState()
			}
			statuses = append(statuses, s)
		}
		status["containerStatuses"] = statuses
	}
	if inPlace && g.chance(0.25) {
		status["conditions"] = g.resizeConditions()
	}
	return object("metadata", meta, "spec", object("containers", containers), "status", status)
}

func copyOf[T any](v T) T {
	out, _ := runtime.DeepCopyJSONValue(v).(T)
	return out
}

func (g *generator) resizeConditions() []any {
	condition := func(kind string, reasons ...any) map[string]any {
		out := object("type", kind, "status", "True", "lastTransitionTime", ago([]time.Duration{time.Minute, time.Minute, 20 * time.Minute, 3 * time.Hour}[g.IntN(4)]))
		if reason := reasons[g.IntN(len(reasons))]; reason != "" {
			out["reason"], out["message"] = reason, "the node says so"
		}
		if g.chance(0.06) {
			out["status"] = g.pick(list("False", "Unknown"), nil)
		}
		if g.chance(0.03) {
			delete(out, "lastTransitionTime")
		}
		return out
	}
	pending := condition("PodResizePending", "Deferred", "Deferred", "Infeasible", "Infeasible", "Strange", "")
	progress := condition("PodResizeInProgress", "", "", "", "Error", "Strange")
	if g.chance(0.05) {
		progress["message"] = "being done"
	}
	ready := object("type", "ContainersReady", "status", "True", "lastTransitionTime", ago(time.Hour))
	return g.pick(list(list(pending), list(pending), list(progress), list(progress), list(pending, progress), list(progress, pending), list(ready, pending), list(ready)), nil).([]any)
}
