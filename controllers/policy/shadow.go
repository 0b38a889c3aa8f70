package policy

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/metric"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// differences counts what overlays in mode Audit or Warn would have changed. Its labels are bounded
// by the overlays that are loaded.
var differences = metric.Counter("celvpa_rule_overlay_differences_total", "Evaluations in which an overlay in mode Audit or Warn would have changed the outcome, by component.", "overlay", "mode", "component")

// Shadows records what overlays in mode Audit or Warn would change: every time in a counter, and as
// a sample in the log and in an event of the VPA, once per hour and only if it differs from the
// last one. It is safe for concurrent use.
type Shadows struct {
	Component string // recommender, updater or admission
	Recorder  events.EventRecorder
	Clock     clock.PassiveClock
	Log       logr.Logger

	mu       sync.Mutex
	reported map[shadowKey]reportedShadow
}

// reportedShadow is the last reported difference, and when.
type reportedShadow struct {
	text string
	at   time.Time
}

// reportInterval is the minimum between two reports: usage changes all the time, and numbers with it.
const reportInterval = time.Hour

// shadowKey is one kind of outcome that would differ, such as the running pods of a VPA.
type shadowKey struct {
	vpa     types.UID
	overlay string
	about   string
}

// maxReported bounds the memory. When it is full it is cleared, and all differences are reported again.
const maxReported = 100_000

// maxEventAction is the longest action that the events API takes, in bytes.
const maxEventAction = 128

// Record notes what a shadow would change about a VPA, e.g. its recommendation or its new pods. No
// differences means that it would change nothing.
func (s *Shadows) Record(v *vpav1.VerticalPodAutoscaler, shadow compile.Shadow, about string, differs []string) {
	if len(differs) == 0 {
		return
	}
	differences.WithLabelValues(shadow.Overlay, shadow.Mode, s.Component).Inc()
	text := strings.Join(differs, "; ")
	if !s.news(shadowKey{vpa: v.UID, overlay: shadow.Overlay, about: about}, text) {
		return
	}
	note := fmt.Sprintf("RuleOverlay %s (%s) would change %s: %s", shadow.Overlay, shadow.Mode, about, text)
	s.Log.Info("overlay would change the outcome", "detail", note, "namespace", v.Namespace, "vpa", v.Name)
	if v.UID == "" { // not stored: there is no object for an event
		return
	}
	// Events with one reason and action are one series, which shows its first note only.
	action := strings.ReplaceAll("Audit "+shadow.Overlay+" "+about, " ", "-")
	if len(action) > maxEventAction {
		action = action[:maxEventAction]
	}
	s.Recorder.Eventf(v, nil, corev1.EventTypeNormal, "RuleOverlayAudit", action, "%s", note)
}

// UntilPanic recovers from a panic of an audited overlay, so that it does not affect enforced
// rules. Defer it.
func UntilPanic(log logr.Logger) {
	if p := recover(); p != nil {
		log.Error(fmt.Errorf("panic: %v", p), "panic while evaluating an audited overlay; please report this", "stack", string(debug.Stack()))
	}
}

// VerdictDifference describes where a verdict differs from the enforced one; nil = nowhere.
func VerdictDifference(enforced, tried engine.Verdict) []string {
	if enforced.Do == tried.Do {
		return nil
	}
	return []string{fmt.Sprintf("%s (%s) → %s (%s)", enforced.Do, enforced.Rule, tried.Do, tried.Rule)}
}

// news reports whether to report a difference, and remembers it if so.
func (s *Shadows) news(key shadowKey, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, before := s.reported[key]
	now := s.Clock.Now()
	if before && (last.text == text || now.Sub(last.at) < reportInterval) {
		return false
	}
	if s.reported == nil || len(s.reported) >= maxReported {
		s.reported = map[shadowKey]reportedShadow{}
	}
	s.reported[key] = reportedShadow{text: text, at: now}
	return true
}
