package vpareview

import (
	"fmt"
	"slices"

	"github.com/celvpa/celvpa/engine"
)

// ShadowWarnings tells what overlays in mode Warn would say differently about an object than what is enforced, which said
// answer.
func ShadowWarnings(shadows []engine.Shadow, req Request, answer Answer) (out []Cause) {
	for _, shadow := range shadows {
		if shadow.Mode != engine.ModeWarn {
			continue
		}
		tried := Review(shadow.Plan, req)
		told := func(verb string, these, others []Cause) {
			for _, c := range these {
				if slices.Contains(others, c) {
					continue
				}
				c.Message = fmt.Sprintf("RuleOverlay %s (Warn) would %s: %s", shadow.Overlay, verb, c.Message)
				out = append(out, c)
			}
		}
		told("refuse this", tried.Causes, answer.Causes)
		told("warn", tried.Warnings, answer.Warnings)
		told("not refuse this", answer.Causes, tried.Causes)
		told("not warn", answer.Warnings, tried.Warnings)
	}
	return out
}
