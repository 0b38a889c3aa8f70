package podreview

import (
	"fmt"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// Differences tells what other rules, which came to tried, would do with a pod.
func Differences(enforced, tried *Answer) (out []string) {
	for _, c := range vpareview.Differences(vpareview.Answer{Causes: enforced.Causes}, vpareview.Answer{Causes: tried.Causes}) {
		out = append(out, c.String())
	}
	if enforced.Allowed() && tried.Allowed() {
		out = append(out, facts.ChangeDifferences(enforced.Change, tried.Change)...)
	}
	return out
}

// ShadowWarnings are differences that an overlay would make, as warnings for whoever submits the pod, where its mode asks for
// them.
func ShadowWarnings(shadow compile.Shadow, differences []string) (out []string) {
	if shadow.Mode != document.ModeWarn {
		return nil
	}
	for _, d := range differences {
		out = append(out, fmt.Sprintf("RuleOverlay %s (Warn) would change the pod: %s", shadow.Overlay, d))
	}
	return out
}
