// Package crds embeds the CustomResourceDefinitions generated from crds/v1 and crds/rules, and adds
// bounds and versions that Go types cannot express. Package emit adds the validation rules.
package crds

import (
	"embed"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

//go:embed bases/*.yaml
var bases embed.FS

// Names of the CRDs.
const (
	VPA        = "verticalpodautoscalers.autoscaling.k8s.io"
	Checkpoint = "verticalpodautoscalercheckpoints.autoscaling.k8s.io"
	Overlay    = "ruleoverlays.rules.celvpa.dev"
)

// Definition returns a CRD by name, without validation rules.
func Definition(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := Definitions()
	if err != nil {
		return nil, err
	}
	for _, crd := range all {
		if crd.Name == name {
			return crd, nil
		}
	}
	return nil, fmt.Errorf("there is no CRD %s", name)
}

// Definitions returns all CRDs, by name, without validation rules. The caller may change them.
func Definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := fs.ReadDir(bases, "bases")
	if err != nil {
		return nil, fmt.Errorf("reading the embedded CRDs: %w", err)
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, e := range entries {
		data, err := bases.ReadFile("bases/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading the embedded CRD %s: %w", e.Name(), err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return nil, fmt.Errorf("reading the embedded CRD %s: %w", e.Name(), err)
		}
		switch crd.Name {
		case VPA:
			err = addBounds(crd)
			addUnserved(crd, true)
		case Checkpoint:
			err = openWeights(crd)
			addUnserved(crd, false)
		}
		if err != nil {
			return nil, fmt.Errorf("bounding CRD %s: %w", crd.Name, err)
		}
		out = append(out, crd)
	}
	return out, nil
}

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

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:allowDangerousTypes=true paths=./v1 output:crd:dir=bases
//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:allowDangerousTypes=true paths=./rules/v1alpha1 output:crd:dir=bases
