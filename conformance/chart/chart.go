// Package chart renders the Helm chart of deploy/chart/celvpa as helm does, with helm's own packages. What is made from the chart
// is in generate; the tests of this module hold the chart, try it on a lab, and run the commands of its pages.
package chart

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/celvpa/celvpa/conformance/harness"
)

// Dir returns the folder of the chart.
func Dir() (string, error) {
	root, err := harness.Root()
	return filepath.Join(root, "deploy", "chart", "celvpa"), err
}

// Load reads the chart.
func Load() (*v2.Chart, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	loaded, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("loading the chart: %w", err)
	}
	return loaded, nil
}

// Release is what a chart is rendered for.
type Release struct{ Name, Namespace string }

// Render returns the text of each template without a cluster, as `helm template` does; NOTES.txt is among them.
func Render(c *v2.Chart, r Release, values map[string]any) (map[string]string, error) {
	options := common.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, values, options, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, text := range files {
		out[strings.TrimPrefix(name, c.Name()+"/templates/")] = text
	}
	return out, nil
}

// Objects returns the objects of rendered templates, by template, kind and name.
func Objects(files map[string]string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	names := make([]string, 0, len(files))
	for name := range files {
		if strings.HasSuffix(name, ".yaml") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		objects, err := harness.Decode([]byte(files[name]))
		if err != nil {
			return nil, fmt.Errorf("templates/%s: %w", name, err)
		}
		out = append(out, objects...)
	}
	return out, nil
}
