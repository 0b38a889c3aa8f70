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
		fields = append(fields, lang.Field{Name: key, Type: one.typ, Doc: strings.Join(strings.Fields(below.Description), " ")})
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
	for _, one := range of {
		if v := p.items.bind(one); v != nil {
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

// changes lists the differences between two records; raw is the object's own part. Values of the
// wrong type stay: the schema refuses them.
func (p *part) changes(path []string, raw map[string]any, before, after *lang.Record) []Change {
	var out []Change
	for i, f := range after.Schema().Fields() {
		if before.Cells()[i].Equal(&after.Cells()[i]) {
			continue
		}
		of, at := p.field(f.Name), append(slices.Clip(path), f.Name)
		was, is := before.At(i), after.At(i)
		old, wasRecord := was.(*lang.Record)
		now, isRecord := is.(*lang.Record)
		switch {
		case wasRecord && isRecord:
			below, _ := raw[f.Name].(map[string]any)
			out = append(out, of.changes(at, below, old, now)...)
		case is == nil:
			out = append(out, Change{Path: at})
		case was == nil && raw[f.Name] != nil:
		default:
			out = append(out, Change{Path: at, Value: of.plain(is)})
		}
	}
	return out
}
