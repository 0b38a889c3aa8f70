package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// module is a Go module that a program is linked from, or the standard library.
type module struct {
	path, version string
	licenses      []license
}

// license is a file in which a module says how it may be used.
type license struct {
	file string
	text []byte
}

// standardLibrary is what package URLs call Go's own packages.
const standardLibrary = "stdlib"

// modules are those that a program is linked from, by path, and the standard library.
func (s *source) modules(ctx context.Context, info *buildinfo.BuildInfo) ([]module, error) {
	goroot, err := s.runGo(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	standard := module{path: standardLibrary, version: strings.TrimPrefix(info.GoVersion, "go")}
	if standard.licenses, err = licensesIn(goroot); err != nil {
		return nil, err
	}
	out := []module{standard}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		m, err := s.module(ctx, ".", dep.Path)
		if err != nil {
			return nil, err
		}
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return out, nil
}

// module is one of those that the module in a folder of the clone requires.
func (s *source) module(ctx context.Context, folder, path string) (*module, error) {
	line, err := s.runGo(ctx, "list", "-C", folder, "-m", "-f", "{{.Version}} {{.Dir}}", path)
	if err != nil {
		return nil, err
	}
	version, dir, _ := strings.Cut(line, " ")
	if dir == "" {
		return nil, fmt.Errorf("module %s is not downloaded, so its license is not known: run go mod download", path)
	}
	licenses, err := licensesIn(dir)
	return &module{path: path, version: version, licenses: licenses}, err
}

// licensesIn reads the licenses and notices at the top of a module.
func licensesIn(dir string) ([]license, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for licenses: %w", err)
	}
	var out []license
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if !e.Type().IsRegular() || !slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE"}, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading a license: %w", err)
		}
		out = append(out, license{e.Name(), text})
	}
	return out, nil
}

// known compares texts with those of all licenses that SPDX names. It takes a second to make.
var known = sync.OnceValues(assets.DefaultClassifier)

// expression names the licenses of a module as SPDX does; empty if a text is not recognised.
func (m *module) expression() (string, error) {
	all, err := known()
	if err != nil {
		return "", fmt.Errorf("loading the known licenses: %w", err)
	}
	var names []string
	for _, license := range m.licenses {
		for _, found := range all.Match(bytes.TrimSpace(license.text)).Matches {
			if isLicense(found) && !slices.Contains(names, found.Name) {
				names = append(names, found.Name)
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, " AND "), nil
}

func isLicense(m *classifier.Match) bool { return m.MatchType == "License" }

// thirdParty joins the licenses of modules into one text, for those who get the program without its source.
func thirdParty(modules []module) []byte {
	var out bytes.Buffer
	fmt.Fprintln(&out, "celvpa is linked from these modules, whose licenses and notices follow.")
	for _, m := range modules {
		for _, license := range m.licenses {
			fmt.Fprintf(&out, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("-", 80), m.path, m.version, license.file, bytes.TrimSpace(license.text))
		}
	}
	return out.Bytes()
}
