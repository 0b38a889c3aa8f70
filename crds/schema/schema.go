// Package schema types VerticalPodAutoscaler objects for validation rules, from the generated CRD: self has the
// type that the API server would give it, so a rule that compiles here also compiles there.
package schema

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/engine"
)

// LowestKubernetes is the oldest API server whose rule language validations may use.
var LowestKubernetes = version.MajorMinor(1, 33)

// Objects is the engine's view of one kind of custom resource.
type Objects struct {
	root *structural.Structural
}

// New reads the schema of a version out of a CRD manifest.
func New(manifest []byte, crdVersion string) (*Objects, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(manifest, &crd); err != nil {
		return nil, fmt.Errorf("reading the CRD: %w", err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Name != crdVersion {
			continue
		}
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &props, nil); err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", crd.Name, err)
		}
		root, err := structural.NewStructural(&props)
		if err != nil {
			return nil, fmt.Errorf("the schema of %s is not structural: %w", crd.Name, err)
		}
		return &Objects{root: root}, nil
	}
	return nil, fmt.Errorf("CRD %s has no version %s", crd.Name, crdVersion)
}

// Env implements engine.ObjectTypes: self is the value at the path, oldSelf an optional of the same type.
func (o *Objects) Env(at string) (*cel.Env, error) {
	s, err := o.schemaAt(at)
	if err != nil {
		return nil, err
	}
	declared := model.SchemaDeclType(s, at == "")
	if declared == nil {
		return nil, fmt.Errorf("what is at %q has no type that rules can use", at)
	}
	self := declared.MaybeAssignTypeName("selfType") // not "self": nested type names would hide fields
	env, err := environment.MustBaseEnvSet(LowestKubernetes).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("self", self.CelType()),
			cel.Variable("oldSelf", types.NewOptionalType(self.CelType())),
		},
		DeclTypes: []*apiservercel.DeclType{self},
	})
	if err != nil {
		return nil, fmt.Errorf("typing what is at %q: %w", at, err)
	}
	return env.NewExpressionsEnv(), nil
}

// Values implements engine.ObjectTypes.
func (o *Objects) Values(at string, object, old map[string]any) ([]engine.ObjectValue, error) {
	s, err := o.schemaAt(at)
	if err != nil {
		return nil, err
	}
	var previous any
	if old != nil {
		previous = old
	}
	var out []engine.ObjectValue
	for _, found := range walk(segments(at), "", object, previous) {
		value := engine.ObjectValue{Path: found.path, Self: schemacel.UnstructuredToVal(found.now, s), Old: types.OptionalNone}
		if found.before != nil {
			value.Old = types.OptionalOf(asVal(found.before, s))
		}
		out = append(out, value)
	}
	return out, nil
}

func asVal(v any, s *structural.Structural) ref.Val { return schemacel.UnstructuredToVal(v, s) }

// schemaAt walks the schema along a path such as spec.containers[*].
func (o *Objects) schemaAt(at string) (*structural.Structural, error) {
	s := o.root
	for _, name := range segments(at) {
		if name == "[*]" {
			if s.Items == nil {
				return nil, fmt.Errorf("%q: [*] follows something that is not a list", at)
			}
			s = s.Items
			continue
		}
		next, ok := s.Properties[name]
		if !ok {
			return nil, fmt.Errorf("%q: there is no field %q", at, name)
		}
		s = &next
	}
	return s, nil
}

// segments splits spec.containers[*] into spec, containers, [*].
func segments(at string) []string {
	if at == "" {
		return nil
	}
	return strings.FieldsFunc(strings.ReplaceAll(at, "[*]", ".[*]"), func(r rune) bool { return r == '.' })
}

type place struct {
	path        string
	now, before any
}

// walk finds every value at a path. List entries are matched with old ones by index.
func walk(path []string, at string, now, before any) []place {
	if len(path) == 0 {
		return []place{{path: at, now: now, before: before}}
	}
	if path[0] == "[*]" {
		list, _ := now.([]any)
		olds, _ := before.([]any)
		var out []place
		for i, item := range list {
			var old any
			if i < len(olds) {
				old = olds[i]
			}
			out = append(out, walk(path[1:], at+"["+strconv.Itoa(i)+"]", item, old)...)
		}
		return out
	}
	object, _ := now.(map[string]any)
	child, ok := object[path[0]]
	if !ok || child == nil {
		return nil
	}
	var old any
	if o, isMap := before.(map[string]any); isMap {
		old = o[path[0]]
	}
	if at != "" {
		at += "."
	}
	return walk(path[1:], at+path[0], child, old)
}
