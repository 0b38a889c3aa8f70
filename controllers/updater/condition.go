package updater

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// forbiddenTime is the pause after the API server refused to write a condition for lack of
// permission. Upstream's manifests do not grant it.
const forbiddenTime = time.Hour

// reportNoEffect reports the rule that pauses evictions of a group because they have no effect, or that leaves pods as they are
// because of what overlays make of them; empty = none does.
func (r *run) reportNoEffect(ctx context.Context, v *vpav1.VerticalPodAutoscaler, rule, message string, log logr.Logger) {
	about := reportOf(v, "evictions without effect")
	if rule == "" {
		r.reported.Over(about)
		r.writeCondition(ctx, v, nil, log)
		return
	}
	condition := &vpav1.VerticalPodAutoscalerCondition{Type: vpav1.UpdatesHaveNoEffect, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(r.now), Reason: rule, Message: message}
	if r.reported.News(about, rule) {
		r.Actuator.Recorder.Eventf(v, nil, corev1.EventTypeWarning, string(vpav1.UpdatesHaveNoEffect), "Evict", "%s (%s)", condition.Message, rule)
		log.Info("updates have no effect", "detail", condition.Message, "rule", rule)
	}
	r.writeCondition(ctx, v, condition, log)
}

// noEffect is the message for users: what is wrong, and what to check.
func noEffect(v *vpav1.VerticalPodAutoscaler, paused facts.Group, now time.Time) string {
	of := target.Of(v)
	ago := func(age time.Duration) string { return now.Add(-age).UTC().Format(time.RFC3339) }
	switch {
	case paused.CreateRefused != "":
		return fmt.Sprintf("new pods of %s %s are refused, so evictions are paused: %s", of.Kind, of.Name, paused.CreateRefused)
	case paused.Unreplaced > 0:
		return fmt.Sprintf("evicted pods of %s %s were not replaced (%d missing since %s), so evictions are paused: its events FailedCreate say why", of.Kind, of.Name, paused.Unreplaced, ago(paused.UnreplacedAge))
	}
	return fmt.Sprintf("replacement pods of %s %s keep the resources of the evicted ones (%d in a row, the last evicted at %s), so evictions are paused: "+
		"check that the API server calls the admission webhook for pods of namespace %s, and whether another webhook or controller sets their resources",
		of.Kind, of.Name, paused.Unchanged, ago(paused.UnchangedAge), v.Namespace)
}

// counted is what noEffect counts, and when the last pod was evicted, or the first one was missing.
var counted = regexp.MustCompile(` \((\d{1,9}) (in a row|missing)[a-z, ]* (\S+)\), so evictions are paused`)

// restore takes up what an earlier process counted, from the conditions of VPAs, in the first cycle of this one.
func (r *run) restore(work []*workload) {
	if r.restored {
		return
	}
	r.restored = true
	for _, w := range work {
		r.restoreOne(w)
	}
}

func (r *run) restoreOne(w *workload) {
	at := slices.IndexFunc(w.vpa.Status.Conditions, func(c vpav1.VerticalPodAutoscalerCondition) bool {
		return c.Type == vpav1.UpdatesHaveNoEffect && c.Status == corev1.ConditionTrue
	})
	if at < 0 {
		return
	}
	found := counted.FindStringSubmatch(w.vpa.Status.Conditions[at].Message)
	if found == nil {
		return
	}
	n, _ := strconv.Atoi(found[1]) // a few digits
	since, err := time.Parse(time.RFC3339, found[3])
	if err != nil {
		return
	}
	for _, pod := range w.pods {
		owner, _ := target.DirectOwner(pod)
		if found[2] == "missing" {
			r.memory.Breaker.RestoreUnreplaced(owner, n, since, r.now)
		} else {
			r.memory.Breaker.RestoreUnchanged(owner, pod, n, since, r.now)
		}
	}
}

// overlaysInvalid is the message about pods that rules of overlays would make invalid.
func overlaysInvalid(v *vpav1.VerticalPodAutoscaler, c *podupdate.Candidate) string {
	of := target.Of(v)
	return fmt.Sprintf("part of the recommendation is not applied to %s %s, because API servers would refuse its pods: %s", of.Kind, of.Name, strings.Join(c.Change.Left, "; "))
}

// clearConditions removes the condition from VPAs that no longer change running pods, as long as the cycle has time.
func (r *run) clearConditions(ctx context.Context, vpas []vpav1.VerticalPodAutoscaler, work []*workload) {
	working := make(map[types.UID]bool, len(work))
	for _, w := range work {
		working[w.vpa.UID] = true
	}
	for i := range vpas {
		if ctx.Err() != nil {
			return
		}
		if v := &vpas[i]; !working[v.UID] && r.Namespaces.Serve(v.Namespace) && v.Unreadable() == "" {
			r.writeCondition(ctx, v, nil, r.Log.WithValues("namespace", v.Namespace, "vpa", v.Name))
		}
	}
}

// writeCondition sets the condition, or removes it when it is nil. The recommender writes the
// status, too, so the patch touches nothing else and tests the resource version; after a conflict
// the VPA is read once more.
func (r *run) writeCondition(ctx context.Context, v *vpav1.VerticalPodAutoscaler, want *vpav1.VerticalPodAutoscalerCondition, log logr.Logger) {
	for range 2 {
		list, changes := withCondition(v.Status.Conditions, want)
		if refused := r.conditionRefused.Load(); !changes || refused != nil && r.now.Sub(*refused) < forbiddenTime {
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
			r.conditionRefused.Store(&r.now)
			log.Info("no permission to write condition UpdatesHaveNoEffect; grant patch on verticalpodautoscalers/status", "error", err.Error())
			return
		case !apierrors.IsConflict(err) && !apierrors.IsInvalid(err): // a failed test of a JSON Patch is a 422
			log.Error(err, "cannot write condition UpdatesHaveNoEffect; retrying in the next cycle")
			return
		}
		fresh := &vpav1.VerticalPodAutoscaler{}
		if err := r.Actuator.Client.Get(ctx, client.ObjectKeyFromObject(v), fresh); err != nil || fresh.UID != v.UID {
			return // the next cycle retries
		}
		v = fresh
	}
}

// withCondition adds or replaces the condition, or removes it when it is nil, and reports whether
// the list changed. The transition time changes with the status only.
func withCondition(list []vpav1.VerticalPodAutoscalerCondition, want *vpav1.VerticalPodAutoscalerCondition) (with []vpav1.VerticalPodAutoscalerCondition, changes bool) {
	at := slices.IndexFunc(list, func(c vpav1.VerticalPodAutoscalerCondition) bool { return c.Type == vpav1.UpdatesHaveNoEffect })
	with = slices.Clone(list)
	switch {
	case at < 0 && want == nil:
		return list, false
	case want == nil:
		return slices.Delete(with, at, at+1), true
	case at < 0:
		return append(with, *want), true
	}
	condition := *want
	if list[at].Status == condition.Status {
		condition.LastTransitionTime = list[at].LastTransitionTime
		if list[at].Reason == condition.Reason && list[at].Message == condition.Message {
			return list, false
		}
	}
	with[at] = condition
	return with, true
}
