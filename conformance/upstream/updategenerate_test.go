package upstream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// updateKind says what is generated.
type updateKind struct {
	part  int // one of so many cases are made of it
	gates gates
	modes []any
	flags []map[string]any // they are few, as celvpa compiles its rules for each
}

var (
	defaultFlags  = map[string]any{}
	boldFlags     = object("min-replicas", int64(1), "eviction-tolerance", 0.8, "pod-update-threshold", 0.03, "evict-after-oom-threshold", "90m")
	anxiousFlags  = object("min-replicas", int64(3), "eviction-tolerance", 0.1, "in-recommendation-bounds-eviction-lifetime-threshold", "48h", "evict-after-oom-threshold", "30s")
	eagerFlags    = object("eviction-tolerance", 1.0, "pod-update-threshold", 0.0, "in-recommendation-bounds-eviction-lifetime-threshold", "30m")
	inPlaceFlags  = object("in-place-skip-disruption-budget", true)
	oneByOneFlags = object("eviction-tolerance", 0.0, "in-place-skip-disruption-budget", true, "pod-update-threshold", 1.0)
)

// Quantities of pods and recommendations. They are few, so that they are often equal.
var (
	runCPUs     = list("50m", "100m", "105m", "200m", "250m", "400m", "500m", "1")
	runMemories = list("64Mi", "100Mi", "105Mi", "128Mi", "200Mi", "256Mi", "512Mi", "1Gi")
)

// generateUpdate returns the case of a seed, always the same one. No time is near a threshold.
func generateUpdate(seed uint64, kind updateKind) testCase {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 2))}
	g.gates = kind.gates
	g.temper()
	g.odd /= 2
	names := []string{"a", "b", "c"}[:1+min(g.IntN(3), g.IntN(3))]
	vpa := g.runVPA(names, kind)
	mode, _ := get(vpa, "spec.updatePolicy.updateMode").(string)
	inPlace := mode == "InPlace" || mode == "InPlaceOrRecreate"
	input := object("vpa", vpa, "flags", kind.flags[g.IntN(len(kind.flags))])

	owners, pods := list(), list()
	count := 1 + g.IntN(6)
	groups := 1
	if count > 1 && g.chance(0.3) {
		groups = 2
	}
	order := g.Perm(count)
	for i := range groups {
		from, to := i*count/groups, (i+1)*count/groups
		owner, ref := g.owner(i, to-from)
		if owner != nil {
			owners = append(owners, owner)
		}
		likeness := g.runContainers(names)
		for j := from; j < to; j++ {
			containers := likeness
			if g.chance(0.4) {
				containers = g.runContainers(names)
			}
			pods = append(pods, g.runPod(fmt.Sprintf("p%d", order[j]), names, containers, ref, vpa, inPlace))
		}
	}
	g.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	input["owners"], input["pods"] = owners, pods
	if inPlace {
		g.remembered(input, pods, names)
	}
	if g.chance(0.03) {
		input["noAdmission"] = true
	}
	return testCase{Object: input, Gates: g.gates}
}

// lastState is how a container ended: after a short or a long run, recently or long ago.
func (g *generator) lastState() map[string]any {
	ended := []time.Duration{2 * time.Minute, 2 * time.Minute, time.Hour, 50 * time.Hour}[g.IntN(4)]
	lasted := []time.Duration{time.Minute, time.Minute, time.Hour}[g.IntN(3)]
	return object("terminated", object("reason", g.pick(list("OOMKilled", "OOMKilled", "OOMKilled", "Error"), nil),
		"exitCode", int64(137), "startedAt", ago(ended+lasted), "finishedAt", ago(ended)))
}

// remembered is what both sides remember, and what the API server answers.
func (g *generator) remembered(input map[string]any, pods []any, names []string) {
	recommended, _ := get(input, "vpa.status.recommendation.containerRecommendations").([]any)
	noticed, infeasible, refusals := map[string]any{}, map[string]any{}, map[string]any{}
	for _, pod := range pods {
		name := get(pod, "metadata.name").(string)
		if (get(pod, "status.conditions") != nil || g.chance(0.3)) && g.chance(0.6) {
			since := object("age", g.pick(list("1m", "20m", "3h"), nil))
			if g.chance(0.4) {
				since["uid"] = "uid-of-another"
			}
			noticed[name] = since
		}
		if g.chance(0.2) {
			tried := map[string]any{}
			for _, container := range names {
				tried[container] = object("cpu", g.pick(runCPUs, nil), "memory", g.pick(runMemories, nil))
				for _, r := range recommended {
					if target, ok := get(r, "target").(map[string]any); ok && get(r, "containerName") == container && g.chance(0.5) {
						tried[container] = copyOf(target)
					}
				}
			}
			infeasible[name] = tried
		}
		if g.chance(0.08) {
			refusals[name] = refusalNames[g.IntN(len(refusalNames))]
		}
	}
	for name, field := range map[string]map[string]any{"noticed": noticed, "infeasible": infeasible, "refusals": refusals} {
		if len(field) > 0 {
			input[name] = field
		}
	}
}

