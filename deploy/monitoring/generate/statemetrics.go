package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/crds"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

const stateMetricsHead = `# kube-state-metrics' --custom-resource-state-config-file for VerticalPodAutoscalers. Generated from crds/v1 by
# ` + "`make generate`" + `. Names and labels are those that kube-state-metrics had for them until 2.8; what is at pod level is
# new. It needs the permission to list and watch verticalpodautoscalers and customresourcedefinitions.
`

// stateMetric is one metric of the configuration.
type stateMetric struct {
	Name         string            `json:"name"`
	Help         string            `json:"help"`
	CommonLabels map[string]string `json:"commonLabels,omitempty"`
	Each         each              `json:"each"`
}

// each is the source of a metric's values: one of its three.
type each struct {
	Type     string  `json:"type"`
	Gauge    *source `json:"gauge,omitempty"`
	StateSet *source `json:"stateSet,omitempty"`
	Info     *source `json:"info,omitempty"`
}

// source says where values and labels are in an object.
type source struct {
	Path           []string            `json:"path,omitempty"`
	ValueFrom      []string            `json:"valueFrom,omitempty"`
	LabelsFromPath map[string][]string `json:"labelsFromPath,omitempty"`
	LabelName      string              `json:"labelName,omitempty"`
	List           []string            `json:"list,omitempty"`
}

// stateMetrics returns the configuration for the API as it is.
func stateMetrics() ([]byte, error) {
	crd, err := crds.Definition(crds.VPA)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == vpav1.GroupVersion.Version
	})
	if i < 0 {
		return nil, fmt.Errorf("the CRD has no version %s", vpav1.GroupVersion.Version)
	}
	schema := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
	metrics, err := fixedMetrics(schema)
	if err != nil {
		return nil, err
	}
	for _, part := range []string{"spec", "status"} {
		metrics = append(metrics, amounts(schema.Properties[part], place{path: []string{part}, name: part})...)
	}
	text, err := yaml.Marshal(map[string]any{"kind": "CustomResourceStateMetrics", "spec": map[string]any{"resources": []any{map[string]any{
		"groupVersionKind": map[string]any{"group": crd.Spec.Group, "version": vpav1.GroupVersion.Version, "kind": crd.Spec.Names.Kind},
		"metricNamePrefix": "kube",
		"errorLogV":        10, // most values are optional, and each missing one would be logged
		"labelsFromPath": map[string]any{
			"namespace":             []string{"metadata", "namespace"},
			"verticalpodautoscaler": []string{"metadata", "name"},
			"target_api_version":    []string{"spec", "targetRef", "apiVersion"},
			"target_kind":           []string{"spec", "targetRef", "kind"},
			"target_name":           []string{"spec", "targetRef", "name"},
		},
		"metrics": metrics,
	}}}})
	return append([]byte(stateMetricsHead), text...), err
}

const prefix = "verticalpodautoscaler_"

// fixedMetrics are all but amounts of resources.
func fixedMetrics(schema *apiextensionsv1.JSONSchemaProps) ([]stateMetric, error) {
	mode := schema.Properties["spec"].Properties["updatePolicy"].Properties["updateMode"]
	var modes []string
	for _, raw := range mode.Enum {
		var name string
		if err := json.Unmarshal(raw.Raw, &name); err != nil {
			return nil, fmt.Errorf("reading the update modes: %w", err)
		}
		modes = append(modes, name)
	}
	if len(modes) == 0 {
		return nil, errors.New("the CRD has no enumeration of update modes")
	}
	return []stateMetric{
		{Name: prefix + "created", Help: "When the VerticalPodAutoscaler was created, in seconds since 1970.",
			Each: each{Type: "Gauge", Gauge: &source{Path: []string{"metadata", "creationTimestamp"}}}},
		{Name: prefix + "labels", Help: "The labels of the VerticalPodAutoscaler, if it has any.",
			Each: each{Type: "Info", Info: &source{LabelsFromPath: map[string][]string{"label_*": {"metadata", "labels"}}}}},
		{Name: prefix + "spec_updatepolicy_updatemode", Help: "1 for the update mode that is set.",
			Each: each{Type: "StateSet", StateSet: &source{Path: []string{"spec", "updatePolicy", "updateMode"}, LabelName: "update_mode", List: modes}}},
		{Name: prefix + "status_condition", Help: "1 for a condition that is True, 0 for one that is False or Unknown.",
			Each: each{Type: "Gauge", Gauge: &source{Path: []string{"status", "conditions"}, ValueFrom: []string{"status"},
				LabelsFromPath: map[string][]string{"condition": {"type"}}}}},
	}, nil
}

// place is a place in an object: a path, below an item of the list of containers if there is one.
type place struct {
	list []string
	path []string
	name string
}

// words are the parts of names that are not just the field in lower case: kube-state-metrics spelled them so.
var words = map[string]string{"containerPolicies": "container_policies", "podPolicies": "pod_policies"}

func (p place) field(name string) place {
	word, special := words[name]
	if !special {
		word = strings.ToLower(name)
	}
	return place{list: p.list, path: append(slices.Clone(p.path), name), name: p.name + "_" + word}
}

// amounts finds the lists of resources below a place.
func amounts(schema apiextensionsv1.JSONSchemaProps, at place) []stateMetric {
	if extra := schema.AdditionalProperties; extra != nil && extra.Schema != nil && extra.Schema.XIntOrString {
		return []stateMetric{amount(at, "cpu", "core", schema.Description), amount(at, "memory", "byte", schema.Description)}
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		if _, named := schema.Items.Schema.Properties["containerName"]; !named {
			return nil
		}
		at.list, at.path = at.path, nil
		schema = *schema.Items.Schema
	}
	var out []stateMetric
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		out = append(out, amounts(schema.Properties[name], at.field(name))...)
	}
	return out
}

func amount(at place, resource, unit, description string) stateMetric {
	from := &source{Path: append(slices.Clone(at.path), resource)}
	if at.list != nil {
		from = &source{Path: at.list, ValueFrom: append(slices.Clone(at.path), resource), LabelsFromPath: map[string][]string{"container": {"containerName"}}}
	}
	return stateMetric{Name: prefix + at.name, Help: strings.Join(strings.Fields(description), " "),
		CommonLabels: map[string]string{"resource": resource, "unit": unit}, Each: each{Type: "Gauge", Gauge: from}}
}
