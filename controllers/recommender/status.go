package recommender

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"sort"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// update recommends for one VPA and writes its status if that changed. A panic stays with this VPA.
func (r *Recommender) update(ctx context.Context, v *vpav1.VerticalPodAutoscaler) {
	log := r.Log.WithValues("namespace", v.Namespace, "vpa", v.Name)
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "this VPA is left as it was; please report this", "stack", string(debug.Stack()))
		}
	}()
	status := r.status(ctx, v, log)
	if equality.Semantic.DeepEqual(*status, v.Status) {
		return
	}
	if err := r.write(ctx, v, status); err != nil {
		if !apierrors.IsNotFound(err) { // deleted since it was listed
			log.Error(err, "cannot write the status")
		}
		return
	}
	if !hasRecommendation(v.Status.Recommendation) && hasRecommendation(status.Recommendation) {
		recommendationLatency.Observe(r.Clock.Since(v.CreationTimestamp.Time).Seconds())
	}
}

// status is what the VPA's status should be.
func (r *Recommender) status(ctx context.Context, v *vpav1.VerticalPodAutoscaler, log logr.Logger) *vpav1.VerticalPodAutoscalerStatus {
	status := v.Status.DeepCopy()
	generation := v.Generation
	status.ObservedGeneration = &generation
	conditions := conditionSet{list: status.Conditions, now: metav1.NewTime(r.Clock.Now())}
	defer func() { status.Conditions = conditions.sorted() }()

	chosen := policy.For(r.rules, v)
	if chosen.Err != nil { // what was recommended by rules that are gone stays as it is
		message := chosen.Err.Error() + "; the recommendation is left as it is"
		if !conditions.says(vpav1.RulesApplied, message) { // told once
			log.Error(chosen.Err, "the recommendation is left as it is")
		}
		conditions.set(vpav1.RulesApplied, corev1.ConditionFalse, "RulesNotFound", message)
		return status
	}
	selector, unsupported := r.Resolver.Selector(ctx, v)
	if unsupported != nil {
		conditions.set(vpav1.ConfigUnsupported, corev1.ConditionTrue, "", unsupported.Message)
		if unsupported.Transient && hasRecommendation(status.Recommendation) {
			return status // what was recommended stays until the answer is known (UPSTREAM.md Appendix B 10)
		}
		selector = labels.Nothing()
	} else {
		conditions.remove(vpav1.ConfigUnsupported)
	}
	containers, pods := r.cluster.View(v.Namespace, selector)
	result := r.recommend(chosen.Plan, v, containers, false)
	policy.Report(log, "its values are left as they were", result.Failed...)
	r.audit(v, chosen.Shadows, containers, result)
	recommendations := result.keep(status.Recommendation)
	recommendation := &vpav1.RecommendedPodResources{ContainerRecommendations: recommendations}
	if !equality.Semantic.DeepEqual(recommendation, status.Recommendation) {
		r.explain(chosen.Plan, v, containers, status.Recommendation, log)
	}
	status.Recommendation = recommendation

	const noPods = "No pods match this VPA object"
	reason, message := "", ""
	if pods == 0 {
		reason, message = string(vpav1.NoPodsMatched), noPods
		conditions.set(vpav1.NoPodsMatched, corev1.ConditionTrue, reason, message)
	} else {
		conditions.remove(vpav1.NoPodsMatched)
	}
	if len(recommendations) > 0 {
		conditions.set(vpav1.RecommendationProvided, corev1.ConditionTrue, "", "")
	} else {
		conditions.set(vpav1.RecommendationProvided, corev1.ConditionFalse, reason, message)
	}
	conditions.set(vpav1.RulesApplied, corev1.ConditionTrue, chosen.Plan.Pipeline(), rulesMessage(chosen))
	return status
}

// rulesMessage tells which rules decided: the digest, the overlays that are part of them and those that are tried.
func rulesMessage(s engine.Selection) string {
	message := "digest " + s.Plan.Digest()
	if names := s.Plan.Overlays(); len(names) > 0 {
		message += ", overlays " + strings.Join(names, ", ")
	}
	var tried []string
	for _, shadow := range s.Shadows {
		tried = append(tried, shadow.Overlay+" ("+shadow.Mode+")")
	}
	if len(tried) > 0 {
		message += "; not enforced: " + strings.Join(tried, ", ")
	}
	for _, err := range s.Untried {
		message += "; cannot be tried: " + err.Error()
	}
	return message
}

// recommend is Recommend by plans folded for the VPA's policies.
func (r *Recommender) recommend(of *engine.Plan, v *vpav1.VerticalPodAutoscaler, containers map[string]*model.Aggregate, explain bool) Result {
	plan := func(p *vpav1.ContainerResourcePolicy, record *engine.Record) *engine.Plan {
		return r.folded.For(v, of, p, record)
	}
	return recommend(plan, containers, v.Spec.ResourcePolicy, explain)
}

func hasRecommendation(r *vpav1.RecommendedPodResources) bool {
	return r != nil && len(r.ContainerRecommendations) > 0
}

func (r *Recommender) write(ctx context.Context, v *vpav1.VerticalPodAutoscaler, status *vpav1.VerticalPodAutoscalerStatus) error {
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status", "value": status}})
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	return r.Client.Status().Patch(ctx, v.DeepCopy(), client.RawPatch(types.JSONPatchType, patch))
}

// conditionSet changes conditions the way upstream does (UPSTREAM.md §2.6): the transition time moves with the
// status only, and foreign conditions stay.
type conditionSet struct {
	list []vpav1.VerticalPodAutoscalerCondition
	now  metav1.Time
}

func (c *conditionSet) set(t vpav1.VerticalPodAutoscalerConditionType, status corev1.ConditionStatus, reason, message string) {
	one := vpav1.VerticalPodAutoscalerCondition{Type: t, Status: status, Reason: reason, Message: message, LastTransitionTime: c.now}
	for i := range c.list {
		if c.list[i].Type == t {
			if c.list[i].Status == status {
				one.LastTransitionTime = c.list[i].LastTransitionTime
			}
			c.list[i] = one
			return
		}
	}
	c.list = append(c.list, one)
}

// says reports whether a condition has a message already.
func (c *conditionSet) says(t vpav1.VerticalPodAutoscalerConditionType, message string) bool {
	return slices.ContainsFunc(c.list, func(one vpav1.VerticalPodAutoscalerCondition) bool { return one.Type == t && one.Message == message })
}

func (c *conditionSet) remove(t vpav1.VerticalPodAutoscalerConditionType) {
	kept := c.list[:0]
	for _, one := range c.list {
		if one.Type != t {
			kept = append(kept, one)
		}
	}
	c.list = kept
}

func (c *conditionSet) sorted() []vpav1.VerticalPodAutoscalerCondition {
	sort.SliceStable(c.list, func(i, j int) bool { return c.list[i].Type < c.list[j].Type })
	return c.list
}
