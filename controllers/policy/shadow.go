package policy

import (
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// differences counts what overlays in mode Audit or Warn would have changed. Its labels are bounded by the overlays
// that are loaded.
var differences = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "celvpa_rule_overlay_differences_total",
	Help: "Times that an overlay in mode Audit or Warn would have changed the outcome, by component.",
}, []string{"overlay", "mode", "component"})

// Shadows records what overlays in mode Audit or Warn would change: each time in a counter, and when it is news in an
// event on the VPA and in the log. It is safe for concurrent use.
type Shadows struct {
	Component string // recommender, updater or admission
	Recorder  events.EventRecorder
	Log       logr.Logger

	mu   sync.Mutex
	told map[shadowKey]string // the difference told last
}

// shadowKey is one object whose outcome would differ, e.g. a pod of a VPA.
type shadowKey struct {
	vpa     types.UID
	overlay string
	about   string
}

// maxTold bounds what is remembered. When it is full all is forgotten, and what is still true is told once more.
const maxTold = 10_000

// maxEventNote is the longest note the events API takes, in bytes.
const maxEventNote = 1024

// Record notes what a shadow would change for something of a VPA (about; empty = the VPA itself). No differences means
// that it would change nothing, which is remembered, so that the next difference is news.
func (s *Shadows) Record(v *vpav1.VerticalPodAutoscaler, shadow engine.Shadow, about string, differs []string) {
	text := strings.Join(differs, "; ")
	key := shadowKey{vpa: v.UID, overlay: shadow.Overlay, about: about}
	s.mu.Lock()
	if s.told == nil || len(s.told) >= maxTold {
		s.told = map[shadowKey]string{}
	}
	news := s.told[key] != text
	if text == "" {
		delete(s.told, key)
	} else {
		s.told[key] = text
	}
	s.mu.Unlock()
	if text == "" {
		return
	}
	differences.WithLabelValues(shadow.Overlay, shadow.Mode, s.Component).Inc()
	if !news {
		return
	}
	of := ""
	if about != "" {
		of = about + ": "
	}
	note := "RuleOverlay " + shadow.Overlay + " (" + shadow.Mode + ") would change " + of + text
	s.Log.Info(note, "namespace", v.Namespace, "vpa", v.Name)
	if len(note) > maxEventNote {
		note = note[:maxEventNote-1-len(" …")] + " …"
	}
	if v.UID == "" { // not stored yet: there is nothing that an event could be about
		return
	}
	s.Recorder.Eventf(v, nil, corev1.EventTypeNormal, "RuleOverlayAudit", "Audit", "%s", note)
}
