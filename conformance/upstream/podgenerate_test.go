package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Quantities for pods, LimitRanges and recommendations. They are few and close together, so that
// they often bound each other.
var (
	podCPUs     = values{right: list("1m", "3m", "7m", "50m", "100m", "150m", "200m", "250m", "333m", "0.5", "1", "1500m", "2"), odd: list("0", "1e3", "100500u", "1n", "1Ki")}
	podMemories = values{right: list("1", "3", "7", "50Mi", "64Mi", "100Mi", "128Mi", "200Mi", "104857601", "1e8", "512Mi", "1Gi", "2G"), odd: list("0", "1500m", "1e3", "0.5", "100500u")}
	// rangeCPUs and rangeMemories are for LimitRanges.
	rangeCPUs     = values{right: list("10m", "80m", "100m", "150m", "300m", "400m", "600m", "1", "2"), odd: list("0", "1m", "100500u", "1e4")}
	rangeMemories = values{right: list("10Mi", "80Mi", "100Mi", "250Mi", "500Mi", "512Mi", "1Gi", "4Gi"), odd: list("0", "7", "1500m", "1Ti")}
	// targetCPUs and targetMemories are recommended.
	targetCPUs     = values{right: list("1m", "4m", "10m", "21m", "25m", "90m", "120m", "250m", "400m", "800m", "1", "2"), odd: list("0", "1e10", "0.0005", "9223372036854775807", "-100m")}
	targetMemories = values{right: list("10", "52428800", "50Mi", "100Mi", "200Mi", "262144000", "500Mi", "600Mi", "1Gi", "1234567891"), odd: list("0", "1500m", "1Ei", "9223372036854775807", "-1")}
	highTargets    = list("1e8", "100000G")
)

// podKind says what is generated.
type podKind struct {
	boost    bool // the gate CPUStartupBoost, and boosts
	podLevel bool // pods have resources at pod level
}

// generatePod returns the case of a seed, always the same one.
func generatePod(seed uint64, kind podKind) testCase {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	g.gates = gates{CPUStartupBoost: kind.boost}
	g.temper()
	g.odd /= 4
	names := []string{"a", "b", "c", "d", "e"}[:1+min(g.IntN(5), g.IntN(5))]
	input := object("pod", g.pod(names, kind), "vpa", g.podVPA(names, kind))
	ranges := list()
	for i := range []int{0, 0, 1, 1, 1, 2, 3}[g.IntN(7)] {
		ranges = append(ranges, object("metadata", object("name", string(rune('x'+i))), "spec", object("limits", g.limitRangeItems())))
	}
	if len(ranges) > 0 {
		input["limitRanges"] = ranges
	}
	if kind.boost && g.chance(0.3) {
		input["maxAllowedCPUBoost"] = g.pick(list("300m", "1", "5m"), nil)
	}
	return testCase{Object: input, Gates: g.gates}
}

func (g *generator) pod(names []string, kind podKind) map[string]any {
	containers := list()
	for _, name := range names {
		c := object("name", name)
		if r := g.stanza(0.7); len(r) > 0 {
			c["resources"] = r
		}
		containers = append(containers, c)
	}
	spec := object("containers", containers)
	if g.chance(0.15) || kind.podLevel && g.chance(0.4) {
		c := object("name", "init", "resources", g.stanza(0.6))
		if g.chance(0.4) {
			c["restartPolicy"] = "Always"
		}
		spec["initContainers"] = list(c)
	}
	if kind.podLevel {
		spec["resources"] = g.stanza(0.8)
		g.spread(spec)
	}
	pod := object("metadata", object("name", "web-1"), "spec", spec)
	if g.chance(0.3) {
		pod["metadata"].(map[string]any)["annotations"] = object("team", "web")
	}
	return pod
}

// spread usually makes the pod-level resources large enough for the containers.
func (g *generator) spread(spec map[string]any) {
	whole := spec["resources"].(map[string]any)
	for _, field := range []string{"requests", "limits"} {
		if amounts, ok := whole[field].(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(amounts)) {
				amounts[name] = map[string]any{"cpu": g.pick(list("4", "8", "20"), list("1")), "memory": g.pick(list("8Gi", "16Gi"), list("1Gi"))}[name]
				if field == "limits" && g.chance(0.5) {
					amounts[name] = map[string]any{"cpu": "20", "memory": "32Gi"}[name]
				}
				if amounts[name] == nil {
					delete(amounts, name)
				}
			}
		}
	}
}

