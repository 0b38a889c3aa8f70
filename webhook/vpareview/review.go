// Package vpareview decides about a VerticalPodAutoscaler: whether it is valid, what to warn about and which defaults it gets. It is
// a pure function, so the webhook and `celvpa validate` give the same answers.
package vpareview

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json" // whole numbers stay integers, as rules expect

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/schema"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

// Request is one object to be judged, by one plan or by several.
type Request struct {
	// VPA is the object as controllers decode it; with its metadata only if they cannot.
	VPA    *vpav1.VerticalPodAutoscaler
	Beside facts.Beside
	// CRD is the plan whose schema rules are checked in place of an API server; nil = the API server checks them.
	CRD *engine.Plan

	object, old map[string]any // of JSON; old is nil when the object is new
	unfit       error          // why controllers cannot decode the object
	stillUnfit  bool           // nor could they decode the old object, for the same reason
	refused     []Cause        // why no rule can judge it
}

// Cause is one reason why an object is refused, or one warning.
type Cause struct {
	Rule    string           `json:"rule"`   // set/validation
	Field   string           `json:"field"`  // e.g. spec.updatePolicy.updateMode
	Reason  metav1.CauseType `json:"reason"` // FieldValueInvalid and its siblings
	Message string           `json:"message"`

	Failed bool `json:"-"` // the rule failed
	Gated  bool `json:"-"` // the rule reads a feature gate: with other gates it might accept the object

	self string // path of the value that the rule checks, where that is more than the field
}

// String returns the cause in one line.
func (c Cause) String() string { return fmt.Sprintf("%s (rule %s)", c.FieldAndMessage(), c.Rule) }

// FieldAndMessage is the cause without its rule; the field is left out where the whole object is at fault.
func (c Cause) FieldAndMessage() string {
	if c.Field == "" {
		return c.Message
	}
	return c.Field + ": " + c.Message
}

// Answer is the decision about an object.
type Answer struct {
	Causes   []Cause // why the object is refused; none = it is allowed
	Warnings []Cause
	Patch    []jsonpatch.Operation // defaults, of an allowed object
	Failed   []*engine.RuleError   // rules of vpa.default that failed, and set nothing
}

// Allowed reports whether the object is accepted.
func (a Answer) Allowed() bool { return len(a.Causes) == 0 }

// Read reads an object and the one it replaces, which is nil when it is new. The namespace is for an object that does not name one.
func Read(object, old []byte, namespace string) Request {
	out := Request{}
	if out.refused = out.decode(object, old); len(out.refused) == 0 {
		if out.VPA, out.unfit = vpav1.Decode(object); out.unfit != nil && out.old != nil {
			_, before := vpav1.Decode(old)
			_, err := metadata(object) // Decode looks at the spec first
			out.stillUnfit = err == nil && before != nil && before.Error() == out.unfit.Error()
		}
	}
	if out.VPA == nil {
		out.VPA = &vpav1.VerticalPodAutoscaler{}
		out.VPA.ObjectMeta, _ = metadata(object) // the schema says why it cannot be read
	}
	if out.VPA.Namespace == "" {
		out.VPA.Namespace = namespace
	}
	return out
}

// decode returns why no rule can judge what it read.
func (r *Request) decode(object, old []byte) []Cause {
	var err error
	if r.object, err = decode(object); err != nil {
		return unreadable("the object", err)
	}
	if len(old) > 0 {
		if r.old, err = decode(old); err != nil {
			return unreadable("the old object", err)
		}
	}
	return tooLarge(r.object, r.old)
}

// sameSpec reports whether the object replaces one with the same spec, as when its labels change or a finalizer is removed.
func (r *Request) sameSpec() bool {
	return r.object != nil && r.old != nil && reflect.DeepEqual(r.object["spec"], r.old["spec"])
}

// Review judges an object by a plan. What was stored before celvpa refused it stays editable.
func Review(plan *engine.Plan, req Request) Answer {
	switch {
	case len(req.refused) > 0 && req.sameSpec():
		return Answer{Warnings: req.refused}
	case len(req.refused) > 0:
		return Answer{Causes: req.refused}
	}
	// An object that the controllers cannot decode is refused, but the rules still list what else is wrong with it.
	out := Answer{}
	judged := engine.Judged{Object: req.object, Old: req.old, Facts: facts.ValidateFacts(req.VPA, req.Beside, facts.PolicyRulesOf(plan))}
	out.add(plan.Validate(facts.VPAValidate, judged, nil))
	if req.CRD != nil {
		judged.Schema = true
		out.add(req.CRD.Validate(facts.VPAValidate, judged, nil))
	}
	// A refusal also lists what the API server would refuse afterwards.
	if req.unfit != nil || !out.Allowed() || slices.ContainsFunc(out.Warnings, failed) {
		faults := schemaFaults(req.object, req.old)
		out.dropRepeated(plan, req.CRD, judged, faults)
		out.AddSchema(faults)
		switch {
		case req.unfit == nil || len(faults) > 0:
		case req.stillUnfit:
			out.Warnings = addOnce(out.Warnings, unreadable("the object", req.unfit))
		default:
			out.Causes = addOnce(out.Causes, unreadable("the object", req.unfit))
		}
	}
	if out.Allowed() && req.unfit == nil {
		out.setDefaults(plan, judged)
	}
	return out
}

