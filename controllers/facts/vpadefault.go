package facts

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

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
		"Quantities outside of minAllowed and maxAllowed are text, as written. [api.md](api.md) says what the fields mean.",
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

// Defaults runs vpa.default on a JSON object and returns a copy with what the rules set; nil if they set nothing.
func Defaults(plan *engine.Plan, object map[string]any, trace *engine.Trace) (map[string]any, []*engine.RuleError) {
	object = runtime.DeepCopyJSON(object)
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return nil, nil // the schema refuses it
	}
	facts := vpaDefault.NewFacts()
	root := defaultSpec.record(spec)
	facts.Set("spec", root)
	resourcePolicy, isPolicy := spec["resourcePolicy"].(map[string]any)
	list, isList := resourcePolicy["containerPolicies"].([]any)
	policies := make([]boundPolicy, 0, len(list))
	hasWildcard := false
	for i := range list {
		policy, ok := list[i].(map[string]any)
		if !ok {
			continue // the schema refuses it
		}
		name, _ := policy["containerName"].(string)
		hasWildcard = hasWildcard || name == vpav1.DefaultContainerResourcePolicy
		item := facts.AddItem("containerPolicy", name).Set("container", lang.Text(name)).Set("policy", defaultPolicy.record(policy))
		policies = append(policies, boundPolicy{item, policy})
	}
	wildcard := boundPolicy{raw: map[string]any{"containerName": vpav1.DefaultContainerResourcePolicy}}
	if !hasWildcard && (isPolicy || spec["resourcePolicy"] == nil) && (isList || resourcePolicy["containerPolicies"] == nil) {
		wildcard.item = facts.AddItem("wildcardPolicy", vpav1.DefaultContainerResourcePolicy).Set("policy", defaultPolicy.record(wildcard.raw))
	}
	failed := plan.RunStages(VPADefault, facts, trace)
	changed := facts.Written && defaultSpec.apply(spec, defaultSpec.record(spec), root)
	for i := range policies {
		changed = policies[i].apply() || changed
	}
	if wildcard.item != nil && wildcard.apply() {
		changed = true
		holder, _ := spec["resourcePolicy"].(map[string]any) // rules may have made it
		if holder == nil {
			holder = map[string]any{}
			spec["resourcePolicy"] = holder
		}
		holder["containerPolicies"] = append(list, wildcard.raw)
	}
	if !changed {
		return nil, failed
	}
	return object, failed
}

// boundPolicy is a container policy and its item.
type boundPolicy struct {
	item *registry.Item
	raw  map[string]any
}

// apply writes what rules set into the raw policy. It reports whether that changes it.
func (b *boundPolicy) apply() bool {
	return b.item.Written && defaultPolicy.apply(b.raw, defaultPolicy.record(b.raw), b.item.Record("policy"))
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

// part is a part of an object, typed by the CRD's schema so that rules can read and set all of it.
type part struct {
	kind   partKind
	typ    lang.Type
	schema *lang.Schema // for kind object
	fields []field      // for kind object, by name
	items  *part        // for kind list
}

type field struct {
	name string
	*part
}

type partKind uint8

const (
	textPart partKind = iota
	quantityPart
	wholePart
	numberPart
	truthPart
	resourcesPart
	objectPart
	listPart
)

// parts builds parts. Those with the same fields share a type, so rules can assign one to another.
type parts struct {
	of      map[string]*part // by their fields
	without string           // name of a part to omit
}

func (p *parts) object(name string, s *structural.Structural) *part {
	out := &part{kind: objectPart}
	var fields []lang.Field
	shape := strings.Builder{}
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		below, called := s.Properties[key], name+strings.ToUpper(key[:1])+key[1:]
		one := p.part(called, &below)
		if one == nil || called == p.without {
			continue
		}
		out.fields = append(out.fields, field{key, one})
		fields = append(fields, lang.Field{Name: key, Type: one.typ})
		fmt.Fprintf(&shape, "%s %d %s;", key, one.kind, one.typ)
	}
	if same := p.of[shape.String()]; same != nil {
		return same
	}
	p.of[shape.String()] = out
	out.schema = lang.NewSchema(name, fields...)
	out.typ = lang.RecordOf(out.schema)
	return out
}