// stanza generates requests and limits: equal, in an odd ratio, or only one of them. API servers
// usually have defaulted a missing request to the limit.
func (g *generator) stanza(has float64) map[string]any {
	requests, limits := map[string]any{}, map[string]any{}
	for _, r := range []struct {
		name   string
		values values
	}{{"cpu", podCPUs}, {"memory", podMemories}} {
		if !g.chance(has) {
			continue
		}
		i, j := g.IntN(len(r.values.right)), g.IntN(len(r.values.right))
		if i > j && !g.chance(g.odd/4) {
			i, j = j, i
		}
		switch g.IntN(5) {
		case 0:
			requests[r.name] = g.pick(r.values.right[i:i+1], r.values.odd)
		case 1:
			limits[r.name] = g.pick(r.values.right[j:j+1], r.values.odd)
			if g.chance(0.7) {
				requests[r.name] = limits[r.name]
			}
		case 2:
			requests[r.name] = g.pick(r.values.right[i:i+1], r.values.odd)
			limits[r.name] = requests[r.name]
		default:
			requests[r.name] = g.pick(r.values.right[i:i+1], nil)
			limits[r.name] = g.pick(r.values.right[j:j+1], r.values.odd)
		}
	}
	if g.chance(0.06) {
		name := g.pick(list("nvidia.com/gpu", "ephemeral-storage"), nil).(string)
		requests[name] = "1"
		limits[name] = "1"
	}
	out := map[string]any{}
	if len(requests) > 0 || g.chance(0.02) {
		out["requests"] = requests
	}
	if len(limits) > 0 || g.chance(0.02) {
		out["limits"] = limits
	}
	return out
}

func (g *generator) limitRangeItems() []any {
	out := list()
	for range 1 + g.IntN(2) {
		kind := g.pick(list("Container", "Container", "Pod", "Pod"), list("PersistentVolumeClaim")).(string)
		item := object("type", kind)
		fields := []string{"min", "max"}
		if kind == "Container" {
			fields = append(fields, "default", "defaultRequest")
		}
		for _, field := range fields {
			if g.chance(0.5) {
				continue
			}
			amounts := map[string]any{}
			if g.chance(0.7) {
				amounts["cpu"] = g.quantity(rangeCPUs)
			}
			if g.chance(0.7) {
				amounts["memory"] = g.quantity(rangeMemories)
			}
			if g.chance(0.05) {
				amounts["ephemeral-storage"] = "1Gi"
			}
			item[field] = amounts
		}
		out = append(out, item)
	}
	return out
}

func (g *generator) podVPA(names []string, kind podKind) map[string]any {
	spec, v := map[string]any{}, map[string]any{}
	if g.chance(0.5) {
		spec["updatePolicy"] = object("updateMode", g.pick(list("Initial", "Recreate", "InPlaceOrRecreate", "Auto", "Off"), nil))
	}
	if kind.boost && g.chance(0.5) || g.chance(0.03) {
		spec["startupBoost"] = g.podBoost()
	}
	if g.chance(0.7) {
		policies := list()
		for _, name := range append([]string{"*", "gone"}, names...) {
			if g.chance(0.3) {
				policies = append(policies, g.podPolicy(name, kind))
			}
		}
		g.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
		spec["resourcePolicy"] = object("containerPolicies", policies)
	}
	v["spec"] = spec
	if g.chance(0.95) {
		recommended := list()
		for _, name := range append([]string{"gone", "init"}, names...) {
			often := 0.85
			if name == "gone" || name == "init" {
				often = 0.1
			}
			if g.chance(often) {
				recommended = append(recommended, g.podRecommendation(name))
			}
			if g.chance(g.odd / 8) {
				recommended = append(recommended, g.podRecommendation(name)) // a second one for the same container
			}
		}
		v["status"] = object("recommendation", object("containerRecommendations", recommended))
	}
	return v
}

func (g *generator) podRecommendation(name string) map[string]any {
	amounts := func(high bool) map[string]any {
		out := map[string]any{}
		if g.chance(0.93) {
			out["cpu"] = g.quantity(targetCPUs)
		}
		if g.chance(0.93) {
			out["memory"] = g.quantity(targetMemories)
		}
		if g.chance(g.odd / 4) {
			out["nvidia.com/gpu"] = "2"
		}
		if high && g.chance(0.3) && len(out) > 0 {
			return map[string]any{"cpu": highTargets[0], "memory": highTargets[1]}
		}
		return out
	}
	out := object("containerName", name, "target", amounts(false))
	if g.chance(0.7) {
		out["lowerBound"] = amounts(false)
		out["upperBound"] = amounts(true)
	}
	return out
}

