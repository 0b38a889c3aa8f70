package facts

import (
	"strconv"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// vpaDefault gets its facts from describeDefaults.
var vpaDefault = &registry.Point{
	Name: VPADefault, Kind: registry.StagePoint,
	Doc: "Default values for a VerticalPodAutoscaler; run by the webhook on valid objects. What rules set and unset is changed in the object. " +
		"Quantities outside of minAllowed and maxAllowed are text, as written.",
}

// defaultSpec and defaultPolicy are the spec and a container policy as seen by vpa.default.
var defaultSpec, defaultPolicy *part

// describeDefaults derives the facts of vpa.default from the VPA schema.
func describeDefaults(vpa *structural.Structural) {
	// Container policies are a scope, because rules cannot write one entry of a list.
	made := &parts{of: map[string]*part{}, without: "SpecResourcePolicyContainerPolicies"}
	spec := vpa.Properties["spec"]
	defaultPolicy = made.object("ContainerPolicy", spec.Properties["resourcePolicy"].Properties["containerPolicies"].Items)
	defaultSpec = made.object("Spec", &spec)
	vpaDefault.Vars = []registry.Var{{Name: "spec", Type: defaultSpec.typ, Writable: true, Doc: "the spec of the object; its container policies are a scope"}}
	vpaDefault.Scopes = []registry.Scope{
		{
			Name: "containerPolicy", Doc: "each entry of spec.resourcePolicy.containerPolicies, in its order",
			Vars: []registry.Var{
				{Name: "container", Type: lang.String, Doc: "its containerName"},
				{Name: "policy", Type: defaultPolicy.typ, Writable: true},
			},
		},
		{
			Name: "wildcardPolicy", Doc: "the entry for container * in objects without one; it is added once rules set one of its fields",
			Vars: []registry.Var{{Name: "policy", Type: defaultPolicy.typ, Writable: true}},
		},
	}
}

// Change sets or removes one field of an object.
type Change struct {
	Path  []string // keys, list indexes, and - for a new list entry
	Value any      // JSON value; nil = remove the field
}

// NewEntry in a change's path appends to a list.
const NewEntry = "-"

// Defaults runs vpa.default on a JSON object and returns the changes, sorted by field name.
func Defaults(plan *engine.Plan, object map[string]any, trace *engine.Trace) ([]Change, []*engine.RuleError) {
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return nil, nil // the schema refuses it
	}
	facts := vpaDefault.NewFacts()
	root := defaultSpec.record(spec)
	facts.Set("spec", root)
	resourcePolicy, isPolicy := spec["resourcePolicy"].(map[string]any)
	policies, isList := resourcePolicy["containerPolicies"].([]any)
	bound := make([]boundPolicy, 0, len(policies)+1)
	wildcard := false
	for i := range policies {
		policy, ok := policies[i].(map[string]any)
		if !ok {
			continue // the schema refuses it
		}
		name, _ := policy["containerName"].(string)
		wildcard = wildcard || name == vpav1.DefaultContainerResourcePolicy
		item := facts.AddItem("containerPolicy", name).Set("container", lang.Text(name)).Set("policy", defaultPolicy.record(policy))
		bound = append(bound, boundPolicy{item, strconv.Itoa(i), policy})
	}
	fits := (isPolicy || spec["resourcePolicy"] == nil) && (isList || resourcePolicy["containerPolicies"] == nil)
	if !wildcard && fits {
		policy := map[string]any{"containerName": vpav1.DefaultContainerResourcePolicy}
		item := facts.AddItem("wildcardPolicy", vpav1.DefaultContainerResourcePolicy).Set("policy", defaultPolicy.record(policy))
		bound = append(bound, boundPolicy{item, NewEntry, policy})
	}
	failed := plan.RunStages(VPADefault, facts, trace)
	var out []Change
	if facts.Written {
		out = defaultSpec.changes([]string{"spec"}, spec, defaultSpec.record(spec), root)
	}
	for i := range bound {
		if bound[i].item.Written {
			out = append(out, bound[i].changes()...)
		}
	}
	return out, failed
}

// boundPolicy is a container policy and its item.
type boundPolicy struct {
	item  *registry.Item
	entry string // its index, or NewEntry
	raw   map[string]any
}

func (b *boundPolicy) changes() []Change {
	path := []string{"spec", "resourcePolicy", "containerPolicies", b.entry}
	before, after := defaultPolicy.record(b.raw), b.item.Record("policy")
	switch {
	case b.entry != NewEntry:
		return defaultPolicy.changes(path, b.raw, before, after)
	case after.Same(before):
		return nil
	}
	return []Change{{Path: path, Value: defaultPolicy.plain(after)}}
}

func resourcesOf(list map[string]any) *lang.Record {
	r := resourcesSchema.New()
	amount := func(name string, of func(resource.Quantity) int64) {
		text, ok := list[name].(string)
		if n, isNumber := list[name].(int64); isNumber {
			text, ok = strconv.FormatInt(n, 10), true
		}
		if q, err := quantity.Parse(text); ok && err == nil {
			r.SetInt(name, of(q))
		}
	}
	amount("cpu", MilliCPU)
	amount("memory", Bytes)
	return r
}
