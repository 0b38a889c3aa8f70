// Package vpareview judges VerticalPodAutoscalers: which are valid, what to warn about and which defaults they get. The
// webhook and `celvpa validate` give the same answers because both ask here. It is a pure function of its input.
package vpareview

import (
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json" // whole numbers stay integers, as rules expect

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Request is one object to be judged.
type Request struct {
	Object    []byte // JSON
	OldObject []byte // JSON of what it replaces; nil when it is new
	Namespace string // where it goes when it does not say so itself
	Beside    Beside
}

// Beside are other objects of the same namespace that matter for a VPA: those about the same target are picked out of
// them. The VPA itself may be among them.
type Beside struct {
	VPAs []vpav1.VerticalPodAutoscaler
	HPAs []autoscalingv2.HorizontalPodAutoscaler
}

// Cause is one reason why an object is refused, or one warning.
type Cause struct {
	Rule    string           `json:"rule"`            // set/validation
	Field   string           `json:"field,omitempty"` // e.g. spec.updatePolicy.updateMode
	Reason  metav1.CauseType `json:"reason"`          // FieldValueInvalid and its siblings
	Message string           `json:"message"`
}

// String is the cause in one line.
func (c Cause) String() string {
	text := fmt.Sprintf("%s (rule %s)", c.Message, c.Rule)
	if c.Field != "" {
		text = c.Field + ": " + text
	}
	return text
}

// SchemaRule stands for the schema of the CRD where a cause names a rule.
const SchemaRule = "schema"

// Answer is what became of a request.
type Answer struct {
	Causes   []Cause // why the object is refused; none = it is allowed
	Warnings []Cause
	Patch    []jsonpatch.Operation // the defaults of an object that is allowed
	Failed   []*engine.RuleError   // rules of vpa.default that could not run; the object is as without them
}

// Allowed reports whether the object is accepted.
func (a Answer) Allowed() bool { return len(a.Causes) == 0 }

// Review judges an object by a plan.
func Review(plan *engine.Plan, req Request) Answer {
	object, v, cause := read(req.Object, "the object")
	if cause != nil {
		return Answer{Causes: cause}
	}
	var old map[string]any
	if len(req.OldObject) > 0 {
		if err := json.Unmarshal(req.OldObject, &old); err != nil {
			return Answer{Causes: unreadable("the old object", err)}
		}
	}
	if v.Namespace == "" {
		v.Namespace = req.Namespace
	}
	var out Answer
	judged := engine.Judged{Object: object, Old: old, Facts: facts.ValidateFacts(v, req.Beside.VPAs, req.Beside.HPAs)}
	for _, x := range plan.Validate(facts.VPAValidate, judged, nil) {
		cause := Cause{Rule: x.Rule, Field: x.Path, Reason: metav1.CauseType(x.Reason), Message: x.Message}
		if x.Warning {
			out.Warnings = append(out.Warnings, cause)
			continue
		}
		out.Causes = append(out.Causes, cause)
	}
	if out.Allowed() {
		var changes []facts.Change
		changes, out.Failed = facts.Defaults(plan, object, nil)
		out.Patch = patch(object, changes)
	}
	return out
}

// read decodes an object twice: as it is written, for rules, and typed, as the controllers have to be able to.
func read(data []byte, what string) (map[string]any, *vpav1.VerticalPodAutoscaler, []Cause) {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, nil, unreadable(what, err)
	}
	if object == nil {
		return nil, nil, unreadable(what, fmt.Errorf("it is empty"))
	}
	var v vpav1.VerticalPodAutoscaler
	err := json.Unmarshal(data, &v)
	if err == nil {
		return object, &v, nil
	}
	causes := unreadable(what, err)
	// The decoder does not say where it failed; the schema does, as a rule.
	if objects, schemaErr := policy.VPASchema(); schemaErr == nil {
		faults := objects.Check(object, nil)
		if len(faults) > 0 {
			causes = nil
		}
		for _, f := range faults {
			causes = append(causes, Cause{Rule: SchemaRule, Field: f.Field, Reason: f.Reason, Message: f.Message})
		}
	}
	return nil, nil, causes
}

func unreadable(what string, err error) []Cause {
	return []Cause{{Rule: SchemaRule, Reason: metav1.CauseTypeFieldValueInvalid, Message: fmt.Sprintf("%s cannot be read: %v", what, err)}}
}