func (g *generator) podPolicy(name string, kind podKind) map[string]any {
	out := object("containerName", name)
	if g.chance(0.25) {
		out["mode"] = g.pick(list("Auto", "Off"), nil)
	}
	for _, field := range []string{"minAllowed", "maxAllowed"} {
		if g.chance(0.5) {
			continue
		}
		amounts := map[string]any{}
		if g.chance(0.7) {
			amounts["cpu"] = g.quantity(rangeCPUs)
		}
		if g.chance(0.7) {
			amounts["memory"] = g.quantity(rangeMemories)
		}
		if g.chance(g.odd) {
			amounts["nvidia.com/gpu"] = "1"
		}
		out[field] = amounts
	}
	if g.chance(0.5) {
		out["controlledValues"] = g.pick(list("RequestsOnly", "RequestsAndLimits"), nil)
	}
	if g.chance(0.3) {
		out["controlledResources"] = g.pick(list(list("cpu"), list("memory"), list("cpu", "memory")), list(list()))
	}
	if kind.boost && g.chance(0.4) {
		out["startupBoost"] = g.podBoost()
	}
	return out
}

func (g *generator) podBoost() map[string]any {
	if g.chance(0.03 + g.odd/4) {
		return map[string]any{}
	}
	cpu := object("type", "Factor", "factor", g.pick(list(int64(1), int64(2), int64(3), int64(10)), list(int64(0), int64(1<<31-1))))
	if g.chance(0.5) {
		cpu = object("type", "Quantity", "quantity", g.quantity(values{right: list("0", "1m", "100m", "1", "1500m"), odd: list("1e15", "100500u", "-100m")}))
	}
	if g.chance(g.odd / 4) {
		delete(cpu, "factor")
	}
	return object("cpu", cpu)
}

// podInput is the object of a case about a pod: the pod, the VPA that controls it, and the
// LimitRanges of the namespace, as API servers return them.
type podInput struct {
	Pod         *corev1.Pod         `json:"pod"`
	VPA         json.RawMessage     `json:"vpa"`
	LimitRanges []corev1.LimitRange `json:"limitRanges,omitempty"`
	MaxBoost    string              `json:"maxAllowedCPUBoost,omitempty"`
}

// readPod decodes a case. API servers round quantities of pods and LimitRanges up to thousandths,
// but not those of VPAs.
func readPod(c testCase) (in podInput, err error) {
	if err := json.Unmarshal(c.objectJSON(), &in); err != nil {
		return in, fmt.Errorf("reading the case: %w", err)
	}
	if in.Pod == nil {
		in.Pod = &corev1.Pod{}
	}
	in.Pod.Namespace = "shop"
	roundAmounts(in.Pod)
	again := &corev1.Pod{} // as it is sent: without maps that hold nothing
	if err := json.Unmarshal(mustJSON(in.Pod), again); err != nil {
		return in, fmt.Errorf("reading the pod again: %w", err)
	}
	in.Pod = again
	for i := range in.LimitRanges {
		in.LimitRanges[i].Namespace = in.Pod.Namespace
		for j := range in.LimitRanges[i].Spec.Limits {
			item := &in.LimitRanges[i].Spec.Limits[j]
			inThousandths(item.Min)
			inThousandths(item.Max)
			inThousandths(item.Default)
		}
	}
	return in, nil
}

func roundAmounts(pod *corev1.Pod) {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			inThousandths(list[i].Resources.Requests)
			inThousandths(list[i].Resources.Limits)
		}
	}
	if r := pod.Spec.Resources; r != nil {
		inThousandths(r.Requests)
		inThousandths(r.Limits)
	}
}

