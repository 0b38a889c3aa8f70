package vpareview

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/schema"
)

// SchemaRule is the rule of causes that come from the CRD's schema.
const SchemaRule = "schema"

// AddSchema adds the faults that the schema finds, except for fields that a rule already refuses, with a better message. Rules may
// fail on an object that does not fit the schema; their failures are dropped where the schema explains them. A warning stays
// where the schema finds nothing, since it does not compare with the old object.
func (a *Answer) AddSchema(faults []schema.Fault) {
	var causes []Cause
	var parts []string
	for _, f := range faults {
		causes = append(causes, Cause{Rule: SchemaRule, Field: f.Field, Reason: f.Reason, Message: f.Message})
		if !f.Unknown {
			parts = append(parts, partOf(f.Field))
		}
	}
	again := func(c Cause) bool { return failed(c) || c.Rule == SchemaRule }
	explained := func(c Cause) bool {
		of := partOf(cmp.Or(c.self, c.Field))
		return again(c) && slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, of) || strings.HasPrefix(of, part) })
	}
	if len(parts) > 0 {
		a.Causes, a.Warnings = slices.DeleteFunc(a.Causes, again), slices.DeleteFunc(a.Warnings, explained)
	}
	spoken := map[string]bool{}
	for _, c := range a.Causes {
		spoken[dotted(c.Field)] = true
	}
	causes = slices.DeleteFunc(causes, func(c Cause) bool { return spoken[dotted(c.Field)] })
	a.Causes = append(causes, a.Causes...)
}

// partOf is the part of the object that contains a field and that rules check as a whole: a list entry, or a field of spec.
func partOf(path string) string { return inPart.FindString(path) }

// inPart matches a path up to its last index, or up to the field of spec.
var inPart = regexp.MustCompile(`^(.*\[\d+\]|spec\.[^.\[]+|.*)`)

func failed(c Cause) bool { return c.Failed }

// inBrackets matches the keys of maps as rules write them, e.g. maxAllowed[cpu].
var inBrackets = regexp.MustCompile(`\[([^\]0-9][^\]]*)\]`)

// dotted is a path as schemas write it, e.g. maxAllowed.cpu.
func dotted(path string) string { return inBrackets.ReplaceAllString(path, ".$1") }

// schemaFaults are what the CRD's schema finds wrong with the spec. Metadata is the API server's: a name may be yet to be
// generated. So are unknown fields, which it has dropped already.
func schemaFaults(object, old map[string]any) []schema.Fault {
	objects, err := policy.VPASchema()
	if err != nil {
		return nil // without a schema there would be no rules
	}
	return slices.DeleteFunc(objects.Check(object, old), func(f schema.Fault) bool { return f.Unknown || !strings.HasPrefix(f.Field, "spec") })
}

// tooLarge are the parts of an object on which no rule is run: rules are only known to be cheap on what the schema lets be.
func tooLarge(object, old map[string]any) (out []Cause) {
	objects, err := policy.VPASchema()
	if err != nil {
		return nil // without a schema there would be no rules
	}
	for _, f := range objects.TooLarge(object, old) {
		out = append(out, Cause{Rule: SchemaRule, Field: f.Field, Reason: f.Reason, Message: f.Message})
	}
	return out
}
