package policy

import (
	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/engine/compile"
)

// DescribeRules describes the rules that were chosen for a VPA.
func DescribeRules(s compile.Selection) answers.Rules {
	var out answers.Rules
	if s.Plan != nil { // it is nil if choosing panicked
		out = answers.Rules{Pipeline: s.Plan.Pipeline(), Digest: s.Plan.Digest(), Overlays: s.Plan.Overlays()}
	}
	for _, shadow := range s.Shadows {
		out.Audited = append(out.Audited, shadow.Overlay)
	}
	for _, err := range s.Unevaluated {
		out.Unevaluated = append(out.Unevaluated, err.Error())
	}
	if s.Err != nil {
		out.Fault = s.Err.Error()
	}
	return out
}
