package main

import "sigs.k8s.io/yaml"

// alertsFile is written by hand, in the form of a Prometheus rule file.
const alertsFile = "alerts.yaml"

// prometheusRule puts the groups of a rule file into an object of the Prometheus operator.
func prometheusRule(alerts []byte) ([]byte, error) {
	var rules map[string]any
	if err := yaml.UnmarshalStrict(alerts, &rules); err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1",
		"kind":       "PrometheusRule",
		"metadata":   map[string]any{"name": "celvpa", "labels": map[string]any{"app.kubernetes.io/name": "celvpa"}},
		"spec":       rules,
	})
	return append([]byte("# Generated from "+alertsFile+" by `make generate`; change that.\n"), text...), err
}
