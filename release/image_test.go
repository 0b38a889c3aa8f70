package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

// TestTheImagesRun pushes the images of celvpa to a registry, pulls them, and runs each from its own files.
func TestTheImagesRun(t *testing.T) {
	s, built := celvpa(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	var logged bytes.Buffer
	r := &release{source: s, repository: strings.TrimPrefix(server.URL, "http://") + "/team", log: &logged, programs: map[platform]*program{host: built}}
	require.NoError(t, r.push(t.Context(), []platform{host}, true))

	var layers []v1.Hash
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			reference, err := name.ParseReference(r.reference(k), name.Insecure)
			require.NoError(t, err)
			index, err := remote.Index(reference)
			require.NoError(t, err)
			require.NoError(t, validate.Index(index))
			digest, err := index.Digest()
			require.NoError(t, err)
			require.Contains(t, logged.String(), "pushed "+r.reference(k)+"@"+digest.String()+"\n")

			image, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: host.os, Architecture: host.arch}))
			require.NoError(t, err)
			layers = requireDescribed(t, s, k, index, image, layers)

			files := mutate.Extract(image)
			defer files.Close()
			dir := t.TempDir()
			require.NoError(t, unpack(files, dir))
			requireSystem(t, dir)
			requireRuns(t, dir, k.entrypoint)
		})
	}
}

// requireDescribed checks what the manifests and the configuration of an image say, and that its layers are those of the others.
func requireDescribed(t *testing.T, s *source, k kind, index v1.ImageIndex, image v1.Image, others []v1.Hash) []v1.Hash {
	t.Helper()
	config, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, v1.Config{Entrypoint: []string{k.entrypoint}, User: "65532:65532", WorkingDir: "/", Env: []string{"PATH=/"}, Labels: s.labels(k)}, config.Config)
	require.Equal(t, []string{host.os, host.arch}, []string{config.OS, config.Architecture})
	require.Equal(t, at, config.Created.UTC())
	for key, want := range map[string]string{"title": k.name, "version": "v1.2.3-rc.1", "revision": "abcdef", "licenses": "Apache-2.0", "created": "2023-11-14T22:13:20Z"} {
		require.Equal(t, want, config.Config.Labels["org.opencontainers.image."+key])
	}
	manifest, err := image.Manifest()
	require.NoError(t, err)
	require.Equal(t, s.labels(k), manifest.Annotations)
	list, err := index.IndexManifest()
	require.NoError(t, err)
	require.Equal(t, s.labels(k), list.Annotations)
	require.Len(t, list.Manifests, 1)

	var layers []v1.Hash
	for _, l := range manifest.Layers {
		layers = append(layers, l.Digest)
	}
	require.Len(t, layers, 2)
	if others != nil {
		require.Equal(t, others, layers, "nodes pull the program once")
	}
	return layers
}

// requireSystem checks the files that a program expects of a system.
func requireSystem(t *testing.T, dir string) {
	t.Helper()
	rest, err := os.ReadFile(filepath.Join(dir, certificatesFile))
	require.NoError(t, err)
	var names []string
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		require.True(t, certificate.IsCA)
		names = append(names, certificate.Subject.CommonName)
	}
	require.Greater(t, len(names), 100)
	require.Contains(t, names, "ISRG Root X1")
	users, err := os.ReadFile(filepath.Join(dir, "etc/passwd"))
	require.NoError(t, err)
	require.Contains(t, string(users), "\nnonroot:x:65532:65532:")
	text, err := os.ReadFile(filepath.Join(dir, "licenses/THIRD-PARTY.txt"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\ngithub.com/google/cel-go v")
}

// requireRuns runs programs of an image. As root it does so as a node would: with nothing but the files of the image, which are
// root's, as the image's user.
func requireRuns(t *testing.T, dir, entrypoint string) {
	t.Helper()
	start := func(program string, args ...string) (string, int) {
		cmd := exec.Command(filepath.Join(dir, program), args...)
		cmd.Env = []string{"PATH=/"}
		if os.Geteuid() == 0 {
			require.NoError(t, os.Chmod(dir, 0o755))
			cmd.Path, cmd.Dir = program, "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			require.NoError(t, err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := start(entrypoint, "--version")
	require.Equal(t, entrypoint[1:]+" version v1.2.3-rc.1\n", out)
	require.Zero(t, code)

	out, code = start(entrypoint, "--help")
	require.Zero(t, code, out)
	if entrypoint == "/celvpa" {
		require.Contains(t, out, "\n  celvpa [command]\n")
	} else {
		require.Contains(t, out, "\n  celvpa "+entrypoint[1:]+" [flags]\n")
		out, code = start(entrypoint, "--v=4", "--stderrthreshold=info") // the arguments that upstream's chart gives
		require.Contains(t, out, "celvpa: no Kubernetes API to talk to: ", "it goes as far as it can without a cluster")
		require.Equal(t, 2, code)
	}

	out, code = start("/celvpa", "version", "-o", "json")
	require.Zero(t, code, out)
	var version map[string]string
	require.NoError(t, json.Unmarshal([]byte(out), &version))
	require.Equal(t, []string{"v1.2.3-rc.1", "abcdef", "2023-11-14T22:13:20Z", host.String()},
		[]string{version["version"], version["commit"], version["buildDate"], version["platform"]})
	require.NotEmpty(t, version["rulesDigest"])
}

func TestARegistryThatRefusesIsNamed(t *testing.T) {
	s := small(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	r := &release{source: s, repository: address + "/team", log: io.Discard}
	err := r.push(t.Context(), []platform{host}, true)
	require.ErrorContains(t, err, "pushing "+address+"/team/celvpa:v1.2.3-rc.1: ")
	require.ErrorContains(t, err, "; log in to "+address+" with docker login")
	r.repository = "Not a repository"
	require.ErrorContains(t, r.push(t.Context(), []platform{host}, true), "give the repository as registry.example/team")
}
