package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/harness"
)

// madeFrom heads each generated file.
const madeFrom = "# Made from deploy/chart/celvpa by make manifests.\n"

// Generated returns what is made from the chart, by path in the repository: the table of values in its README, the plain manifests
// and the kustomize base.
func Generated() (map[string]string, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	readme, err := readmeWithValues(dir)
	if err != nil {
		return nil, err
	}
	loaded, err := Load()
	if err != nil {
		return nil, err
	}
	files, err := Render(loaded, Release{Name: "celvpa", Namespace: "celvpa-system"}, nil)
	if err != nil {
		return nil, err
	}
	out, err := kustomizeBase(files)
	if err != nil {
		return nil, err
	}
	all := madeFrom + "# Apply it with `kubectl apply --server-side -f`: a field that somebody else applied is then a conflict, not overwritten.\n"
	for _, path := range slices.Sorted(maps.Keys(out)) {
		if filepath.Base(path) != "kustomization.yaml" {
			all += "---\n" + strings.TrimPrefix(out[path], madeFrom)
		}
	}
	out["deploy/manifests/celvpa.yaml"] = all
	out["deploy/chart/celvpa/README.md"] = readme
	return out, nil
}

// kustomizeBase is a file for each template that renders objects, without what only helm knows.
func kustomizeBase(files map[string]string) (map[string]string, error) {
	const base = "deploy/kustomize/base/"
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": "celvpa-system", "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}}}}
	objects := map[string][]*unstructured.Unstructured{"namespace.yaml": {namespace}}
	for name := range files {
		made, err := Objects(map[string]string{name: files[name]})
		if err != nil {
			return nil, err
		}
		if len(made) > 0 {
			objects[name] = made
		}
	}
	// Objects are created in this order, so namespace and CRDs come first.
	first := map[string]string{"namespace.yaml": "00-", "crds.yaml": "01-"}
	out, names := map[string]string{}, []string{}
	for name, list := range objects {
		text := madeFrom
		for i, o := range list {
			if i > 0 {
				text += "---\n"
			}
			document, err := yaml.Marshal(withoutHelm(o).Object)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
			}
			text += string(document)
		}
		name = first[name] + name
		names = append(names, name)
		out[base+name] = text
	}
	slices.Sort(names)
	out[base+"kustomization.yaml"] = madeFrom + "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- " + strings.Join(names, "\n- ") + "\n"
	return out, nil
}

// withoutHelm takes away the labels and annotations that only mean something to helm.
func withoutHelm(o *unstructured.Unstructured) *unstructured.Unstructured {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	delete(labels, "helm.sh/chart")
	delete(labels, "app.kubernetes.io/managed-by")
	delete(annotations, "helm.sh/resource-policy")
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	return o
}

// readmeWithValues replaces what stands between the two marks of the chart's README by the table of values.
func readmeWithValues(dir string) (string, error) {
	const begin, end = "<!-- values: made from values.yaml by make manifests -->\n", "<!-- end of values -->"
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		return "", err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("README.md of the chart must have the lines %q and %q", strings.TrimSpace(begin), end)
	}
	values, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return "", err
	}
	table, err := ValuesTable(values)
	if err != nil {
		return "", fmt.Errorf("values.yaml of the chart: %w", err)
	}
	return before + begin + table + end + after, nil
}

// WriteGenerated writes what Generated returns.
func WriteGenerated() error {
	files, err := Generated()
	if err != nil {
		return err
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	for path, text := range files {
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
