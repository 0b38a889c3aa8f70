package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

// TestTwoReleasesOfOneCommitAreTheSame builds a small program as celvpa is built for a release, for two architectures, in two
// folders, under two environments and two files of go env -w.
func TestTwoReleasesOfOneCommitAreTheSame(t *testing.T) {
	var releases []map[string]string
	hostile := map[string]string{"GOFIPS140": "latest", "GOAMD64": "v3", "GOARM64": "v9.0", "GOOS": "windows", "GOFLAGS": "",
		"GOENV": goEnvFile(t, "GOFLAGS=-gcflags=all=-N", "GOEXPERIMENT=nodwarf5")}
	for _, environment := range []map[string]string{{}, hostile} {
		for name, value := range environment {
			t.Setenv(name, value)
		}
		var log bytes.Buffer
		r := &release{source: small(t), repository: defaultRepository, log: &log}
		require.NoError(t, r.all(t.Context(), imagePlatforms, imagePlatforms))
		require.Contains(t, log.String(), "building celvpa v1.2.3-rc.1 for linux/arm64 (minutes the first time)\n")
		require.Regexp(t, `(?m)^release: ghcr\.io/celvpa/vpa-updater:v1\.2\.3-rc\.1@sha256:[0-9a-f]{64}$`, log.String())
		releases = append(releases, contents(t, r.folder()))
		verifySums(t, r.folder())
		verifyLayout(t, filepath.Join(r.folder(), "vpa-updater_v1.2.3-rc.1_image.tar"))
	}
	require.Equal(t, releases[0], releases[1])

	var names []string
	for _, line := range strings.Split(strings.TrimSpace(releases[0]["SHA256SUMS"]), "\n") {
		_, name, _ := strings.Cut(line, "  ")
		names = append(names, name)
	}
	require.Equal(t, []string{
		"celvpa-1.2.3-rc.1.tgz",
		"celvpa_v1.2.3-rc.1_image.tar",
		"celvpa_v1.2.3-rc.1_image_linux_amd64.spdx.json",
		"celvpa_v1.2.3-rc.1_image_linux_arm64.spdx.json",
		"celvpa_v1.2.3-rc.1_linux_amd64.spdx.json",
		"celvpa_v1.2.3-rc.1_linux_amd64.tar.gz",
		"celvpa_v1.2.3-rc.1_linux_arm64.spdx.json",
		"celvpa_v1.2.3-rc.1_linux_arm64.tar.gz",
		"vpa-admission-controller_v1.2.3-rc.1_image.tar",
		"vpa-admission-controller_v1.2.3-rc.1_image_linux_amd64.spdx.json",
		"vpa-admission-controller_v1.2.3-rc.1_image_linux_arm64.spdx.json",
		"vpa-recommender_v1.2.3-rc.1_image.tar",
		"vpa-recommender_v1.2.3-rc.1_image_linux_amd64.spdx.json",
		"vpa-recommender_v1.2.3-rc.1_image_linux_arm64.spdx.json",
		"vpa-updater_v1.2.3-rc.1_image.tar",
		"vpa-updater_v1.2.3-rc.1_image_linux_amd64.spdx.json",
		"vpa-updater_v1.2.3-rc.1_image_linux_arm64.spdx.json",
	}, names)
	verifyArchive(t, releases[0]["celvpa_v1.2.3-rc.1_linux_"+runtime.GOARCH+".tar.gz"])
	verifyChart(t, releases[0]["celvpa-1.2.3-rc.1.tgz"])
}

// contents are the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filesIn(dir, "", func(string) bool { return true })
	require.NoError(t, err)
	out := map[string]string{}
	for _, f := range files {
		out[f.name] = string(f.content)
	}
	return out
}

