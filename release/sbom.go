package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// certificatesModule brings the root certificates of the images.
const certificatesModule = "golang.org/x/crypto/x509roots/fallback"

const noAssertion = "NOASSERTION"

// sbom is a list of what something consists of, in SPDX.
type sbom struct {
	document spdx.Document
}

// component adds a package.
func (b *sbom) component(id, name, version, license, purl string) *spdx.Package {
	p := &spdx.Package{
		PackageName: name, PackageSPDXIdentifier: common.ElementID("Package-" + notInIDs.ReplaceAllString(id, "-")), PackageVersion: version,
		PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: cmp.Or(license, noAssertion), PackageCopyrightText: noAssertion,
		PackageExternalReferences: []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl}},
	}
	b.document.Packages = append(b.document.Packages, p)
	return p
}

// notInIDs are characters that SPDX does not allow in identifiers.
var notInIDs = regexp.MustCompile(`[^a-zA-Z0-9.-]`)

func (b *sbom) relate(from common.ElementID, kind string, to common.ElementID) {
	b.document.Relationships = append(b.document.Relationships, &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, Relationship: kind, RefB: common.DocElementID{ElementRefID: to},
	})
}

// programSBOM lists the modules that a program is linked from.
func (s *source) programSBOM(p *program) (*sbom, error) {
	b, celvpa, err := s.newSBOM(p)
	if err != nil {
		return nil, err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(p.content))
	b.finish(s, fmt.Sprintf("celvpa_%s_%s_%s", s.version, p.platform.os, p.platform.arch), sum, celvpa)
	return b, nil
}

// imageSBOM lists what an image for the program's platform consists of.
func (s *source) imageSBOM(ctx context.Context, k kind, p *program, digest string) (*sbom, error) {
	b, celvpa, err := s.newSBOM(p)
	if err != nil {
		return nil, err
	}
	certificates, err := s.module(ctx, "release", certificatesModule)
	if err != nil {
		return nil, err
	}
	image := b.component("image", k.name, s.version, "Apache-2.0", fmt.Sprintf("pkg:oci/%s@%s?arch=%s&tag=%s", k.name, strings.Replace(digest, ":", "%3A", 1), p.platform.arch, s.version))
	image.PrimaryPackagePurpose = "CONTAINER"
	roots := b.component("ca-certificates", certificatesModule, certificates.version, "MPL-2.0", golangURL(certificatesModule, certificates.version))
	roots.PackageComment = "root certificates of Mozilla, in " + certificatesFile
	b.relate(image.PackageSPDXIdentifier, common.TypeRelationshipContains, celvpa)
	b.relate(image.PackageSPDXIdentifier, common.TypeRelationshipContains, roots.PackageSPDXIdentifier)
	b.finish(s, fmt.Sprintf("%s_%s_%s_%s", k.name, s.version, p.platform.os, p.platform.arch), digest, image.PackageSPDXIdentifier)
	return b, nil
}

// newSBOM lists a program and its modules, and returns the program's ID.
func (s *source) newSBOM(p *program) (*sbom, common.ElementID, error) {
	b := &sbom{}
	celvpa := b.component("celvpa", p.info.Main.Path, s.version, "Apache-2.0", golangURL(p.info.Main.Path, s.version))
	celvpa.PrimaryPackagePurpose = "APPLICATION"
	celvpa.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: fmt.Sprintf("%x", sha256.Sum256(p.content))}}
	for _, m := range p.modules {
		license, err := m.expression()
		if err != nil {
			return nil, "", err
		}
		component := b.component("go-"+m.path, m.path, m.version, license, golangURL(m.path, m.version))
		component.PrimaryPackagePurpose = "LIBRARY"
		b.relate(celvpa.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, component.PackageSPDXIdentifier)
	}
	return b, celvpa.PackageSPDXIdentifier, nil
}

// finish says what the list is about. Its name and what it is of make it unique.
func (b *sbom) finish(s *source, name, sum string, of common.ElementID) {
	b.relate("DOCUMENT", common.TypeRelationshipDescribe, of)
	d := &b.document
	d.SPDXVersion, d.DataLicense, d.SPDXIdentifier, d.DocumentName = spdx.Version, spdx.DataLicense, "DOCUMENT", name
	d.DocumentNamespace = fmt.Sprintf("%s/spdx/%s-%s", projectURL, name, notInIDs.ReplaceAllString(sum, "-"))
	d.CreationInfo = &spdx.CreationInfo{
		Creators: []common.Creator{{CreatorType: "Organization", Creator: "celvpa"}, {CreatorType: "Tool", Creator: "celvpa-release-" + s.version}},
		Created:  s.time.Format(time.RFC3339),
	}
}

// text is the list as JSON.
func (b *sbom) text() ([]byte, error) {
	var out bytes.Buffer
	if err := json.Write(&b.document, &out, json.Indent("  "), json.EscapeHTML(false)); err != nil {
		return nil, fmt.Errorf("writing SBOM %s: %w", b.document.DocumentName, err)
	}
	return out.Bytes(), nil
}

// golangURL is the package URL of a Go module.
func golangURL(path, version string) string { return "pkg:golang/" + path + "@" + version }

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
