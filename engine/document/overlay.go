package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/celvpa/celvpa/engine/source"
)

// Overlay is an operator's change to pipelines, for the objects it matches.
type Overlay struct {
	Name        source.Scalar
	Description string
	Mode        source.Scalar // Enforce (the default), Warn or Audit
	Priority    source.Scalar // integer, default 0; overlays apply in ascending order, then by name
	Pipeline    source.Scalar // name or name@version; empty = all pipelines
	Match       Match
	Changes     []Change
}

// Overlay modes.
const (
	// ModeEnforce changes what happens.
	ModeEnforce = "Enforce"
	// ModeWarn changes nothing; whoever submits an object is warned of the difference.
	ModeWarn = "Warn"
	// ModeAudit changes nothing; the difference is counted and recorded.
	ModeAudit = "Audit"
)

// Change is one step of an overlay: one verb (Use, Params, Disable, Replace, Before, After or Add) and,
// for Replace, Before and After, one part (RuleSet, Stage, Rule, Decision or Validation).
//
// Paths name a rule set, set/stage, set/stage/rule, set/decision or set/validation; the set may
// carry @version.
type Change struct {
	Pos     source.Scalar // position only
	Use     source.Scalar // name or name@version of the pipeline that decides for objects that pin none
	Params  []Assignment  // "set.param", or the bare param if only one set has it
	Disable source.Scalar
	Replace source.Scalar
	Before  source.Scalar
	After   source.Scalar
	Add     source.Scalar // name@version of a rule set to run last at its point

	RuleSet    source.Scalar // name@version
	Stage      *Stage
	Rule       *Rule
	Decision   *Decision
	Validation *Validation

	// Digest is the expected digest of what Disable, Replace, Before or After names; empty = any.
	// It makes a new version of the base fail until somebody reviews the change.
	Digest source.Scalar
}

// ModeOf is the mode, Enforce by default.
func (o *Overlay) ModeOf() string {
	if o.Mode.Value == "" {
		return ModeEnforce
	}
	return o.Mode.Value
}

// PriorityOf is the priority, 0 by default; the decoder has checked it.
func (o *Overlay) PriorityOf() int {
	n, _ := strconv.Atoi(o.Priority.Value)
	return n
}

// Before orders overlays by priority, then name. Later overlays win.
func (o *Overlay) Before(other *Overlay) bool {
	if a, b := o.PriorityOf(), other.PriorityOf(); a != b {
		return a < b
	}
	return o.Name.Value < other.Name.Value
}

// Uses is the pipeline, name or name@version, that the overlay chooses; empty = it leaves that to others.
func (o *Overlay) Uses() source.Scalar {
	for i := range o.Changes {
		if use := o.Changes[i].Use; !use.IsZero() {
			return use
		}
	}
	return source.Scalar{}
}

// PipelineRef is the pipeline, name or name@version, that the overlay is about: the one that it chooses, or that it names; empty = all.
func (o *Overlay) PipelineRef() source.Scalar {
	if use := o.Uses(); !use.IsZero() {
		return use
	}
	return o.Pipeline
}

// AppliesTo reports whether the overlay changes a pipeline.
func (o *Overlay) AppliesTo(p *Pipeline) bool {
	ref := o.PipelineRef().Value
	return ref == "" || ref == p.Name.Value || ref == p.ID()
}

// Subject names the overlay in problems.
func (o *Overlay) Subject() string { return KindOverlay + " " + o.Name.Value }

// Verb returns the verb's key and value.
func (c *Change) Verb() (key string, path source.Scalar) {
	switch {
	case !c.Use.IsZero():
		return "use", c.Use
	case !c.Disable.IsZero():
		return "disable", c.Disable
	case !c.Replace.IsZero():
		return "replace", c.Replace
	case !c.Before.IsZero():
		return "before", c.Before
	case !c.After.IsZero():
		return "after", c.After
	case !c.Add.IsZero():
		return "add", c.Add
	}
	return "params", c.Pos
}

// Part is the key of the part; empty = none.
func (c *Change) Part() string {
	switch {
	case !c.RuleSet.IsZero():
		return "ruleSet"
	case c.Stage != nil:
		return "stage"
	case c.Rule != nil:
		return "rule"
	case c.Decision != nil:
		return "decision"
	case c.Validation != nil:
		return "validation"
	}
	return ""
}

// Name is the name of the part; empty = the name of what it replaces.
func (c *Change) Name() source.Scalar {
	switch {
	case c.Stage != nil:
		return c.Stage.Name
	case c.Rule != nil:
		return c.Rule.Name
	case c.Decision != nil:
		return c.Decision.Name
	case c.Validation != nil:
		return c.Validation.Name
	}
	return c.RuleSet
}

