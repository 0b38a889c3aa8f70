package crds

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/crds/quantity"
)

// bound limits the size of a part of a VPA's spec, so API servers can prove that validation rules
// stay within budget. Upstream has no such limits; real objects are far below them. Stored objects
// beyond a bound can still be changed elsewhere.
type bound struct {
	path string
	most int64 // entries of a list or map, characters of a string
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
	boundQuantities(root) // includes the status: its writer must not be able to hang its readers
	return nil
}

// openWeights accepts any number as a checkpoint weight, like upstream's CRD.
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

// Change applies f to every schema node selected by a path such as spec.containers[*].
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
			return fmt.Errorf("[*] follows what is not a list")
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

// boundQuantities limits the length of every quantity below; only quantities are int-or-string.
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
