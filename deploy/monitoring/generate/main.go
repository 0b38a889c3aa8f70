// Command generate writes what deploy/monitoring holds and is made from Go or from the API types: the dashboards, the
// configuration of kube-state-metrics, and the PrometheusRule with the alerts. `make generate` runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate FOLDER, e.g. deploy/monitoring")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	alerts, err := os.ReadFile(filepath.Join(folder, alertsFile))
	if err != nil {
		return fmt.Errorf("reading the alerts: %w", err)
	}
	files, err := generate(alerts)
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the generated files, by their path below deploy/monitoring.
func generate(alerts []byte) (map[string][]byte, error) {
	files := map[string][]byte{}
	var err error
	if files["prometheusrule.yaml"], err = prometheusRule(alerts); err != nil {
		return nil, fmt.Errorf("making the PrometheusRule of %s: %w", alertsFile, err)
	}
	if files["kube-state-metrics.yaml"], err = stateMetrics(); err != nil {
		return nil, fmt.Errorf("making the configuration of kube-state-metrics: %w", err)
	}
	for _, d := range []dashboard{fleet, oneVPA, policy, health} {
		if files["dashboards/"+d.name+".json"], err = d.json(); err != nil {
			return nil, fmt.Errorf("making dashboard %s: %w", d.name, err)
		}
	}
	return files, nil
}

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
