package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/webhook"
)

// objects are those around a VPA that decide about its pods. What could not be read is nil, and
// unknown says so.
type objects struct {
	vpa *vpav1.VerticalPodAutoscaler
	// recommendsOnly: admission changes no pod by it, so that neither the webhook nor other autoscalers of
	// its target matter to it.
	recommendsOnly bool
	policies       facts.PolicyRules    // which policy a container has; the zero value knows none
	selector       labels.Selector      // of the target's pods; nil = unusable
	problem        string               // why the target is unusable
	written        map[string]time.Time // when the checkpoints were written, by container, if they are among manifests
	pods           []corev1.Pod
	podsKnown      bool
	budgets        []policyv1.PodDisruptionBudget
	scalers        []autoscalingv2.HorizontalPodAutoscaler
	quotas         []corev1.ResourceQuota
	events         []Event // the newest, oldest of them first
	eventsCut      int
	webhooks       []registered // webhooks named vpa.k8s.io
	hooksRead      bool         // whether these are all
	namespace      *corev1.Namespace

	mu      sync.Mutex
	unknown []string
}

// maxPods bounds the pods of a report.
const maxPods = 500

// gatherTimeout bounds what a slow API server costs: what has not come by then is not known.
const gatherTimeout = 10 * time.Second

// gather reads them, by a number of requests that does not grow with what is in the namespace, at the same time. Only events of the VPA
// take a request for each page. Manifests have pods, PodDisruptionBudgets and HorizontalPodAutoscalers only.
func gather(ctx context.Context, c client.Client, v *vpav1.VerticalPodAutoscaler, manifests bool) *objects {
	ctx, cancel := context.WithTimeout(ctx, gatherTimeout)
	defer cancel()
	o := &objects{vpa: v}
	var group sync.WaitGroup
	reads := []func(){
		func() { o.readPods(ctx, c) },
		func() {
			var list policyv1.PodDisruptionBudgetList
			if o.list(ctx, c, &list, "PodDisruptionBudgets", "whether one blocks evictions") {
				o.budgets = list.Items
			}
		},
		func() {
			var list autoscalingv2.HorizontalPodAutoscalerList
			if o.list(ctx, c, &list, "HorizontalPodAutoscalers", "whether one scales by a resource that the VPA changes") {
				o.scalers = list.Items
			}
		},
	}
	ofCluster := []func(){
		func() {
			var list corev1.ResourceQuotaList
			if o.list(ctx, c, &list, "ResourceQuotas", "whether the recommendation fits into them") {
				o.quotas = list.Items
			}
		},
		func() { o.readEvents(ctx, c) },
		func() { o.readWebhooks(ctx, c) },
		func() {
			namespace := &corev1.Namespace{}
			if err := c.Get(ctx, types.NamespacedName{Name: v.Namespace}, namespace); err == nil {
				o.namespace = namespace
			} else {
				o.cannot("the labels of namespace "+v.Namespace, "whether the webhook serves it", err)
			}
		},
	}
	if !manifests {
		reads = append(reads, ofCluster...)
	}
	for _, read := range reads {
		group.Go(read)
	}
	group.Wait()
	slices.Sort(o.unknown)
	return o
}

func (o *objects) list(ctx context.Context, c client.Client, list client.ObjectList, what, why string, more ...client.ListOption) bool {
	err := c.List(ctx, list, append(more, client.InNamespace(o.vpa.Namespace))...)
	if err != nil {
		o.cannot(what+" of namespace "+o.vpa.Namespace, why, err)
	}
	return err == nil
}

// cannot notes what could not be read, and what is not known without it.
func (o *objects) cannot(what, why string, err error) {
	reason := err.Error()
	if apierrors.IsForbidden(err) {
		reason = "no permission to read them"
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unknown = append(o.unknown, fmt.Sprintf("%s: cannot read %s: %s", why, what, reason))
}

func (o *objects) readPods(ctx context.Context, c client.Client) {
	selector, problem := (&target.Resolver{Client: c}).Selector(ctx, o.vpa)
	if problem != nil {
		o.problem = problem.Message
		return
	}
	o.selector = selector
	var list corev1.PodList
	if !o.list(ctx, c, &list, "pods", "what its pods have", client.MatchingLabelsSelector{Selector: selector}, client.Limit(maxPods)) {
		return
	}
	o.pods, o.podsKnown = list.Items, true
	slices.SortFunc(o.pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	if list.Continue != "" {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.unknown = append(o.unknown, fmt.Sprintf("the other pods: the target has more than %d", maxPods))
	}
}

// planned keeps the pods that a plan is about. The selector of a target that is not in the manifests is not known.
func (o *objects) planned(plan *simulate.Plan, u *answers.Updater) {
	o.problem = plan.Gone[o.vpa.Namespace+"/"+o.vpa.Name]
	o.pods = slices.DeleteFunc(o.pods, func(pod corev1.Pod) bool {
		return !slices.ContainsFunc(u.Pods, func(p answers.RunningPod) bool { return p.Pod == pod.Namespace+"/"+pod.Name })
	})
}

// registered is a webhook with the name of its configuration.
type registered struct {
	config string
	admissionregistrationv1.MutatingWebhook
}

// readWebhooks looks at all configurations: charts name theirs after the release. Who may not list them may still get the one
// that celvpa and upstream register.
func (o *objects) readWebhooks(ctx context.Context, c client.Client) {
	var list admissionregistrationv1.MutatingWebhookConfigurationList
	err := c.List(ctx, &list)
	if err != nil {
		var usual admissionregistrationv1.MutatingWebhookConfiguration
		if c.Get(ctx, types.NamespacedName{Name: webhook.ConfigName}, &usual) == nil {
			list.Items = append(list.Items, usual)
		}
	}
	for i := range list.Items {
		for _, hook := range list.Items[i].Webhooks {
			if hook.Name == webhook.WebhookName {
				o.webhooks = append(o.webhooks, registered{list.Items[i].Name, hook})
			}
		}
	}
	if o.hooksRead = err == nil; !o.hooksRead && len(o.webhooks) == 0 {
		o.cannot("MutatingWebhookConfigurations", "whether the webhook is registered", err)
	}
}

// pod is a pod of the target by name; nil when there is none.
func (o *objects) pod(name string) *corev1.Pod {
	i, is := slices.BinarySearchFunc(o.pods, name, func(p corev1.Pod, name string) int { return strings.Compare(p.Name, name) })
	if !is {
		return nil
	}
	return &o.pods[i]
}