// add collects violations, each rule and field once. A refusal replaces a warning.
func (a *Answer) add(violations []engine.Violation) {
	type about struct{ rule, field string }
	refused, warned := map[about]bool{}, map[about]bool{}
	for _, c := range a.Causes {
		refused[about{c.Rule, c.Field}] = true
	}
	for _, c := range a.Warnings {
		warned[about{c.Rule, c.Field}] = true
	}
	for _, x := range violations {
		cause, it := Cause{Rule: x.Rule, Field: x.Path, Reason: metav1.CauseType(x.Reason), Message: x.Message, Failed: x.Failed, Gated: x.Gated, self: x.Self}, about{x.Rule, x.Path}
		switch {
		case refused[it] || x.Warning && warned[it]:
		case x.Warning:
			a.Warnings = append(a.Warnings, cause)
		default:
			a.Causes = append(a.Causes, cause)
		}
	}
}

// addOnce adds causes, except about fields that a cause is about already.
func addOnce(to, more []Cause) []Cause {
	for _, m := range more {
		if !slices.ContainsFunc(to, func(c Cause) bool { return c.Field != "" && strings.HasPrefix(m.Field, c.Field) }) {
			to = append(to, m)
		}
	}
	return to
}

// setDefaults patches an allowed object. Defaults that would make it invalid are a mistake in the rules, not in the object: it stays
// unchanged, with a warning.
func (a *Answer) setDefaults(plan *engine.Plan, judged engine.Judged) {
	defaulted, failed := facts.Defaults(plan, judged.Object, nil)
	a.Failed = failed
	operations := difference(judged.Object, defaulted)
	if len(operations) == 0 {
		return
	}
	written := judged.Object
	judged.Object, judged.Schema = defaulted, false
	for _, x := range plan.Validate(facts.VPAValidate, judged, nil) {
		if !x.Warning {
			a.leaveOutDefaults(x.Path, x.Message, x.Rule)
			return
		}
	}
	if fault := newFault(defaulted, written); fault != nil {
		a.leaveOutDefaults(fault.Field, fault.Message, SchemaRule)
		return
	}
	a.Patch = operations
}

func (a *Answer) leaveOutDefaults(field, message, rule string) {
	a.Warnings = append(a.Warnings, Cause{Rule: facts.VPADefault, Reason: metav1.CauseTypeFieldValueInvalid,
		Message: fmt.Sprintf("the defaults are left out, because with them the object would not be valid: %s: %s (rule %s)", field, message, rule)})
}

// newFault returns a schema fault of an object that the written object does not have; nil = none.
func newFault(object, written map[string]any) *schema.Fault {
	faults := schemaFaults(object, nil)
	if len(faults) == 0 {
		return nil
	}
	known := schemaFaults(written, nil)
	for i := range faults {
		if !slices.Contains(known, faults[i]) {
			return &faults[i]
		}
	}
	return nil
}

// difference lists the operations that make one object of another, by path; nil for a nil object.
func difference(from, to map[string]any) []jsonpatch.Operation {
	if to == nil {
		return nil
	}
	before, failed := json.Marshal(from)
	after, err := json.Marshal(to)
	if err = errors.Join(failed, err); err != nil {
		return nil // objects that were read can be written
	}
	operations, err := jsonpatch.CreatePatch(before, after)
	if err != nil {
		return nil
	}
	// Those on entries of one list keep their order.
	parent := func(o jsonpatch.Operation) string {
		i := strings.LastIndexByte(o.Path, '/') + 1
		if _, err := strconv.Atoi(o.Path[i:]); err == nil {
			return o.Path[:i]
		}
		return o.Path
	}
	slices.SortStableFunc(operations, func(a, b jsonpatch.Operation) int { return strings.Compare(parent(a), parent(b)) })
	return operations
}

// metadata reads the metadata of an object. It is empty with an error.
func metadata(object []byte) (metav1.ObjectMeta, error) {
	var out metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &out); err != nil {
		return metav1.ObjectMeta{}, err
	}
	return out.ObjectMeta, nil
}

func decode(data []byte) (map[string]any, error) {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	if object == nil {
		return nil, errors.New("it is empty")
	}
	return object, nil
}

func unreadable(what string, err error) []Cause {
	var misfit *vpav1.Misfit
	if errors.As(err, &misfit) {
		return []Cause{{Rule: SchemaRule, Field: misfit.Field, Reason: metav1.CauseTypeFieldValueInvalid, Message: fmt.Sprintf("it is %s, which cannot be read: %v", misfit.Value, misfit.Err), Failed: true}}
	}
	return []Cause{{Rule: SchemaRule, Reason: metav1.CauseTypeFieldValueInvalid, Message: fmt.Sprintf("%s cannot be read: %v", what, err), Failed: true}}
}

// PinRule names the check that a VPA only pins a loaded pipeline. It is no rule in a file, because it depends on which files there
// are.
const PinRule = "pipeline"

// UnknownPin refuses a VPA that pins a pipeline which is not loaded, where err is the error of policy.For. A VPA that had the same
// pin before stays editable.
func UnknownPin(err error, annotations map[string]string, old []byte) []Cause {
	before, _ := metadata(old) // there may be none
	if err == nil || annotations[policy.AnnotationPipeline] == before.Annotations[policy.AnnotationPipeline] {
		return nil
	}
	return []Cause{{
		Rule: PinRule, Reason: metav1.CauseTypeFieldValueNotSupported, Field: "metadata.annotations[" + policy.AnnotationPipeline + "]", Message: err.Error(),
	}}
}

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
