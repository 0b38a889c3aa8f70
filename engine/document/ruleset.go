// Package document reads rule files: RuleSets, Pipelines, RuleOverlays and RuleTests as written,
// each part with its position. It checks what needs no registry; package compile checks the rest.
//
// Loader.Load builds a Library from layers of files. Nothing here evaluates an expression.
package document

import (
	"slices"

	"github.com/celvpa/celvpa/engine/source"
)

// RuleSet is one named, versioned unit of policy. It plugs in at one point and holds exactly one of
// validations, stages and decisions.
type RuleSet struct {
	Name        source.Scalar
	Version     source.Scalar // semantic version, e.g. 1.0.0
	Description string
	Point       source.Scalar
	Gate        source.Scalar // feature gate that must be on for the set to run; empty = always
	Params      []Param
	At          []source.Scalar // default place of validations; places such as .quantity lie below it

	Validations []Validation
	Stages      []Stage
	Decisions   []Decision
	Variables   []Variable // named expressions for decisions

	Reads map[string]bool // parameters that expressions mention; nil = not computed yet
	Calls map[string]bool // functions that expressions call; nil = not computed yet
	Body  string          // stage, decision or validation
}

// ID is name@version, the form pipelines refer to.
func (s *RuleSet) ID() string { return s.Name.Value + "@" + s.Version.Value }

// Param is a typed constant of a rule set, or of a pipeline for all its rule sets, that operators
// change without editing expressions. One with an axis is split by value (name.cpu and so on);
// expressions read params.name[resource].
type Param struct {
	Name        source.Scalar
	Type        source.Scalar // a type name of the registry: int, double, bool, string or a unit such as cpu
	Each        source.Scalar // axis; absent = none
	Default     source.Scalar // absent = the param is unset, and has(params.name) is false
	Min, Max    source.Scalar // inclusive bounds of numbers; absent = none
	Flag        string        // command-line flag that sets it; empty = none
	Description string
}

// Variable is a named expression, computed when first read and again after a rule writes.
type Variable struct {
	Name       source.Scalar
	Expression source.Scalar
}

// Stage is a list of rules that run in order, once or for each item. Scopes run one after the
// other; within a scope, all items run with the first axis value, then with the next.
type Stage struct {
	Name      source.Scalar
	Each      []source.Scalar // scopes of the point, or an axis, or both; none = run once
	Without   []source.Scalar // axis values to skip
	When      source.Scalar
	OnError   source.Scalar // Keep (the default) or SkipStage
	Solve     source.Scalar // a solver of the point, in place of rules: it chooses amounts within the bounds that rules have set so far
	Variables []Variable
	Rules     []Rule
	Overlay   string // source overlay; empty = the rule set's own
}

// What a stage does when a rule fails at run time. The failed rule writes nothing.
const (
	// OnErrorKeep goes on with the next rule.
	OnErrorKeep = "Keep"
	// OnErrorSkipStage leaves the stage for this item; earlier writes stay.
	OnErrorSkipStage = "SkipStage"
)

// Rule changes facts: all right sides of Set see the values from before the rule.
type Rule struct {
	Name  source.Scalar
	When  source.Scalar
	Set   []Assignment
	Unset []source.Scalar
	Note  source.Scalar // text for the host when the rule fires; {resource} is the axis value

	Without []source.Scalar // axis values to skip

	Overlay string // source overlay; empty = the rule set's own
}

// Assignment is one output of a rule: a writable path and the scalar expression for it.
type Assignment struct {
	Path       source.Scalar
	Expression source.Scalar
}

// Decision is one row of a first-match table. Its name is the reason users see.
type Decision struct {
	Name   source.Scalar
	When   source.Scalar // absent = always
	Do     source.Scalar // an outcome of the point
	Class  source.Scalar // a class of the point, for some outcomes; absent = none
	Reason string        // optional prose beside the name

	ReasonExpression source.Scalar // optional; computes the prose, with Reason as fallback

	Until           string        // optional: what has to happen for another decision
	UntilExpression source.Scalar // optional; computes it, with Until as fallback

	Overlay string // source overlay; empty = the rule set's own
}

