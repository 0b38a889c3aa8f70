package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/webhook"
)

func finding(token, about, wayOut, format string, args ...any) Finding {
	return Finding{Token: token, Class: classOf(token), About: about, Text: fmt.Sprintf(format, args...), WayOut: wayOut}
}

// webhookFindings say whether new pods of the namespace come to the webhook.
func (o *objects) webhookFindings() (out []Finding) {
	if o.recommendsOnly {
		return nil
	}
	if len(o.webhooks) == 0 {
		if !o.hooksRead {
			return nil
		}
		return []Finding{finding("admission-not-registered", "MutatingWebhookConfiguration "+webhook.ConfigName,
			"start the admission controller; it registers itself once it answers, or with --register-webhook=false something else has to register it",
			"no admission webhook is registered, so new pods keep the resources of their template")}
	}
	for i := range o.webhooks {
		hook, about := &o.webhooks[i].MutatingWebhook, "MutatingWebhookConfiguration "+o.webhooks[i].config
		selector, err := selects(hook.NamespaceSelector)
		switch {
		case webhook.LeavesOutPodsOf(o.vpa.Namespace, hook):
			out = append(out, finding("admission-skips-namespace", about, "use failure policy Ignore, or run the admission controller in another namespace",
				"the admission controller runs in namespace %s with failure policy Fail, so its pods keep the resources of their template", o.vpa.Namespace))
		case err == nil && o.namespace != nil && !selector.Matches(labels.Set(o.namespace.Labels)):
			out = append(out, finding("admission-skips-namespace", about,
				"change its namespaceSelector, which the flags --vpa-object-namespace and --ignored-vpa-object-namespaces of the admission controller set unless something else registers it",
				"the webhook's namespaceSelector %s does not match the labels of namespace %s, so its pods keep the resources of their template", selector, o.vpa.Namespace))
		default:
			return nil
		}
	}
	return out
}

// selects is the selector of a webhook: without one, it is for everything.
func selects(of *metav1.LabelSelector) (labels.Selector, error) {
	if of == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(of)
}

// budgetFindings are about PodDisruptionBudgets that allow no eviction of the pods.
func (o *objects) budgetFindings() (out []Finding) {
	for i := range o.budgets {
		b := &o.budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || b.Status.ObservedGeneration < b.Generation || b.Status.DisruptionsAllowed > 0 || b.Status.ExpectedPods == 0 {
			continue
		}
		if !slices.ContainsFunc(o.pods, func(p corev1.Pod) bool { return selector.Matches(labels.Set(p.Labels)) }) {
			continue
		}
		s := &b.Status
		about := "PodDisruptionBudget " + b.Namespace + "/" + b.Name
		if simulate.NeverEvicts(b) {
			out = append(out, finding("budget-blocks", about, "allow one disruption: set maxUnavailable to 1, lower minAvailable, or run more replicas",
				"it requires %d of %d pods to be healthy, so it never allows an eviction", s.DesiredHealthy, s.ExpectedPods))
			continue
		}
		out = append(out, finding("budget-spent", about, fmt.Sprintf("%d more healthy pods", s.DesiredHealthy+1-s.CurrentHealthy),
			"%d of %d pods are healthy and %d must be, so it allows no eviction now", s.CurrentHealthy, s.ExpectedPods, s.DesiredHealthy))
	}
	return out
}

// scalerFindings are about HorizontalPodAutoscalers that divide usage by a request that the VPA changes.
// A ContainerResource metric divides by that of one container.
func (o *objects) scalerFindings() (out []Finding) {
	of := target.Of(o.vpa)
	if o.recommendsOnly {
		return nil
	}
	for i := range o.scalers {
		h := &o.scalers[i]
		if ref := h.Spec.ScaleTargetRef; ref.Kind != of.Kind || ref.Name != of.Name {
			continue
		}
		by := map[string]bool{}
		for _, m := range h.Spec.Metrics {
			var name corev1.ResourceName
			var container string
			var aims autoscalingv2.MetricTarget
			switch {
			case m.Resource != nil:
				name, aims = m.Resource.Name, m.Resource.Target
			case m.ContainerResource != nil:
				name, container, aims = m.ContainerResource.Name, m.ContainerResource.Container, m.ContainerResource.Target
			}
			if aims.Type == autoscalingv2.UtilizationMetricType && o.recommends(container, name) {
				by[string(name)] = true
			}
		}
		if len(by) > 0 {
			names := strings.Join(slices.Sorted(maps.Keys(by)), " and ")
			out = append(out, finding("hpa-same-resource", "HorizontalPodAutoscaler "+h.Namespace+"/"+h.Name,
				"let the HorizontalPodAutoscaler use another metric or averageValue, or exclude the resource by controlledResources",
				"it scales by utilization of %s, which is relative to the requests that the VPA changes: each of them reacts to the other", names))
		}
	}
	return out
}

// recommends reports whether the VPA has a target of a resource for a container, empty = for any.
func (o *objects) recommends(container string, name corev1.ResourceName) bool {
	r := o.vpa.Status.Recommendation
	return r != nil && slices.ContainsFunc(r.ContainerRecommendations, func(c vpav1.RecommendedContainerResources) bool {
		_, has := c.Target[name]
		return has && (container == "" || container == c.ContainerName)
	})
}

// quotaFindings are about ResourceQuotas that are too small once all pods have what the rules want.
func (o *objects) quotaFindings(pods []Pod) (out []Finding) {
	more := map[corev1.ResourceName]resource.Quantity{}
	for i := range pods {
		for _, c := range pods[i].Change {
			if c.Container == "" || !pods[i].asks(c.Field) {
				add(more, c)
			}
		}
	}
	for i := range o.quotas {
		q := &o.quotas[i]
		for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
			long := name // cpu and memory stand for requests
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
				long = "requests." + name
			}
			delta, changes := more[long]
			need, hard := q.Status.Used[name].DeepCopy(), q.Status.Hard[name]
			if need.Add(delta); !changes || delta.Sign() <= 0 || need.Cmp(hard) <= 0 {
				continue
			}
			used := q.Status.Used[name]
			out = append(out, finding("quota-exceeded", "ResourceQuota "+q.Namespace+"/"+q.Name, "raise the quota, or lower maxAllowed",
				"%s: %s of %s are used, and all pods together would need %s more", name, quantity.Short(used.String()), quantity.Short(hard.String()), quantity.Short(delta.String())))
		}
	}
	return out
}

// asks reports whether a pod as a whole has a request or a limit, which then counts instead of those of
// its containers.
func (p *Pod) asks(field string) bool {
	return slices.ContainsFunc(p.Containers, func(c PodContainer) bool { return c.Container == "" && c.Field == field })
}

// add adds what one change asks for beyond what there is.
func add(more map[corev1.ResourceName]resource.Quantity, c answers.Change) {
	to, err := quantity.Parse(c.To)
	if err != nil {
		return
	}
	from, err := quantity.Parse(cmp.Or(c.From, "0"))
	if err != nil {
		return
	}
	sum := more[corev1.ResourceName(c.Field)]
	sum.Add(to)
	sum.Sub(from)
	more[corev1.ResourceName(c.Field)] = sum
}
