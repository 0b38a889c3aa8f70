// Package schema types objects for validation rules from the generated CRD. self has the type that
// an API server gives it, so a rule that compiles here also compiles there.
package schema

import (
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/engine/registry"
)

// Objects types one kind of custom resource. It implements engine.ObjectTypes.
type Objects struct {
	root      *structural.Structural
	shape     *shape
	validator validation.SchemaValidator

	object func() *apiservercel.DeclType // of the whole object, with the name that rules know

	mu     sync.Mutex
	places map[string]*place // by path
}

// New reads one version of a CRD.
func New(crd *apiextensionsv1.CustomResourceDefinition, version string) (*Objects, error) {
	for _, v := range crd.Spec.Versions {
		if v.Name != version {
			continue
		}
		root, props, err := Structural(v.Schema)
		if err != nil {
			return nil, fmt.Errorf("the schema of %s: %w", crd.Name, err)
		}
		if root.Type != "object" {
			return nil, fmt.Errorf("the schema of %s: its type is %q, it must be object", crd.Name, root.Type)
		}
		validator, _, err := validation.NewSchemaValidatorForVersion(props, LowestKubernetes)
		if err != nil {
			return nil, fmt.Errorf("the schema of %s: objects cannot be checked against it: %w", crd.Name, err)
		}
		return &Objects{root: root, shape: newShape(root), validator: validator, places: map[string]*place{}, object: sync.OnceValue(func() *apiservercel.DeclType {
			return model.SchemaDeclType(root, true).MaybeAssignTypeName(objectType)
		})}, nil
	}
	return nil, fmt.Errorf("CRD %s has no version %s", crd.Name, version)
}

// Structural converts a CRD version's schema to the API server's forms.
func Structural(v *apiextensionsv1.CustomResourceValidation) (*structural.Structural, *apiextensions.JSONSchemaProps, error) {
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, nil, fmt.Errorf("it cannot be converted: %w", err)
	}
	root, err := structural.NewStructural(&props)
	if err != nil {
		return nil, nil, fmt.Errorf("it is not structural: %w", err)
	}
	return root, &props, nil
}

// Root returns the schema of the whole object; do not change it.
func (o *Objects) Root() *structural.Structural { return o.root }

// FieldPath implements engine.ObjectTypes.
func (o *Objects) FieldPath(at, below string) (string, error) {
	s, _, err := o.schemaAt(at)
	if err != nil {
		return "", err
	}
	path, _, err := schemacel.ValidFieldPath(below, s)
	if err != nil {
		return "", fmt.Errorf("%q below %q: %w; write it like .field or .map['key']", below, at, err)
	}
	return path.String(), nil
}

// schemaAt walks the schema along a path such as spec.containers[*]. stable means that old and new
// values can be matched; list entries cannot.
func (o *Objects) schemaAt(at string) (s *structural.Structural, stable bool, err error) {
	s, stable = o.root, true
	for _, name := range segments(at) {
		if name == "[*]" {
			if s.Items == nil {
				return nil, false, fmt.Errorf("%q: [*] follows something that is not a list", at)
			}
			stable = stable && s.XListType != nil && *s.XListType == "map"
			s = s.Items
			continue
		}
		next, ok := s.Properties[name]
		if !ok {
			if strings.ContainsAny(name, "['\"") {
				return nil, false, fmt.Errorf("%q: the key of a map cannot stand here; end at the map, and name the key in fieldPath, like ['memory']", at)
			}
			return nil, false, fmt.Errorf("%q: there is no field %q", at, name)
		}
		s = &next
	}
	return s, stable, nil
}

// place is a path in the schema.
type place struct {
	at    string
	above *place // nil for the whole object
	name  string // below above; [*] for the entries of a list
	index int    // among the places of the Objects
}

// String is the path.
func (p *place) String() string { return p.at }

// Place implements registry.ObjectTypes.
func (o *Objects) Place(at string) (registry.ObjectPlace, error) {
	if _, _, err := o.schemaAt(at); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.placed("", nil, "")
	for _, name := range segments(at) {
		below := p.at + name
		if p.at != "" && name != "[*]" {
			below = p.at + "." + name
		}
		p = o.placed(below, p, name)
	}
	return p, nil
}

// placesKnown counts the places so far, among which are those of all plans.
func (o *Objects) placesKnown() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.places)
}

// placed returns the place at a path, a new one at first.
func (o *Objects) placed(at string, above *place, name string) *place {
	if o.places[at] == nil {
		o.places[at] = &place{at, above, name, len(o.places)}
	}
	return o.places[at]
}

// segments splits spec.containers[*] into spec, containers, [*].
func segments(at string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(at, "[*]", ".[*]"), func(r rune) bool { return r == '.' })
}

// Pods types what validations see of a pod. It is written by hand because no CRD has it.
func Pods() (*Objects, error) {
	text := apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: ptr.To[int64](253)}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	maps := func(of apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", MaxProperties: ptr.To[int64](64), AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &of}}
	}
	quantities := maps(apiextensionsv1.JSONSchemaProps{XIntOrString: true, MaxLength: ptr.To[int64](64)})
	resources := object(map[string]apiextensionsv1.JSONSchemaProps{"requests": quantities, "limits": quantities})
	containers := apiextensionsv1.JSONSchemaProps{
		Type: "array", MaxItems: ptr.To[int64](1000),
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: ptr.To(object(map[string]apiextensionsv1.JSONSchemaProps{"name": text, "resources": resources}))},
	}
	pod := object(map[string]apiextensionsv1.JSONSchemaProps{
		"metadata": object(map[string]apiextensionsv1.JSONSchemaProps{"name": text, "namespace": text, "labels": maps(text)}),
		"spec": object(map[string]apiextensionsv1.JSONSchemaProps{
			"resources": resources, "containers": containers, "initContainers": containers,
		}),
	})
	return New(&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &pod},
		}}},
	}, "v1")
}