func (g *generator) runVPA(names []string, kind updateKind) map[string]any {
	spec, v := map[string]any{}, map[string]any{}
	policy := map[string]any{}
	if !g.chance(0.1) {
		policy["updateMode"] = g.pick(kind.modes, list("", "Off", "Initial", "InPlace"))
	}
	if g.chance(0.25) {
		policy["minReplicas"] = g.pick(list(int64(1), int64(1), int64(2), int64(4)), nil)
	}
	if g.chance(0.2) {
		all := list()
		for range 1 + g.IntN(2) {
			all = append(all, g.runRequirement())
		}
		policy["evictionRequirements"] = all
	}
	if kind.gates.PerVPAConfig && g.chance(0.6) || g.chance(0.05) {
		policy["evictAfterOOMSeconds"] = g.pick(list(int64(30), int64(5400)), list(int64(1)))
	}
	if len(policy) > 0 || g.chance(0.3) {
		spec["updatePolicy"] = policy
	}
	if g.gates.CPUStartupBoost && g.chance(0.7) {
		spec["startupBoost"] = object("cpu", object("type", "Factor", "factor", int64(2), "durationSeconds", int64(60)))
	}
	if g.chance(0.4) {
		policies := list()
		for _, name := range append([]string{"*"}, names...) {
			if g.chance(0.3) {
				policies = append(policies, g.runPolicy(name))
			}
		}
		spec["resourcePolicy"] = object("containerPolicies", policies)
	}
	v["spec"] = spec
	if g.chance(0.95) {
		recommended := list()
		for _, name := range names {
			if g.chance(0.92) {
				recommended = append(recommended, g.runRecommendation(name))
			}
		}
		v["status"] = object("recommendation", object("containerRecommendations", recommended))
	}
	return v
}

// runRequirement generates a requirement that the CRD accepts; either webhook may refuse it.
func (g *generator) runRequirement() map[string]any {
	return object("resources", g.pick(list(list("cpu"), list("memory"), list("cpu", "memory")), list(list(), list("cpu", "storage"))),
		"changeRequirement", g.pick(list("TargetHigherThanRequests", "TargetHigherThanRequests", "TargetLowerThanRequests"), nil))
}

func (g *generator) runPolicy(name string) map[string]any {
	out := object("containerName", name)
	if g.chance(0.3) {
		out["mode"] = g.pick(list("Auto", "Off"), nil)
	}
	if g.chance(0.2) {
		out["minAllowed"] = object("cpu", g.pick(runCPUs[:4], nil), "memory", g.pick(runMemories[:4], nil))
	}
	if g.chance(0.3) {
		out["maxAllowed"] = object("cpu", g.pick(runCPUs[4:], nil), "memory", g.pick(runMemories[4:], nil))
	}
	if g.chance(0.2) {
		out["controlledValues"] = g.pick(list("RequestsOnly", "RequestsAndLimits"), nil)
	}
	if g.chance(0.15) {
		out["controlledResources"] = g.pick(list(list("cpu"), list("memory")), nil)
	}
	return out
}

// runRecommendation generates a target, usually between its bounds.
func (g *generator) runRecommendation(name string) map[string]any {
	target, lower, upper := map[string]any{}, map[string]any{}, map[string]any{}
	for _, resource := range []string{"cpu", "memory"} {
		from := map[string][]any{"cpu": runCPUs, "memory": runMemories}[resource]
		at := []int{g.IntN(len(from)), g.IntN(len(from)), g.IntN(len(from))}
		if !g.chance(g.odd) {
			slices.Sort(at)
		}
		lower[resource], target[resource], upper[resource] = from[at[0]], from[at[1]], from[at[2]]
	}
	for _, resource := range []string{"cpu", "memory"} {
		for _, amounts := range []map[string]any{target, lower, upper} {
			if g.chance(0.04) {
				delete(amounts, resource)
			}
		}
	}
	if g.chance(g.odd / 4) {
		target["nvidia.com/gpu"] = "2"
	}
	out := object("containerName", name, "target", target)
	if g.chance(0.85) {
		out["lowerBound"], out["upperBound"] = lower, upper
	}
	return out
}

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
