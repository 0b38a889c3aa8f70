// Package crds carries the generated CustomResourceDefinitions. The Go types they come from are in crds/v1.
package crds

import (
	"embed"
	"fmt"
	"io/fs"
	"sort"
)

//go:embed bases/*.yaml
var bases embed.FS

// Manifests returns the CRD manifests as YAML, by file name.
func Manifests() (map[string][]byte, error) {
	out := map[string][]byte{}
	entries, err := fs.ReadDir(bases, "bases")
	if err != nil {
		return nil, fmt.Errorf("reading the embedded CRDs: %w", err)
	}
	for _, e := range entries {
		data, err := bases.ReadFile("bases/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading the embedded CRD %s: %w", e.Name(), err)
		}
		out[e.Name()] = data
	}
	return out, nil
}

// Names lists the file names of Manifests, sorted.
func Names(manifests map[string][]byte) []string {
	names := make([]string, 0, len(manifests))
	for name := range manifests {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
