package crds

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/crds/quantity"
)

// bound limits how large a part of a VerticalPodAutoscaler's spec can get. Upstream's CRD has no such limits; with them an
// API server can tell that validation rules stay within their budget. They are far from what real objects have. An
// object beyond them that was stored before can still be changed elsewhere.
type bound struct {
	path string
	most int64 // entries of a list or a map, characters of a text
	why  string
}

var bounds = []bound{
	{"spec.recommenders", 32, "an object has one recommender"},
	{"spec.recommenders[*].name", 253, "as long as names of objects get"},
	{"spec.updatePolicy.evictionRequirements", 32, "there are four different ones for CPU and memory"},
	{"spec.updatePolicy.evictionRequirements[*].resources", 32, "CPU and memory are compared"},
	{"spec.updatePolicy.evictionRequirements[*].resources[*]", 317, "as long as resource names get: 253, a slash and 63"},
	{"spec.resourcePolicy.containerPolicies", 100, "pods have a few containers; comparing the names of 100 policies takes an API server 0.3 s, of 500 many seconds"},
	{"spec.resourcePolicy.containerPolicies[*].containerName", 63, "as long as names of containers get"},
	{"spec.resourcePolicy.containerPolicies[*].controlledResources", 32, "CPU and memory are controlled"},
	{"spec.resourcePolicy.containerPolicies[*].controlledResources[*]", 317, "as long as resource names get"},
	{"spec.resourcePolicy.containerPolicies[*].minAllowed", 32, "CPU and memory are bounded"},
	{"spec.resourcePolicy.containerPolicies[*].maxAllowed", 32, "CPU and memory are bounded"},
	{"spec.resourcePolicy.containerPolicies[*].memoryAggregationInterval", 32, "longer than any duration needs"},
	{"spec.resourcePolicy.podPolicies.controlledResources", 32, "CPU and memory are controlled"},
	{"spec.resourcePolicy.podPolicies.controlledResources[*]", 317, "as long as resource names get"},
	{"spec.resourcePolicy.podPolicies.minAllowed", 32, "CPU and memory are bounded"},
	{"spec.resourcePolicy.podPolicies.maxAllowed", 32, "CPU and memory are bounded"},
}

func addBounds(crd *apiextensionsv1.CustomResourceDefinition) error {
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, b := range bounds {
		if err := Change(root, b.path, func(s *apiextensionsv1.JSONSchemaProps) error {
			switch s.Type {
			case "array":
				s.MaxItems = ptr.To(b.most)
			case "object":
				s.MaxProperties = ptr.To(b.most)
			case "string":
				s.MaxLength = ptr.To(b.most)
			default:
				return fmt.Errorf("a %q has no size", s.Type)
			}
			return nil
		}); err != nil {
			return fmt.Errorf("%s: %w", b.path, err)
		}
	}
	boundQuantities(root) // of the status, too: who may write it must not stop who reads it
	return nil
}

// openWeights lets a checkpoint's weights be any numbers, as upstream's CRD does: the type that is generated from the Go
// type is narrower than what is stored.
func openWeights(crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, histogram := range []string{"cpuHistogram", "memoryHistogram"} {
		err := Change(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, "status."+histogram+".bucketWeights", func(s *apiextensionsv1.JSONSchemaProps) error {
			s.AdditionalProperties = nil
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Change applies a function to what a path such as spec.containers[*] selects in a schema.
func Change(root *apiextensionsv1.JSONSchemaProps, path string, f func(*apiextensionsv1.JSONSchemaProps) error) error {
	if path == "" {
		return f(root)
	}
	return change(root, strings.Split(strings.ReplaceAll(path, "[*]", ".[*]"), "."), f)
}

func change(s *apiextensionsv1.JSONSchemaProps, path []string, f func(*apiextensionsv1.JSONSchemaProps) error) error {
	if len(path) == 0 {
		return f(s)
	}
	if path[0] == "[*]" {
		if s.Items == nil || s.Items.Schema == nil {
			return fmt.Errorf("[*] follows what is no list")
		}
		return change(s.Items.Schema, path[1:], f)
	}
	field, ok := s.Properties[path[0]]
	if !ok {
		return fmt.Errorf("there is no field %q", path[0])
	}
	if err := change(&field, path[1:], f); err != nil {
		return err
	}
	s.Properties[path[0]] = field
	return nil
}

// boundQuantities limits the text of every quantity below: nothing else is a number or a text.
func boundQuantities(s *apiextensionsv1.JSONSchemaProps) {
	if s.XIntOrString {
		s.MaxLength, s.Pattern = ptr.To[int64](quantity.MaxLength), quantity.Pattern
	}
	for name, field := range s.Properties {
		boundQuantities(&field)
		s.Properties[name] = field
	}
	if s.Items != nil && s.Items.Schema != nil {
		boundQuantities(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		boundQuantities(s.AdditionalProperties.Schema)
	}
}