// Validation is a condition that an object must meet at a path.
type Validation struct {
	Name              source.Scalar
	Axes              []source.Scalar // at most one; expands to one validation per value
	Without           []source.Scalar // axis values to skip
	At                []source.Scalar // paths of self: a.b, a.b[*].c, a.{b,c}; empty = the whole object
	Enforce           []source.Scalar // EnforceAdmission when absent
	When              source.Scalar   // optional; an expression over self that must hold for the rule to apply
	Expression        source.Scalar
	Message           source.Scalar
	MessageExpression source.Scalar
	FieldPath         source.Scalar // below At, e.g. .maxAllowed['cpu'], or .maxAllowed[resource] with that axis
	Reason            source.Scalar // FieldValueInvalid (the default), or another of Reasons
	Severity          source.Scalar // Deny (the default) or Warn

	Overlay string // source overlay; empty = the rule set's own
}

// How a violation is treated.
const (
	// SeverityDeny refuses the object.
	SeverityDeny = "Deny"
	// SeverityWarn accepts it with a warning.
	SeverityWarn = "Warn"
)

// Reasons are the reasons of validations. For schema rules, API servers know fewer and report the
// others as FieldValueInvalid.
var Reasons = []string{"FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate", "FieldValueNotSupported", "FieldValueTooMany"}

// Where a validation is enforced.
const (
	// EnforceSchema marks rules for the object's schema: they read self and oldSelf only.
	EnforceSchema = "Schema"
	// EnforceAdmission marks rules evaluated by the host at admission.
	EnforceAdmission = "Admission"
)

// Pipeline names which rule sets run at each point, at which versions and in which order.
type Pipeline struct {
	Name        source.Scalar
	Version     source.Scalar
	Description string
	Extends     source.Scalar // another one, as for Library.Pipeline; zero = none
	Params      []Param       // shared by all rule sets that run
	Definitions []Definition  // expressions that all rule sets that run may call
	Points      []PipelinePoint
	Set         []Assignment // params of rule sets, keyed as in overlays; flags do not change them
	Insert      []Insertion  // where overlays do well to insert

	inherited map[string]*Pipeline // declarers of what is not its own, by kind and name
}

// ID is name@version.
func (p *Pipeline) ID() string { return p.Name.Value + "@" + p.Version.Value }

// Subject names the pipeline in problems.
func (p *Pipeline) Subject() string { return KindPipeline + " " + p.ID() }

// Insertion is a place at which overlays insert without leaving aside what later rules hold. After the last one of a point lint reports
// what they insert.
type Insertion struct {
	Before source.Scalar // a rule set or an entry of one, as in overlays
	To     source.Scalar // what for, after "to"
}

// PipelinePoint is the ordered list of rule sets (name@version) at one point.
type PipelinePoint struct {
	Point    source.Scalar
	RuleSets []source.Scalar
}

// APIVersion is the group and version that every rule document names in `apiVersion`.
const APIVersion = "rules.celvpa.dev/v1alpha1"

// KindRuleSet is the kind of one named, versioned unit of policy.
const KindRuleSet = "RuleSet"

// KindPipeline is the kind that orders rule sets at each point.
const KindPipeline = "Pipeline"

// KindOverlay is the kind of an operator's changes to pipelines.
const KindOverlay = "RuleOverlay"

const (
	// KindRuleTest is the kind of a test table for rules.
	KindRuleTest = "RuleTest"
)

// ParamKeyOf is the key by which overlays and hosts set a parameter of a rule set.
func ParamKeyOf(set *RuleSet, p *Param) string { return set.Name.Value + "." + p.Name.Value }

// Entries are the names of a set's stages, decisions or validations.
func (s *RuleSet) Entries() []string {
	var out []string
	for _, x := range s.Stages {
		out = append(out, x.Name.Value)
	}
	for _, x := range s.Decisions {
		out = append(out, x.Name.Value)
	}
	for _, x := range s.Validations {
		out = append(out, x.Name.Value)
	}
	return out
}

// Places is At, or an empty scalar for the whole object.
func (v *Validation) Places() []source.Scalar {
	if len(v.At) == 0 {
		return []source.Scalar{{}}
	}
	return v.At
}

// EnforcedAt reports whether a validation is enforced somewhere: EnforceSchema or EnforceAdmission.
func (v *Validation) EnforcedAt(where string) bool {
	if len(v.Enforce) == 0 {
		return where == EnforceAdmission
	}
	return slices.ContainsFunc(v.Enforce, func(e source.Scalar) bool { return e.Value == where })
}
