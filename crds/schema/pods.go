package schema

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

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
