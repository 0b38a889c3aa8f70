package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAFolderOfTheUsersStaysAsItIs: a release is not written beside other files, and the answer comes before anything is built. Images are.
func TestAFolderOfTheUsersStaysAsItIs(t *testing.T) {
	r := &release{source: small(t), out: t.TempDir(), repository: defaultRepository, log: io.Discard}
	there := map[string]string{"SHA256SUMS": "of something else", "celvpa_v1.2.2_image.tar": "of another version"}
	for name, text := range there {
		require.NoError(t, os.WriteFile(filepath.Join(r.out, name), []byte(text), 0o600))
	}
	require.EqualError(t, r.all(t.Context(), imagePlatforms, imagePlatforms), r.out+" has SHA256SUMS, which is not part of this release: give an empty folder by --out")
	require.Empty(t, r.programs)
	require.Equal(t, there, contents(t, r.out))

	require.NoError(t, r.clear())
	require.NoError(t, r.images(t.Context(), []platform{host}))
	left := contents(t, r.out)
	require.Subset(t, left, there)
	require.Contains(t, left, "vpa-updater_v1.2.3-rc.1_image.tar")
}

// TestNothingStaleIsLeftInDist: files of an earlier release, or of one for more platforms, are removed first.
func TestNothingStaleIsLeftInDist(t *testing.T) {
	r := &release{source: small(t), repository: defaultRepository, log: io.Discard}
	require.NoError(t, r.clear(), "there is no dist yet")
	require.NoError(t, os.Mkdir(r.folder(), 0o755))
	for _, name := range []string{"celvpa_v0.9.0_image.tar", "vpa-updater_v0.9.0_image_linux_amd64.spdx.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(r.folder(), name), nil, 0o600))
	}
	require.NoError(t, r.all(t.Context(), []platform{host}, []platform{host}))
	whole := contents(t, r.folder())
	require.Len(t, whole, 12, "an archive and four images, each with an SBOM, the chart and the checksums")
	require.NoError(t, r.all(t.Context(), []platform{host}, []platform{host}))
	require.Equal(t, whole, contents(t, r.folder()))
}