// verifySums checks the checksums as users do.
func verifySums(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// verifyLayout reads an image as tools do that load it.
func verifyLayout(t *testing.T, path string) {
	t.Helper()
	dir := t.TempDir()
	packed, err := os.Open(path)
	require.NoError(t, err)
	defer packed.Close()
	require.NoError(t, unpack(packed, dir))
	index, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	require.Equal(t, map[string]string{
		"org.opencontainers.image.ref.name": "v1.2.3-rc.1", "io.containerd.image.name": "ghcr.io/celvpa/vpa-updater:v1.2.3-rc.1",
	}, manifest.Manifests[0].Annotations)
}

// verifyArchive runs the program of an archive by each of its names.
func verifyArchive(t *testing.T, packed string) {
	t.Helper()
	dir := t.TempDir()
	unpackGz(t, packed, dir)
	for _, name := range []string{"celvpa", "kubectl-vpa", "kubectl_complete-vpa"} {
		out, err := exec.Command(filepath.Join(dir, name)).Output()
		require.NoError(t, err)
		require.Equal(t, "v1.2.3-rc.1 abcdef 2023-11-14T22:13:20Z\n", string(out))
	}
	require.FileExists(t, filepath.Join(dir, "LICENSE"))
	text, err := os.ReadFile(filepath.Join(dir, "THIRD-PARTY.txt"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\nstdlib "+strings.TrimPrefix(runtime.Version(), "go")+": LICENSE\n")
}

func verifyChart(t *testing.T, packed string) {
	t.Helper()
	dir := t.TempDir()
	unpackGz(t, packed, dir)
	chart := contents(t, dir)
	require.Equal(t, map[string]string{
		"celvpa/.helmignore":        "# Not for users.\n\n*_test.go\n",
		"celvpa/templates/one.yaml": "kind: ConfigMap\n",
		"celvpa/Chart.yaml":         "apiVersion: v2\nname: celvpa\n# The versions are those of the release.\nversion: 1.2.3-rc.1\nappVersion: v1.2.3-rc.1\n",
	}, chart)
}

func unpackGz(t *testing.T, packed, dir string) {
	t.Helper()
	var r io.Reader = strings.NewReader(packed)
	r, err := gzip.NewReader(r)
	require.NoError(t, err)
	require.NoError(t, unpack(r, dir))
}

func TestChartsThatCannotBePackedAreRefused(t *testing.T) {
	s := small(t)
	path := filepath.Join(s.root, chartFolder, "Chart.yaml")
	require.NoError(t, os.WriteFile(path, []byte("name: celvpa\nversion: 1.0.0\n"), 0o600))
	_, _, err := s.chartPackage(chartFolder)
	require.EqualError(t, err, "deploy/chart/celvpa/Chart.yaml: it must have one line appVersion: …")
	ignore := filepath.Join(s.root, chartFolder, ignoreFile)
	require.NoError(t, os.WriteFile(ignore, []byte("/ci\n"), 0o600))
	_, _, err = s.chartPackage(chartFolder)
	require.ErrorContains(t, err, `.helmignore: pattern "/ci" is not supported`)
	require.NoError(t, os.Remove(ignore))
	require.NoError(t, os.Remove(path))
	_, _, err = s.chartPackage(chartFolder)
	require.EqualError(t, err, "packing the chart: deploy/chart/celvpa has no Chart.yaml")
}

func TestABuildThatFailsSaysWhy(t *testing.T) {
	s := small(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.root, "broken.go"), []byte("package main\nvar x int = nil\n"), 0o600))
	_, err := s.build(context.Background(), host)
	require.ErrorContains(t, err, "building celvpa for "+host.String()+": exit status 1\n")
	require.ErrorContains(t, err, "broken.go:2:13: cannot use nil")
}

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

// at is the time of the releases of tests.
var at = time.Unix(1_700_000_000, 0).UTC()

// small is the source of a program that compiles in seconds, in a folder of its own.
func small(t *testing.T) *source {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.CopyFS(root, os.DirFS("testdata/program")))
	for from, to := range map[string]string{"../LICENSE": "LICENSE", "go.mod": "release/go.mod", "go.sum": "release/go.sum"} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, to)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, to), text, 0o600))
	}
	return &source{root: root, program: ".", version: "v1.2.3-rc.1", commit: "abcdef", time: at}
}

// host is what this machine runs of a release.
var host = platform{"linux", runtime.GOARCH}

// celvpa is the source of this clone, with celvpa built from it for this machine, once for all tests. It is compiled as other
// tests compile it, without -trimpath, which would take minutes: TestTwoReleasesOfOneCommitAreTheSame is about that.
func celvpa(t *testing.T) (*source, *program) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("images are for Linux, and this is %s", runtime.GOOS)
	}
	s := &source{root: "..", program: "./cmd/celvpa", version: "v1.2.3-rc.1", commit: "abcdef", time: at}
	p, err := linked(s)
	require.NoError(t, err)
	return s, p
}

var (
	link          sync.Once
	linkedProgram *program
	errLinking    error
)

func linked(s *source) (*program, error) {
	link.Do(func() {
		dir, err := os.MkdirTemp("", "celvpa-release-test-")
		if err != nil {
			errLinking = err
			return
		}
		defer os.RemoveAll(dir)
		out := filepath.Join(dir, "celvpa")
		cmd := exec.Command("go", "build", "-ldflags", s.variables(), "-o", out, s.program)
		cmd.Dir, cmd.Env = s.root, append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			errLinking = errors.New(string(text))
			return
		}
		linkedProgram, errLinking = s.open(context.Background(), host, out)
	})
	return linkedProgram, errLinking
}

// unpack writes files below a folder.
func unpack(r io.Reader, dir string) error {
	files := tar.NewReader(r)
	for {
		header, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, header.FileInfo().Mode())
		case tar.TypeSymlink:
			err = os.Symlink(header.Linkname, path)
		default:
			var content []byte
			if content, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, content, header.FileInfo().Mode())
			}
		}
		if err != nil {
			return err
		}
	}
}
