package vpareview

import (
	"fmt"
	"slices"

	"gomodules.xyz/jsonpatch/v2"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

// Differences lists what other rules, whose answer is tried, would decide differently than the enforced ones.
func Differences(enforced, tried Answer) (out []Cause) {
	list := func(verb string, these, others []Cause) {
		for _, c := range these {
			if !slices.Contains(others, c) {
				c.Message = fmt.Sprintf("would %s: %s", verb, c.Message)
				out = append(out, c)
			}
		}
	}
	list("refuse this", tried.Causes, enforced.Causes)
	list("warn", tried.Warnings, enforced.Warnings)
	list("not refuse this", enforced.Causes, tried.Causes)
	list("not warn", enforced.Warnings, tried.Warnings)
	if enforced.Allowed() && tried.Allowed() {
		out = append(out, defaultDifferences(enforced.Patch, tried.Patch)...)
	}
	return out
}

// defaultDifferences lists the defaults that differ.
func defaultDifferences(enforced, tried []jsonpatch.Operation) (out []Cause) {
	list := func(verb string, these, others []jsonpatch.Operation) {
		for _, op := range these {
			if !slices.ContainsFunc(others, func(o jsonpatch.Operation) bool { return o.Json() == op.Json() }) {
				out = append(out, Cause{Rule: facts.VPADefault, Message: "would " + verb + " " + op.Json()})
			}
		}
	}
	list("change the object by", tried, enforced)
	list("not change the object by", enforced, tried)
	return out
}

// ShadowWarnings words the differences of an overlay in mode Warn as warnings; none in other modes.
func ShadowWarnings(shadow compile.Shadow, differences []Cause) (out []Cause) {
	if shadow.Mode != document.ModeWarn {
		return nil
	}
	for _, c := range differences {
		c.Message = fmt.Sprintf("RuleOverlay %s (Warn) %s", shadow.Overlay, c.Message)
		out = append(out, c)
	}
	return out
}
