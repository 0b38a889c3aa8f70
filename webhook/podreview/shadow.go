package podreview

import (
	"fmt"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// Differences lists what other rules, whose answer is tried, would do differently with a pod.
func Differences(enforced, tried *Answer) (out []string) {
	for _, c := range vpareview.Differences(vpareview.Answer{Causes: enforced.Causes}, vpareview.Answer{Causes: tried.Causes}) {
		out = append(out, c.String())
	}
	if enforced.Allowed() && tried.Allowed() {
		out = append(out, facts.ChangeDifferences(enforced.Change, tried.Change)...)
	}
	return out
}

// ShadowWarnings words the differences of an overlay in mode Warn as warnings for the user who submits the pod; none in other modes.
func ShadowWarnings(shadow compile.Shadow, differences []string) (out []string) {
	if shadow.Mode != document.ModeWarn {
		return nil
	}
	for _, d := range differences {
		out = append(out, fmt.Sprintf("RuleOverlay %s (Warn) would change the pod: %s", shadow.Overlay, d))
	}
	return out
}
