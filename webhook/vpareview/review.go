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

// Answer is what became of a request.
type Answer struct {
	Causes   []Cause // why the object is refused; none = it is allowed
	Warnings []Cause
	Patch    []jsonpatch.Operation // the defaults of an object that is allowed
}

// Allowed reports whether the object is accepted.
func (a Answer) Allowed() bool { return len(a.Causes) == 0 }

// Review judges an object by a plan.
func Review(plan *engine.Plan, req Request) Answer {
	var object, old map[string]any
	if err := json.Unmarshal(req.Object, &object); err != nil {
		return Answer{Causes: []Cause{{Rule: "schema", Reason: metav1.CauseTypeFieldValueInvalid, Message: fmt.Sprintf("the object cannot be read: %v", err)}}}
	}
	if len(req.OldObject) > 0 {
		if err := json.Unmarshal(req.OldObject, &old); err != nil {
			return Answer{Causes: []Cause{{Rule: "schema", Reason: metav1.CauseTypeFieldValueInvalid, Message: fmt.Sprintf("the old object cannot be read: %v", err)}}}
		}
	}
	var out Answer
	for _, v := range plan.Validate(facts.VPAValidate, engine.Judged{Object: object, Old: old}, nil) {
		cause := Cause{Rule: v.Rule, Field: v.Path, Reason: metav1.CauseType(v.Reason), Message: v.Message}
		if v.Warning {
			out.Warnings = append(out.Warnings, cause)
			continue
		}
		out.Causes = append(out.Causes, cause)
	}
	return out
}
