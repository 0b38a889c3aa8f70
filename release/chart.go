package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// chartFolder is where the chart is, in the clone.
const chartFolder = "deploy/chart/celvpa"

// chartPackage packs a chart's folder as helm package does, with the versions of the release, and says what to call it.
func (s *source) chartPackage(folder string) (string, []byte, error) {
	chart := filepath.Base(folder)
	ignored, err := ignoredNames(filepath.Join(s.root, folder, ignoreFile))
	if err != nil {
		return "", nil, fmt.Errorf("packing the chart: %w", err)
	}
	files, err := filesIn(filepath.Join(s.root, folder), chart+"/", func(p string) bool {
		return !slices.ContainsFunc(ignored, func(pattern string) bool {
			matches, _ := path.Match(pattern, path.Base(p))
			return matches
		})
	})
	if err != nil {
		return "", nil, fmt.Errorf("packing the chart: %w", err)
	}
	for i := range files {
		if files[i].name != chart+"/Chart.yaml" {
			continue
		}
		if files[i].content, err = s.setVersions(files[i].content); err != nil {
			return "", nil, fmt.Errorf("%s/Chart.yaml: %w", folder, err)
		}
		packed, err := tarGz(files, s.time)
		return fmt.Sprintf("%s-%s.tgz", chart, s.chartVersion()), packed, err
	}
	return "", nil, fmt.Errorf("packing the chart: %s has no Chart.yaml", folder)
}

// ignoreFile lists what helm leaves out of a package.
const ignoreFile = ".helmignore"

// ignoredNames are the patterns of an ignore file. Of what helm understands they are those that match names, in any folder.
func ignoredNames(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := path.Match(line, ""); err != nil || strings.ContainsAny(line, "/!") {
			return nil, fmt.Errorf("%s: pattern %q is not supported: write one for the names of files", file, line)
		}
		out = append(out, line)
	}
	return out, nil
}

// setVersions sets version and appVersion of a Chart.yaml, which has both.
func (s *source) setVersions(text []byte) ([]byte, error) {
	for key, version := range map[string]string{"version": s.chartVersion(), "appVersion": s.version} {
		line := regexp.MustCompile(`(?m)^` + key + `:.*$`)
		if len(line.FindAllIndex(text, -1)) != 1 {
			return nil, fmt.Errorf("it must have one line %s: …", key)
		}
		text = line.ReplaceAll(text, []byte(key+": "+version))
	}
	return text, nil
}