func (d *Decoder) overlayFields(o *Overlay) fields {
	return fields{
		"description": d.text(&o.Description),
		"mode":        d.into(&o.Mode),
		"priority":    d.into(&o.Priority),
		"pipeline":    d.into(&o.Pipeline),
		"match": func(v *yaml.Node) {
			seen := d.object(v, fields{
				"namespaces": d.Scalars(&o.Match.Namespaces), "exceptNamespaces": d.Scalars(&o.Match.Except), "kinds": d.Scalars(&o.Match.Kinds),
				d.selectorKey: d.selector(&o.Match.Selector), "namespaceSelector": d.selector(&o.Match.NamespaceSelector), "workloadSelector": d.selector(&o.Match.WorkloadSelector),
			})
			if len(seen) == 0 && len(v.Content) == 0 { // reported already
				d.Problem(v, "match is empty; give it namespaces, exceptNamespaces, namespaceSelector, kinds, workloadSelector or "+d.selectorKey+", or leave it out to mean every object")
			}
			for _, key := range []string{"namespaces", "exceptNamespaces"} {
				if n := seen[key]; n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
					d.Problem(n, "the list of namespaces is empty; leave it out to mean all of them")
				}
			}
			if n := seen["kinds"]; n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
				d.Problem(n, "the list of kinds is empty; leave it out to mean all of them")
			}
			for _, kind := range o.Match.Kinds {
				if !kindName.MatchString(kind.Value) {
					d.Problems.At(kind, d.Subject, fmt.Sprintf("%q is not a kind, such as Deployment or DaemonSet", kind.Value))
				}
			}
			if len(o.Match.Namespaces) > 0 && len(o.Match.Except) > 0 {
				d.Problem(v, "namespaces and exceptNamespaces exclude each other; namespaces leaves out all others")
			}
			for _, name := range slices.Concat(o.Match.Namespaces, o.Match.Except) {
				if !label.MatchString(name.Value) {
					d.Problems.At(name, d.Subject, fmt.Sprintf("%q is not a name of a namespace; patterns are not supported", name.Value))
				}
			}
		},
		"change": each(d, &o.Changes, d.changeFields),
	}
}

func (d *Decoder) changeFields(c *Change, at source.Scalar) fields {
	c.Pos = at
	return fields{
		"use":        d.into(&c.Use),
		"params":     d.assignments(&c.Params),
		"disable":    d.into(&c.Disable),
		"replace":    d.into(&c.Replace),
		"before":     d.into(&c.Before),
		"after":      d.into(&c.After),
		"add":        d.into(&c.Add),
		"digest":     d.into(&c.Digest),
		"ruleSet":    d.into(&c.RuleSet),
		"stage":      one(d, &c.Stage, d.stageFields),
		"rule":       one(d, &c.Rule, d.ruleFields),
		"decision":   one(d, &c.Decision, d.decisionFields),
		"validation": one(d, &c.Validation, d.validationFields),
	}
}

// checkOverlay reports faults that need no pipeline.
func (d *Decoder) checkOverlay(n *yaml.Node, o *Overlay) {
	d.checkOneOf("mode", o.Mode, ModeEnforce, ModeWarn, ModeAudit)
	if _, err := strconv.Atoi(o.Priority.Value); err != nil && !o.Priority.IsZero() {
		d.Problems.At(o.Priority, d.Subject, fmt.Sprintf("priority %q is not a whole number", o.Priority.Value))
	}
	d.checkNames("overlay", label, []source.Scalar{o.Name})
	if len(o.Changes) == 0 {
		d.Problem(n, "spec.change is required: a list of what the overlay does")
	}
	var uses []source.Scalar
	for i := range o.Changes {
		d.checkChange(&o.Changes[i])
		if use := o.Changes[i].Use; !use.IsZero() {
			uses = append(uses, use)
		}
	}
	switch {
	case len(uses) > 1:
		d.Problems.At(uses[1], d.Subject, "an overlay can use one pipeline; write another overlay for other objects")
	case len(uses) > 0 && !o.Pipeline.IsZero():
		d.Problems.At(o.Pipeline, d.Subject, "an overlay that uses a pipeline changes that one; leave pipeline out")
	}
}

func (d *Decoder) checkChange(c *Change) {
	verbs := 0
	for _, given := range []bool{!c.Use.IsZero(), len(c.Params) > 0, !c.Disable.IsZero(), !c.Replace.IsZero(), !c.Before.IsZero(), !c.After.IsZero(), !c.Add.IsZero()} {
		if given {
			verbs++
		}
	}
	if verbs != 1 {
		d.Problems.At(c.Pos, d.Subject, "a change has exactly one of use, params, disable, replace, before, after and add")
		return
	}
	parts := 0
	for _, given := range []bool{!c.RuleSet.IsZero(), c.Stage != nil, c.Rule != nil, c.Decision != nil, c.Validation != nil} {
		if given {
			parts++
		}
	}
	verb, path := c.Verb()
	switch verb {
	case "replace", "before", "after":
		if parts != 1 {
			d.Problems.At(path, d.Subject, verb+" comes with exactly one of ruleSet, stage, rule, decision and validation")
			return
		}
	default:
		if parts != 0 {
			d.Problems.At(path, d.Subject, verb+" comes without a "+c.Part())
		}
	}
	if !c.Digest.IsZero() && (verb == "use" || verb == "params" || verb == "add") {
		d.Problems.At(c.Digest, d.Subject, "digest belongs to disable, replace, before and after")
	}
	d.checkPart(c, verb)
}

// checkPart checks a part as in a rule set. A replacement may omit its name.
func (d *Decoder) checkPart(c *Change, verb string) {
	if c.Part() == "" || !c.RuleSet.IsZero() {
		return
	}
	if name := c.Name(); name.Value != "" || verb != "replace" {
		d.checkNames(c.Part(), label, []source.Scalar{name})
	}
	switch {
	case c.Stage != nil:
		d.checkStage(c.Stage)
	case c.Rule != nil:
		d.checkRule(c.Rule)
	case c.Validation != nil:
		d.checkValidation(*c.Validation)
	}
}

// OverlayNames joins the names of overlays.
func OverlayNames(list []*Overlay) string {
	var out []string
	for _, o := range list {
		out = append(out, o.Name.Value)
	}
	return strings.Join(out, ", ")
}
