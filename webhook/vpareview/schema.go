package vpareview

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/schema"
	"github.com/celvpa/celvpa/engine"
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

// dropRepeated drops what rules say of a larger part of the object only because of a value that the schema refuses: the two are one
// fault, and without the value the rules do not say it.
func (a *Answer) dropRepeated(plan, crd *engine.Plan, judged engine.Judged, faults []schema.Fault) {
	refused := map[string]bool{}
	judged.Object = runtime.DeepCopyJSON(judged.Object)
	for _, f := range faults {
		if !f.Unknown && remove(judged.Object, strings.Split(f.Field, ".")) {
			refused[f.Field] = true
		}
	}
	if len(refused) == 0 {
		return
	}
	var rest Answer
	judged.Schema = false
	rest.add(plan.Validate(facts.VPAValidate, judged, nil))
	if crd != nil {
		judged.Schema = true
		rest.add(crd.Validate(facts.VPAValidate, judged, nil))
	}
	a.Causes = slices.DeleteFunc(a.Causes, func(c Cause) bool {
		stays := func(other Cause) bool { return other.Rule == c.Rule && other.Field == c.Field }
		return !c.Failed && !refused[dotted(c.Field)] && !slices.ContainsFunc(rest.Causes, stays)
	})
}

// remove takes the field at a path such as spec.list[0].field out of an object; ok is false if there is none.
func remove(object map[string]any, path []string) (ok bool) {
	for _, name := range path[:len(path)-1] {
		name, index, listed := strings.Cut(strings.TrimSuffix(name, "]"), "[")
		value := object[name]
		if listed {
			list, _ := value.([]any)
			i, err := strconv.Atoi(index)
			if err != nil || i >= len(list) {
				return false
			}
			value = list[i]
		}
		if object, ok = value.(map[string]any); !ok {
			return false
		}
	}
	_, ok = object[path[len(path)-1]]
	delete(object, path[len(path)-1])
	return ok
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
