package policy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/cycle"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
)

// OverlayStatus writes the condition Accepted of RuleOverlay objects. Only the leader runs it.
type OverlayStatus struct {
	Client client.Client // reads from a cache, writes to the API
	Source *Source
	Every  time.Duration
	Clock  clock.WithTicker
	Log    logr.Logger
}

// The reasons of the condition Accepted.
const (
	reasonAccepted = "Accepted"
	reasonInvalid  = "Invalid"
)

// maxConditionMessage is the longest message that a condition takes, in bytes.
const maxConditionMessage = 32 << 10

// Start writes until the context ends.
func (w *OverlayStatus) Start(ctx context.Context) error {
	w.WriteOnce(ctx)
	cycle.Every(ctx, w.Clock, w.Every, func() { w.WriteOnce(ctx) })
	return nil
}

// WriteOnce writes the status of the overlays that are decided and whose status is outdated.
func (w *OverlayStatus) WriteOnce(ctx context.Context) {
	var list rulesv1alpha1.RuleOverlayList
	if err := w.Client.List(ctx, &list); err != nil {
		w.Log.Error(err, "cannot list RuleOverlays; their status is not written")
		return
	}
	fates := w.Source.Accepted()
	for i := range list.Items {
		o := &list.Items[i]
		fate, known := fates[o.Name]
		if !known || fate.UID != o.UID || fate.Generation != o.Generation { // not decided yet
			continue
		}
		before := o.DeepCopy()
		o.Status.ObservedGeneration = o.Generation
		meta.SetStatusCondition(&o.Status.Conditions, fate.condition(w.Clock.Now()))
		if equality.Semantic.DeepEqual(before.Status, o.Status) {
			continue
		}
		if err := w.Client.Status().Patch(ctx, o, client.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) {
			w.Log.Error(err, "cannot write the status of a RuleOverlay", "overlay", o.Name)
		}
	}
}

func (a Acceptance) condition(now time.Time) metav1.Condition {
	c := metav1.Condition{
		Type: rulesv1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: reasonAccepted, ObservedGeneration: a.Generation,
		LastTransitionTime: metav1.NewTime(now), Message: "in use",
	}
	if a.Err == nil {
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonInvalid, "not in use: "+a.Err.Error()
	if a.InUse > 0 {
		c.Message = fmt.Sprintf("generation %d stays in use: %v", a.InUse, a.Err)
	}
	if len(c.Message) > maxConditionMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxConditionMessage], "") // what is stored is compared
	}
	return c
}
