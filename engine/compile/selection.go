package compile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
)

// Selection holds the plans for an object.
type Selection struct {
	// Plan includes the enforced overlays that match. With Err it is the default pipeline alone.
	Plan *engine.Plan
	// Shadows are the matching overlays in mode Audit or Warn, in the order they would apply.
	Shadows []Shadow
	// Err says why the object cannot get its plan, e.g. a pinned pipeline that is not loaded.
	Err error
	// Unevaluated says why matching overlays are not among Shadows.
	Unevaluated []error
	// Unknown says which overlays do not apply because the labels of the namespace are not known; nil = none.
	Unknown error
}

// Shadow is an overlay that is evaluated beside the enforced plan.
type Shadow struct {
	Overlay string
	Mode    string       // ModeAudit or ModeWarn
	Plan    *engine.Plan // the enforced plan with this overlay
}

// Same reports whether two selections hold the same plans, and lack the same.
func (s Selection) Same(other Selection) bool {
	return s.Plan == other.Plan && slices.Equal(s.Shadows, other.Shadows) && fmt.Sprint(s.Err, s.Unknown, s.Unevaluated) == fmt.Sprint(other.Err, other.Unknown, other.Unevaluated)
}

// For selects the plans for an object: of the pipeline that it pins, else of the one that the last overlay chooses.
func (b *Rulebook) For(s document.Subject) Selection {
	pipe := b.library.Pipelines[b.standard.Pipeline()]
	if s.Pipeline != "" {
		if pipe = b.library.Pipelines[s.Pipeline]; pipe == nil {
			return Selection{Plan: b.standard, Err: errors.New(b.notLoaded(s.Pipeline, "write it as name@version, "))}
		}
	}
	namespace := related{what: "namespace " + s.Namespace, selector: "namespaceSelector", ask: func() (map[string]string, bool) {
		if b.labels.Namespace == nil {
			return nil, false
		}
		return b.labels.Namespace(s.Namespace)
	}}
	workload := related{what: s.Kind + " " + s.Name, selector: "workloadSelector", ask: func() (map[string]string, bool) {
		if b.labels.Workload == nil {
			return nil, false
		}
		return b.labels.Workload(s)
	}}
	var matching, choosing []*document.Overlay
	for _, o := range b.overlays {
		if o.Match.Matches(s) && namespace.hold(o, o.Match.NamespaceSelector) && workload.hold(o, o.Match.WorkloadSelector) {
			matching = append(matching, o)
		}
	}
	if s.Pipeline == "" {
		choosing = matching
	}
	pipe = b.chosen(pipe, choosing, nil)
	meant := func(o *document.Overlay) bool { return o.AppliesTo(pipe) || s.Pipeline == "" && !o.Uses().IsZero() }
	out := Selection{Unknown: faults.Join(namespace.err(meant), workload.err(meant))}
	if out.Plan, out.Err = b.plan(pipe, enforcedOn(pipe, matching)); out.Err != nil {
		out.Plan = b.standard
		return out
	}
	for _, o := range matching {
		under := b.chosen(pipe, choosing, o)
		if o.ModeOf() == document.ModeEnforce || !o.AppliesTo(under) { // one of a higher priority may choose another pipeline
			continue
		}
		plan, err := b.plan(under, document.InsertInOrder(enforcedOn(under, matching), o))
		if err != nil {
			out.Unevaluated = append(out.Unevaluated, fmt.Errorf("%s: %w", o.Subject(), err))
			continue
		}
		out.Shadows = append(out.Shadows, Shadow{Overlay: o.Name.Value, Mode: o.ModeOf(), Plan: plan})
	}
	return out
}

func enforcedOn(pipe *document.Pipeline, matching []*document.Overlay) (out []*document.Overlay) {
	for _, o := range matching {
		if o.ModeOf() == document.ModeEnforce && o.AppliesTo(pipe) {
			out = append(out, o)
		}
	}
	return out
}

// chosen is the pipeline of the last overlay that chooses one, of those that are enforced, or tried; standard if there is none.
func (b *Rulebook) chosen(standard *document.Pipeline, choosing []*document.Overlay, tried *document.Overlay) *document.Pipeline {
	for _, o := range slices.Backward(choosing) {
		if use := o.Uses(); !use.IsZero() && (o.ModeOf() == document.ModeEnforce || o == tried) {
			if pipe, err := b.library.Pipeline(use.Value); err == nil {
				return pipe
			}
		}
	}
	return standard
}