// part returns nil for what rules cannot see.
func (p *parts) part(name string, s *structural.Structural) *part {
	switch {
	case s.XIntOrString:
		return &part{kind: quantityPart, typ: lang.String}
	case s.AdditionalProperties != nil:
		if of := s.AdditionalProperties.Structural; of != nil && of.XIntOrString {
			return &part{kind: resourcesPart, typ: lang.RecordOf(resourcesSchema.Schema)}
		}
		return nil
	case len(s.Properties) > 0:
		return p.object(name, s)
	case s.Items != nil:
		if items := p.part(name, s.Items); items != nil {
			return &part{kind: listPart, typ: lang.ListOf(items.typ), items: items}
		}
		return nil
	}
	switch s.Type {
	case "string":
		return &part{kind: textPart, typ: lang.String}
	case "integer":
		return &part{kind: wholePart, typ: lang.Int}
	case "number":
		return &part{kind: numberPart, typ: lang.Double}
	case "boolean":
		return &part{kind: truthPart, typ: lang.Bool}
	}
	return nil
}

// bind converts a JSON value for rules; nil if it does not match the schema's type.
func (p *part) bind(v any) ref.Val {
	switch v := v.(type) {
	case string:
		if p.kind == textPart || p.kind == quantityPart {
			return types.String(v)
		}
	case bool:
		if p.kind == truthPart {
			return types.Bool(v)
		}
	case int64:
		switch p.kind {
		case wholePart:
			return types.Int(v)
		case numberPart:
			return types.Double(v)
		case quantityPart:
			return types.String(strconv.FormatInt(v, 10))
		}
	case float64:
		if p.kind == numberPart {
			return types.Double(v)
		}
	case map[string]any:
		switch p.kind {
		case resourcesPart:
			return resourcesOf(v)
		case objectPart:
			return p.record(v)
		}
	case []any:
		if p.kind == listPart {
			return p.list(v)
		}
	}
	return nil
}

func (p *part) record(of map[string]any) *lang.Record {
	r := p.schema.New()
	for _, f := range p.fields {
		if v := f.bind(of[f.name]); v != nil {
			r.SetOpaque(f.name, v)
		}
	}
	return r
}

// list drops entries of the wrong type.
func (p *part) list(of []any) ref.Val {
	vals := []ref.Val{}
	for _, value := range of {
		if v := p.items.bind(value); v != nil {
			vals = append(vals, v)
		}
	}
	return types.NewRefValList(types.DefaultTypeAdapter, vals)
}

// plain converts a value from rules to JSON.
func (p *part) plain(v ref.Val) any {
	switch v := v.(type) {
	case *lang.Record:
		out := map[string]any{}
		for _, f := range v.Schema().Fields() {
			if of := v.Field(f.Name); of != nil {
				out[f.Name] = p.field(f.Name).plain(of)
			}
		}
		return out
	case traits.Lister:
		out := []any{}
		for i := v.Iterator(); i.HasNext() == types.True; {
			out = append(out, p.items.plain(i.Next()))
		}
		return out
	case types.Int:
		switch p {
		case cpuPart:
			q := CPUQuantity(int64(v))
			return q.String()
		case memoryPart:
			q := MemoryQuantity(int64(v))
			return q.String()
		}
		return int64(v)
	}
	return v.Value()
}

var cpuPart, memoryPart = &part{kind: quantityPart}, &part{kind: quantityPart}

func (p *part) field(name string) *part {
	if p.kind == resourcesPart {
		if name == "cpu" {
			return cpuPart
		}
		return memoryPart
	}
	i, _ := slices.BinarySearchFunc(p.fields, name, func(f field, name string) int { return strings.Compare(f.name, name) })
	return p.fields[i].part
}

// apply writes the differences between two records into the object's own part, and reports whether there are any. Values of the
// wrong type stay: the schema refuses them.
func (p *part) apply(raw map[string]any, before, after *lang.Record) (changed bool) {
	for i, f := range after.Schema().Fields() {
		if before.Cells()[i].Equal(&after.Cells()[i]) {
			continue
		}
		part, was, is := p.field(f.Name), before.At(i), after.At(i)
		old, wasRecord := was.(*lang.Record)
		now, isRecord := is.(*lang.Record)
		switch {
		case wasRecord && isRecord:
			inner, _ := raw[f.Name].(map[string]any)
			changed = part.apply(inner, old, now) || changed
		case is == nil:
			delete(raw, f.Name)
			changed = true
		case was == nil && raw[f.Name] != nil:
		default:
			raw[f.Name] = part.plain(is)
			changed = true
		}
	}
	return changed
}