func inThousandths(list corev1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

// upstreamVPA and celvpaVPA decode the VPA of a case with either side's types.
func (in *podInput) upstreamVPA() (*upstreamv1.VerticalPodAutoscaler, error) {
	v := &upstreamv1.VerticalPodAutoscaler{}
	if err := in.readVPA(v); err != nil {
		return nil, err
	}
	v.Name, v.Namespace = "v", in.Pod.Namespace
	return v, nil
}

func (in *podInput) celvpaVPA() (*vpav1.VerticalPodAutoscaler, error) {
	v := &vpav1.VerticalPodAutoscaler{}
	if err := in.readVPA(v); err != nil {
		return nil, err
	}
	v.Name, v.Namespace = "v", in.Pod.Namespace
	return v, nil
}

func (in *podInput) readVPA(v any) error {
	if len(in.VPA) == 0 {
		return nil
	}
	if err := json.Unmarshal(in.VPA, v); err != nil {
		return fmt.Errorf("reading the VPA: %w", err)
	}
	return nil
}

// recommendedFor is the recommendation for a container; nil = none.
func recommendedFor(v *upstreamv1.VerticalPodAutoscaler, container string) *upstreamv1.RecommendedContainerResources {
	if v.Status.Recommendation == nil {
		return nil
	}
	for i := range v.Status.Recommendation.ContainerRecommendations {
		if r := &v.Status.Recommendation.ContainerRecommendations[i]; r.ContainerName == container {
			return r
		}
	}
	return nil
}

// limited reports whether a LimitRange bounds pods, or containers.
func (in *podInput) limited(kind corev1.LimitType) bool {
	for i := range in.LimitRanges {
		for _, item := range in.LimitRanges[i].Spec.Limits {
			if item.Type == kind && (item.Min != nil || item.Max != nil || item.Default != nil) {
				return true
			}
		}
	}
	return false
}

// bounded are the resources to compare.
var bounded = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// tooMuch reports whether a container's request exceeds its limit, so that API servers refuse its
// pod.
func tooMuch(r corev1.ResourceRequirements, name corev1.ResourceName) bool {
	request, requested := r.Requests[name]
	limit, isLimited := r.Limits[name]
	return requested && isLimited && request.Cmp(limit) > 0
}

// podFault says why an API server would refuse a pod's resources, and the index of the container,
// -1 = the pod. It is empty for a valid pod.
func podFault(pod *corev1.Pod) (index int, name corev1.ResourceName, why string) {
	for i := range pod.Spec.Containers {
		r := pod.Spec.Containers[i].Resources
		for _, lists := range []corev1.ResourceList{r.Requests, r.Limits} {
			for name, q := range lists {
				if q.Sign() < 0 {
					return i, name, fmt.Sprintf("%s is %s", name, q.String())
				}
			}
		}
		for _, name := range bounded {
			if tooMuch(r, name) {
				request, limit := r.Requests[name], r.Limits[name]
				return i, name, fmt.Sprintf("container %d requests %s of %s above its limit of %s", i, request.String(), name, limit.String())
			}
		}
	}
	if pod.Spec.Resources == nil {
		return -1, "", ""
	}
	whole := *pod.Spec.Resources
	for _, name := range bounded {
		if tooMuch(whole, name) {
			return -1, name, fmt.Sprintf("the pod requests more %s than its limit", name)
		}
		if most, ok := whole.Limits[name]; ok {
			for i := range pod.Spec.Containers {
				if limit, ok := pod.Spec.Containers[i].Resources.Limits[name]; ok && limit.Cmp(most) > 0 {
					return -1, name, fmt.Sprintf("container %d has a limit of %s of %s, the pod of %s", i, limit.String(), name, most.String())
				}
			}
		}
		if most, ok := mostRequested(whole, name); ok {
			if sum := requestedTogether(pod, name); sum.Cmp(most) > 0 {
				return -1, name, fmt.Sprintf("the containers request %s of %s, the pod %s", sum.String(), name, most.String())
			}
		}
	}
	return -1, "", ""
}

// mostRequested is the most that the containers of a pod may request in total: the pod's request,
// or else its limit. API servers default the pod's request to the sum of its containers'.
func mostRequested(whole corev1.ResourceRequirements, name corev1.ResourceName) (resource.Quantity, bool) {
	if most, ok := whole.Requests[name]; ok {
		return most, true
	}
	most, ok := whole.Limits[name]
	return most, ok
}

// requestedTogether is the total request of a pod's containers by API server rules: the sum of all
// that run side by side, or an init container plus the sidecars before it if that is more.
func requestedTogether(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	var running, peak resource.Quantity
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		now := running.DeepCopy()
		now.Add(c.Resources.Requests[name])
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			running = now.DeepCopy()
		}
		if now.Cmp(peak) > 0 {
			peak = now
		}
	}
	for i := range pod.Spec.Containers {
		running.Add(pod.Spec.Containers[i].Resources.Requests[name])
	}
	if peak.Cmp(running) > 0 {
		return peak
	}
	return running
}
