package updater

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// UpdatesHaveNoEffect is the condition of a VPA whose pods come back from evictions with the resources that they had, so that none
// is evicted for now. Its reason is the rule. It is there only while it is True, and only the updater writes it.
const UpdatesHaveNoEffect vpav1.VerticalPodAutoscalerConditionType = "UpdatesHaveNoEffect"

// forbiddenTime is how long no condition is written after the permission was missing. Upstream's manifests do not give it.
const forbiddenTime = time.Hour

// conditions remember whether conditions may be written. The zero value is ready for use, and it is safe for concurrent use.
type conditions struct {
	mu        sync.Mutex
	forbidden time.Time // when they were last; zero = never
}

func (c *conditions) allowed(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forbidden.IsZero() || now.Sub(c.forbidden) >= forbiddenTime
}

func (c *conditions) forbid(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forbidden = now
}

// tellNoEffect tells that a rule leaves the pods of a VPA alone because evictions have no effect; empty = no rule does.
func (r *run) tellNoEffect(ctx context.Context, v *vpav1.VerticalPodAutoscaler, rule string, log logr.Logger) {
	const about = "evictions without effect"
	if rule == "" {
		r.reported.over(v.UID, about)
		r.writeCondition(ctx, v, nil, log)
		return
	}
	condition := &vpav1.VerticalPodAutoscalerCondition{Type: UpdatesHaveNoEffect, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(r.now), Reason: rule, Message: noEffect(v)}
	if r.reported.news(v.UID, about, rule) {
		r.Actuator.Recorder.Eventf(v, nil, corev1.EventTypeWarning, string(UpdatesHaveNoEffect), "Evict", "%s (%s)", condition.Message, rule)
		log.Info(condition.Message, "rule", rule)
	}
	r.writeCondition(ctx, v, condition, log)
}

// noEffect tells users what is wrong, and the way out.
func noEffect(v *vpav1.VerticalPodAutoscaler) string {
	of := target.Of(v)
	return fmt.Sprintf("pods of %s %s come back from evictions with the resources that they had, so none is evicted for now: "+
		"see whether the webhook of the admission controller is asked for pods of namespace %s, and whether another webhook or controller sets their resources",
		of.Kind, of.Name, v.Namespace)
}

// clearConditions takes the condition off VPAs that change no running pods any more.
func (r *run) clearConditions(ctx context.Context, vpas []vpav1.VerticalPodAutoscaler, work []*workload) {
	working := make(map[types.UID]bool, len(work))
	for _, w := range work {
		working[w.vpa.UID] = true
	}
	for i := range vpas {
		if v := &vpas[i]; !working[v.UID] && r.Namespaces.Serve(v.Namespace) && v.Unreadable() == "" {
			r.writeCondition(ctx, v, nil, r.Log.WithValues("namespace", v.Namespace, "vpa", v.Name))
		}
	}
}

// writeCondition makes a VPA have the condition, or not have it when it is nil. The recommender writes the status, too, so nothing
// else in it is touched and what was read must be what is there; else it is read once more.
func (r *run) writeCondition(ctx context.Context, v *vpav1.VerticalPodAutoscaler, want *vpav1.VerticalPodAutoscalerCondition, log logr.Logger) {
	for range 2 {
		list, changes := withCondition(v.Status.Conditions, want)
		if !changes || !r.conditions.allowed(r.now) {
			return
		}
		patch, err := json.Marshal([]map[string]any{
			{"op": "test", "path": "/metadata/resourceVersion", "value": v.ResourceVersion},
			{"op": "add", "path": "/status/conditions", "value": list},
		})
		if err == nil {
			written := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Name}}
			err = r.Actuator.Client.Status().Patch(ctx, written, client.RawPatch(types.JSONPatchType, patch))
		}
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return
		case apierrors.IsForbidden(err):
			r.conditions.forbid(r.now)
			log.Info("condition "+string(UpdatesHaveNoEffect)+" cannot be written, and an event has to do: allow this process to patch verticalpodautoscalers/status", "error", err.Error())
			return
		case !apierrors.IsConflict(err) && !apierrors.IsInvalid(err): // of a test that fails API servers say 422
			log.Error(err, "cannot write condition "+string(UpdatesHaveNoEffect)+"; trying again next cycle")
			return
		}
		fresh := &vpav1.VerticalPodAutoscaler{}
		if err := r.Actuator.Client.Get(ctx, client.ObjectKeyFromObject(v), fresh); err != nil || fresh.UID != v.UID {
			return // the next cycle knows more
		}
		v = fresh
	}
}

// withCondition are conditions with one that replaces that of its type, or without it when it is nil; changes tells whether they
// differ from what is there. The time of the transition stays while the status does.
func withCondition(list []vpav1.VerticalPodAutoscalerCondition, want *vpav1.VerticalPodAutoscalerCondition) (with []vpav1.VerticalPodAutoscalerCondition, changes bool) {
	at := slices.IndexFunc(list, func(c vpav1.VerticalPodAutoscalerCondition) bool { return c.Type == UpdatesHaveNoEffect })
	with = slices.Clone(list)
	switch {
	case at < 0 && want == nil:
		return list, false
	case want == nil:
		return slices.Delete(with, at, at+1), true
	case at < 0:
		return append(with, *want), true
	}
	one := *want
	if list[at].Status == one.Status {
		one.LastTransitionTime = list[at].LastTransitionTime
		if list[at].Reason == one.Reason && list[at].Message == one.Message {
			return list, false
		}
	}
	with[at] = one
	return with, true
}
