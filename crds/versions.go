package crds

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// addUnserved keeps v1beta2, unserved as in upstream's CRDs (UPSTREAM.md §1.1): an API server that
// once stored objects in it refuses a CRD without it. Its schema must only preserve fields.
func addUnserved(crd *apiextensionsv1.CustomResourceDefinition, deprecated bool) {
	v1 := crd.Spec.Versions[0]
	old := apiextensionsv1.CustomResourceDefinitionVersion{
		Name:         "v1beta2",
		Deprecated:   deprecated,
		Subresources: v1.Subresources,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type:                   "object",
			Description:            "v1beta2 is no longer served: use v1, which has the same fields.",
			XPreserveUnknownFields: ptr.To(true),
		}},
	}
	if deprecated {
		old.DeprecationWarning = ptr.To("autoscaling.k8s.io/v1beta2 is deprecated and not served; use v1")
	}
	crd.Spec.Versions = append(crd.Spec.Versions, old)
}
