package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"time"

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
