package vpareview

import (
	"fmt"
	"slices"

	"gomodules.xyz/jsonpatch/v2"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

// Differences tells what other rules, which came to tried, would say differently than those that are enforced.
func Differences(enforced, tried Answer) (out []Cause) {
	told := func(verb string, these, others []Cause) {
		for _, c := range these {
			if !slices.Contains(others, c) {
				c.Message = fmt.Sprintf("would %s: %s", verb, c.Message)
				out = append(out, c)
			}
		}
	}
	told("refuse this", tried.Causes, enforced.Causes)
	told("warn", tried.Warnings, enforced.Warnings)
	told("not refuse this", enforced.Causes, tried.Causes)
	told("not warn", enforced.Warnings, tried.Warnings)
	if enforced.Allowed() && tried.Allowed() {
		out = append(out, defaultDifferences(enforced.Patch, tried.Patch)...)
	}
	return out
}

// defaultDifferences tells which defaults differ.
func defaultDifferences(enforced, tried []jsonpatch.Operation) (out []Cause) {
	told := func(verb string, these, others []jsonpatch.Operation) {
		for _, op := range these {
			if !slices.ContainsFunc(others, func(o jsonpatch.Operation) bool { return o.Json() == op.Json() }) {
				out = append(out, Cause{Rule: facts.VPADefault, Message: "would " + verb + " " + op.Json()})
			}
		}
	}
	told("change the object by", tried, enforced)
	told("not change the object by", enforced, tried)
	return out
}

// ShadowWarnings are the differences that an overlay makes as warnings, where its mode asks for them.
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
