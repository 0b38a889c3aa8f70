package facts

import (
	"maps"
	"strings"

	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

var (
	namedRangesSchema = lang.Bind("NamedLimitRanges",
		lang.TextsFrom("ofContainers", "names of those of type Container", func(l *LimitRanges) []string {
			if l == nil || l.ofContainers == nil {
				return []string{}
			}
			return l.ofContainers
		}))

	validatePod = &registry.Point{
		Name: PodValidate, Kind: registry.ValidationPoint,
		Doc: "Whether a new pod may be created; run by the webhook for every pod, even without a VPA, after API servers have set defaults, and by the updater before it evicts a pod. " +
			"`self` and `object` are the pod, of which there are metadata.name, .namespace and .labels, spec.resources unless it is empty, and of spec.containers and spec.initContainers name and resources. " +
			"Pods are refused for what a rule says, never because a rule cannot be evaluated.",
		Vars: []registry.Var{
			{Name: "limitRanges", Type: lang.RecordOf(namedRangesSchema.Schema), Doc: "the LimitRanges of the namespace"},
			{Name: "controlled", Type: lang.Bool, Doc: "a VPA changes the pod"},
		},
	}
)

// ValidatePod runs pod.validate for a new pod. controlled: a VPA changes it.
func ValidatePod(plan *engine.Plan, pod *corev1.Pod, limits *LimitRanges, controlled bool) []engine.Violation {
	if len(plan.RuleSets(PodValidate)) == 0 {
		return nil
	}
	f := validatePod.NewFacts().Set("controlled", types.Bool(controlled)).
		Set("limitRanges", namedRangesSchema.Of(limits))
	return plan.Validate(PodValidate, engine.Judged{Object: podObject(pod), Facts: f}, nil)
}

// podObject has what the schema of pods for validations describes.
func podObject(pod *corev1.Pod) map[string]any {
	spec := map[string]any{"containers": containerObjects(pod.Spec.Containers)}
	if len(pod.Spec.InitContainers) > 0 {
		spec["initContainers"] = containerObjects(pod.Spec.InitContainers)
	}
	if whole := PodLevel(pod); whole != nil {
		spec["resources"] = resourcesObject(whole)
	}
	metadata := map[string]any{"name": pod.Name, "namespace": pod.Namespace}
	if len(pod.Labels) > 0 {
		labels := map[string]any{}
		for name, value := range maps.All(pod.Labels) {
			labels[name] = value
		}
		metadata["labels"] = labels
	}
	return map[string]any{"metadata": metadata, "spec": spec}
}

func containerObjects(list []corev1.Container) []any {
	out := make([]any, 0, len(list))
	for i := range list {
		out = append(out, map[string]any{"name": list[i].Name, "resources": resourcesObject(&list[i].Resources)})
	}
	return out
}

func resourcesObject(r *corev1.ResourceRequirements) map[string]any {
	out := map[string]any{}
	for name, list := range map[string]corev1.ResourceList{"requests": r.Requests, "limits": r.Limits} {
		if len(list) == 0 {
			continue
		}
		quantities := map[string]any{}
		for resource, q := range list {
			quantities[string(resource)] = q.String()
		}
		out[name] = quantities
	}
	return out
}

// PodReview is the outcome of admission for a pod.
type PodReview struct {
	Violations []engine.Violation // from pod.validate; validations that fail to evaluate refuse nothing
	Change     PodChange          // empty if refused or if no VPA changes the pod
	Failed     []*engine.RuleError
}

// ReviewPod runs every admission rule for a pod: for new pods in the webhook, and in the updater so
// that no pod is evicted whose replacement would be refused. Without a VPA it changes nothing.
func ReviewPod(plan *engine.Plan, in PodInput, trace *engine.Trace) (out PodReview) {
	out.Violations = ValidatePod(plan, in.Pod, in.Limits, in.VPA != nil)
	if in.VPA == nil || in.Creating && out.Refused() {
		return out
	}
	out.Change, out.Failed = ResourcesForPod(plan, in, trace)
	return out
}

// Refused reports whether the pod must not be created.
func (r *PodReview) Refused() bool { return r.Refusal() != "" }

// Refusal returns why the pod must not be created, by the rules or by the API server; empty = allowed.
func (r *PodReview) Refusal() string {
	var why []string
	for _, v := range r.Violations {
		if !v.Failed {
			why = append(why, strings.TrimPrefix(v.Path+": "+v.Message, ": "))
		}
	}
	if r.Change.Refused != "" {
		why = append(why, r.Change.Refused)
	}
	return strings.Join(why, "; ")
}
