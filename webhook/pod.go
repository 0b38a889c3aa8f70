package webhook

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podpatch"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// pod answers the review of a new pod. Only a rule refuses a pod: after any other failure it is admitted unchanged, and the log
// says why.
func (h *Handler) pod(ctx context.Context, req admission.Request, about *subject) admission.Response {
	answer, warnings, err := h.reviewPod(ctx, req, about)
	if err != nil {
		about.logger().Error(err, "the pod is admitted unchanged")
	}
	if !answer.Allowed() {
		for _, c := range answer.Causes {
			refusalsTotal.WithLabelValues(c.Rule).Inc()
		}
		about.logger().Info("pod refused", "reason", texts(answer.Causes))
		return denied(req, schema.GroupKind{Kind: "Pod"}, answer.Causes).WithWarnings(warnings...)
	}
	return admission.Patched("", answer.Patch...).WithWarnings(warnings...)
}

// reviewPod looks up what concerns the pod and asks the rules. The warnings are for the user who submits it.
func (h *Handler) reviewPod(ctx context.Context, req admission.Request, about *subject) (answer podreview.Answer, warnings []string, err error) {
	if req.Operation != admissionv1.Create || req.SubResource != "" {
		return answer, nil, nil
	}
	if v := req.Kind.Version; v != "" && v != "v1" {
		return answer, nil, fmt.Errorf("pods of version %s are not supported", v)
	}
	pod, err := decodePod(req.Object.Raw)
	if err != nil {
		return answer, nil, fmt.Errorf("reading the pod: %w", err)
	}
	if pod.Namespace == "" {
		pod.Namespace = req.Namespace
	}
	if pod.Name == "" {
		pod.Name = pod.GenerateName + "%"
	}
	about.add("pod", pod.Name)
	rules := h.Rules()
	limits, err := h.Limits.Of(ctx, pod.Namespace)
	if err != nil {
		return answer, nil, err
	}
	v, err := h.controllingVPA(ctx, req, rules, pod)
	if err != nil {
		about.logger().Error(err, "cannot determine whether a VPA controls the pod; it is admitted unchanged")
		v = nil
	}
	review := podreview.Request{Pod: pod, Limits: limits, Objects: h.Objects}
	chosen := v
	if v == nil { // rules for the namespace still apply
		chosen = matcher.New(rules, &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace}}, h.Log)
	} else {
		about.add("vpa", v.Object.Name)
		review.VPA = v.Object
	}
	if chosen.Rules.Err != nil {
		about.logger().Error(chosen.Rules.Err, "the default pipeline applies the recommendation")
	}
	answer = podreview.Review(chosen.Rules.Plan, review, nil)
	logAnswer(about, &answer, review.VPA)
	if v != nil {
		h.keep(&req, pod.Name, review.VPA, chosen.Rules.Plan, &answer)
	}
	warnings = answer.Warnings
	if len(chosen.Rules.Shadows) > 0 {
		warnings = append(warnings, h.auditPod(req, about.logger(), chosen.Object, review, chosen.Rules.Shadows, &answer)...)
	}
	return answer, warnings, nil
}

// logAnswer logs what the rules decided for a pod.
func logAnswer(about *subject, answer *podreview.Answer, v *vpav1.VerticalPodAutoscaler) {
	if len(answer.Failed) > 0 || len(answer.Unjudged) > 0 || len(answer.Missing) > 0 {
		log := about.logger()
		policy.Report(log, "values unchanged", answer.Failed...)
		for _, c := range answer.Unjudged {
			log.Error(fmt.Errorf("%s", c), "a rule could not judge the pod, and does not refuse it")
		}
		for _, m := range answer.Missing { // in the words of AEP-7571
			if m.Container == "" {
				log.Info("No recommendation found for pod, skipping", "resource", string(m.Resource))
			} else {
				log.Info("No recommendation found for container, skipping", "container", m.Container, "resource", string(m.Resource))
			}
		}
	}
	if left := answer.Change.Left; len(left) > 0 {
		overlays := answer.Change.Overlays
		about.logger().Info("part of the recommendation is not applied, because API servers would refuse the pod", "left", left, "overlays", overlays)
		if len(overlays) == 0 {
			overlays = []string{""}
		}
		for _, overlay := range overlays {
			withheldTotal.WithLabelValues(overlay).Inc()
		}
	}
	if v != nil && answer.Allowed() {
		if log := about.log.V(1); log.Enabled() {
			if about.log.V(5).Enabled() { // the pod has it, too, and it takes longer than the rest of the line
				about.add("updates", updates(answer))
			}
			log.Info("pod patched", about.values...)
		}
	}
}

// updates returns the value of the vpaUpdates annotation in a patch; empty without one.
func updates(answer *podreview.Answer) string {
	for i := range answer.Patch {
		if answer.Patch[i].Path == updatesPath {
			text, _ := answer.Patch[i].Value.(string)
			return text
		}
	}
	return ""
}

var updatesPath = podpatch.Annotate(podpatch.AnnotationUpdates, "").Path

// slimPod has the fields of a pod that rules and patches read. Most of a pod is not decoded.
type slimPod struct {
	Metadata struct {
		Name            string                  `json:"name"`
		GenerateName    string                  `json:"generateName"`
		Namespace       string                  `json:"namespace"`
		Labels          map[string]string       `json:"labels"`
		Annotations     map[string]string       `json:"annotations"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Resources      *corev1.ResourceRequirements `json:"resources"`
		Containers     []slimContainer              `json:"containers"`
		InitContainers []slimContainer              `json:"initContainers"`
		NodeName       string                       `json:"nodeName"`
		Affinity       *corev1.Affinity             `json:"affinity"`
	} `json:"spec"`
}

type slimContainer struct {
	Name          string                         `json:"name"`
	Resources     corev1.ResourceRequirements    `json:"resources"`
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
}

func decodePod(data []byte) (*corev1.Pod, error) {
	var read slimPod
	if err := quantity.Decode(data, &read); err != nil {
		return nil, err
	}
	m := &read.Metadata
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace, Labels: m.Labels, Annotations: m.Annotations, OwnerReferences: m.OwnerReferences,
	}}
	pod.Spec.Resources = read.Spec.Resources
	pod.Spec.Containers, pod.Spec.InitContainers = containers(read.Spec.Containers), containers(read.Spec.InitContainers)
	pod.Spec.NodeName, pod.Spec.Affinity = read.Spec.NodeName, read.Spec.Affinity
	return pod, nil
}

func containers(list []slimContainer) []corev1.Container {
	if len(list) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(list))
	for i := range list {
		out[i].Name, out[i].Resources, out[i].RestartPolicy = list[i].Name, list[i].Resources, list[i].RestartPolicy
	}
	return out
}
