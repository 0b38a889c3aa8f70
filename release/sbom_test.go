package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"
	"github.com/stretchr/testify/require"
)

// TestTheSBOMListsWhatIsLinked reads the list of the program back.
func TestTheSBOMListsWhatIsLinked(t *testing.T) {
	s, built := celvpa(t)
	list, err := s.programSBOM(built)
	require.NoError(t, err)
	packages := requireSPDX(t, list)

	want, err := s.runGo(t.Context(), "list", "-m", "-f", "{{.Version}}", "github.com/google/cel-go")
	require.NoError(t, err)
	cel := packages["github.com/google/cel-go"]
	require.NotNil(t, cel)
	require.Equal(t, want, cel.PackageVersion)
	require.Equal(t, "pkg:golang/github.com/google/cel-go@"+want, cel.PackageExternalReferences[0].Locator)
	require.Equal(t, "Apache-2.0 AND BSD-3-Clause", cel.PackageLicenseDeclared)
	require.Equal(t, strings.TrimPrefix(built.info.GoVersion, "go"), packages["stdlib"].PackageVersion)
	require.Equal(t, "v1.2.3-rc.1", packages["github.com/celvpa/celvpa"].PackageVersion)
	require.Len(t, packages, len(built.info.Deps)+2, "all modules, Go and celvpa itself")
	for name, pkg := range packages {
		require.NotEqual(t, noAssertion, pkg.PackageLicenseDeclared, "the license of %s", name)
	}
}

// TestTheSBOMOfAnImageListsWhatItHolds: the program with its modules, and the certificates.
func TestTheSBOMOfAnImageListsWhatItHolds(t *testing.T) {
	s, built := celvpa(t)
	digest := "sha256:" + strings.Repeat("a", 64)
	list, err := s.imageSBOM(t.Context(), kinds[1], built, digest)
	require.NoError(t, err)
	packages := requireSPDX(t, list)
	require.Len(t, packages, len(built.info.Deps)+4)
	require.Equal(t, "pkg:oci/vpa-recommender@sha256%3A"+strings.Repeat("a", 64)+"?arch="+host.arch+"&tag=v1.2.3-rc.1",
		packages["vpa-recommender"].PackageExternalReferences[0].Locator)
	require.Regexp(t, `^v0\.0\.0-\d{14}-[0-9a-f]{12}$`, packages[certificatesModule].PackageVersion)
	var contained []string
	for _, r := range list.document.Relationships {
		if r.Relationship == "CONTAINS" {
			require.EqualValues(t, "Package-image", r.RefA.ElementRefID)
			contained = append(contained, string(r.RefB.ElementRefID))
		}
	}
	require.Equal(t, []string{"Package-celvpa", "Package-ca-certificates"}, contained)
}

// requireSPDX reads a list as tools do, and returns its packages by name.
func requireSPDX(t *testing.T, list *sbom) map[string]*spdx.Package {
	t.Helper()
	text, err := list.text()
	require.NoError(t, err)
	document, err := json.Read(bytes.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, spdxlib.ValidateDocument(document))
	described, err := spdxlib.GetDescribedPackageIDs(document)
	require.NoError(t, err)
	require.Len(t, described, 1)
	require.Equal(t, "2023-11-14T22:13:20Z", document.CreationInfo.Created)
	packages, ids := map[string]*spdx.Package{}, map[string]bool{}
	for _, p := range document.Packages {
		packages[p.PackageName] = p
		require.False(t, ids[string(p.PackageSPDXIdentifier)], p.PackageSPDXIdentifier)
		ids[string(p.PackageSPDXIdentifier)] = true
	}
	return packages
}
