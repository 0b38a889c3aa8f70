package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// folderWith is a folder with files of these names; one that ends in a slash is a folder.
func folderWith(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.Mkdir(path, 0o755))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(name), 0o600))
	}
	return dir
}

// TestOnlyFilesOfAReleaseMakeRoomForAnother: a folder of the user's stays as it is.
func TestOnlyFilesOfAReleaseMakeRoomForAnother(t *testing.T) {
	earlier := []string{
		"SHA256SUMS", "celvpa-0.9.0-rc.1.tgz", "celvpa_v0.9.0-rc.1_darwin_arm64.tar.gz", "celvpa_v0.9.0-rc.1_darwin_arm64.spdx.json",
		"celvpa_v0.9.0-rc.1_image.tar", "vpa-admission-controller_v0.9.0-rc.1_image.tar", "vpa-updater_v0.9.0-rc.1_image_linux_amd64.spdx.json",
	}
	for name, c := range map[string]struct {
		there   []string
		refused string
	}{
		"an empty folder":                     {nil, ""},
		"an earlier release":                  {earlier, ""},
		"another file":                        {append([]string{"notes.txt"}, earlier...), "notes.txt"},
		"another folder":                      {append([]string{"v0.8.0/"}, earlier...), "v0.8.0"},
		"a folder with the name of a file":    {[]string{"celvpa_v1.0.0_image.tar/"}, "celvpa_v1.0.0_image.tar"},
		"files that only begin alike":         {[]string{"celvpa-notes.txt"}, "celvpa-notes.txt"},
		"an archive of another program":       {[]string{"other_v1.0.0_linux_amd64.tar.gz"}, "other_v1.0.0_linux_amd64.tar.gz"},
		"an archive with an ending behind it": {[]string{"celvpa_v1.0.0_linux_amd64.tar.gz.asc"}, "celvpa_v1.0.0_linux_amd64.tar.gz.asc"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &release{source: &source{}, out: folderWith(t, c.there...), log: io.Discard}
			err := r.removeEarlier()
			left, readErr := os.ReadDir(r.out)
			require.NoError(t, readErr)
			if c.refused == "" {
				require.NoError(t, err)
				require.Empty(t, left)
				return
			}
			require.EqualError(t, err, r.out+" has "+c.refused+", which is not part of a release: move it away, or give an empty folder by --out")
			require.Len(t, left, len(c.there))
		})
	}
	require.NoError(t, (&release{source: &source{}, out: filepath.Join(t.TempDir(), "new"), log: io.Discard}).removeEarlier())
}

// TestAReleaseIsNotWrittenBesideOtherFiles: the answer comes before anything is built.
func TestAReleaseIsNotWrittenBesideOtherFiles(t *testing.T) {
	r := &release{source: small(t), out: folderWith(t, "thesis.odt"), log: io.Discard}
	require.ErrorContains(t, r.all(t.Context(), imagePlatforms, imagePlatforms), "has thesis.odt, which is not part of a release")
	require.Empty(t, r.programs)
	require.FileExists(t, filepath.Join(r.out, "thesis.odt"))
}

// TestNothingStaleIsLeftOfImagesThatAreReplaced: after a release, images for one platform; then a release again.
func TestNothingStaleIsLeftOfImagesThatAreReplaced(t *testing.T) {
	var log bytes.Buffer
	r := &release{source: small(t), repository: defaultRepository, log: &log}
	require.NoError(t, r.all(t.Context(), imagePlatforms, imagePlatforms))
	whole := contents(t, r.folder())

	require.NoError(t, r.images(t.Context(), []platform{host}))
	require.Equal(t, 1, strings.Count(log.String(), "removing SHA256SUMS, which is of a whole release: its images are replaced\n"))
	images := contents(t, r.folder())
	require.NotContains(t, images, "SHA256SUMS")
	for name := range whole {
		sbomOfOther := strings.Contains(name, "_image_linux_") && !strings.Contains(name, "_linux_"+host.arch)
		if sbomOfOther {
			require.NotContains(t, images, name)
		} else if name != "SHA256SUMS" {
			require.Contains(t, images, name)
		}
	}
	require.NotEqual(t, whole["celvpa_v1.2.3-rc.1_image.tar"], images["celvpa_v1.2.3-rc.1_image.tar"])

	require.NoError(t, r.all(t.Context(), imagePlatforms, imagePlatforms))
	require.Equal(t, whole, contents(t, r.folder()))
}

// TestImagesLeaveOtherFilesAlone: checksums of something else, and images of another version.
func TestImagesLeaveOtherFilesAlone(t *testing.T) {
	there := []string{"SHA256SUMS", "workload.tar", "celvpa_v1.2.2_image.tar", "celvpa_v1.2.3-rc.1_image.tar.asc"}
	r := &release{source: small(t), out: folderWith(t, there...), repository: defaultRepository, log: io.Discard}
	require.NoError(t, r.images(t.Context(), []platform{host}))
	left := contents(t, r.out)
	for _, name := range there {
		require.Equal(t, name, left[name])
	}
	require.Contains(t, left, "vpa-updater_v1.2.3-rc.1_image.tar")
}
