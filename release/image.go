package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// kind is an image of the release. All have the same files; what one does is its entry point.
type kind struct{ name, entrypoint, description string }

// kinds are the image with all commands, and those that replace upstream's: the same entry points, in the same place.
var kinds = []kind{
	{"celvpa", "/celvpa", "Vertical Pod Autoscaler whose every decision is a rule in a file: all components and commands"},
	{"vpa-recommender", "/recommender", "Recommender of the Vertical Pod Autoscaler celvpa"},
	{"vpa-updater", "/updater", "Updater of the Vertical Pod Autoscaler celvpa"},
	{"vpa-admission-controller", "/admission-controller", "Admission controller of the Vertical Pod Autoscaler celvpa"},
}

const (
	projectURL = "https://github.com/celvpa/celvpa"
	nonroot    = "65532" // the user of distroless images, which upstream's are built on

	certificatesFile = "etc/ssl/certs/ca-certificates.crt" // where Go looks first
)

// layers are what the images of a platform consist of: what celvpa needs of a system, and celvpa.
func (s *source) layers(p *program) ([]v1.Layer, error) {
	license, err := s.license()
	if err != nil {
		return nil, err
	}
	certificates, err := rootCertificates()
	if err != nil {
		return nil, err
	}
	system := []file{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: []byte("root:x:0:\nnonroot:x:" + nonroot + ":\n")},
		{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:" + nonroot + ":" + nonroot + ":nonroot:/:/sbin/nologin\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: certificatesFile, mode: 0o644, content: certificates},
	}
	celvpa := []file{
		{name: "celvpa", mode: 0o755, content: p.content},
		{name: "licenses/", mode: 0o755},
		{name: "licenses/LICENSE", mode: 0o644, content: license},
		{name: "licenses/THIRD-PARTY.txt", mode: 0o644, content: thirdParty(p.modules)},
	}
	for _, k := range kinds[1:] {
		celvpa = append(celvpa, file{name: k.entrypoint[1:], mode: 0o777, link: "celvpa"})
	}
	var out []v1.Layer
	for _, files := range [][]file{system, celvpa} {
		packed, err := tarOf(files, s.time)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
			tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
		if err != nil {
			return nil, fmt.Errorf("making a layer: %w", err)
		}
		out = append(out, layer)
	}
	return out, nil
}

// rootCertificates are those of Mozilla as PEM, without those that it trusts only in part, which PEM cannot say.
func rootCertificates() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, fmt.Errorf("reading the root certificates: %w", err)
		}
		fmt.Fprintf(&out, "# %s\n", certificate.Subject)
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// image makes an image of layers for a platform.
func (s *source) image(k kind, p platform, layers []v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for i, comment := range []string{"certificates and users", "celvpa"} {
		var err error
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: layers[i], MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: s.time}, CreatedBy: "celvpa release", Comment: comment},
		})
		if err != nil {
			return nil, fmt.Errorf("adding a layer to image %s: %w", k.name, err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: s.time}
	config.Config = v1.Config{
		Entrypoint: []string{k.entrypoint},
		User:       nonroot + ":" + nonroot,
		WorkingDir: "/", // manifests say ./recommender, too
		Env:        []string{"PATH=/"},
		Labels:     s.labels(k),
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, fmt.Errorf("configuring image %s: %w", k.name, err)
	}
	return mutate.Annotations(image, s.labels(k)).(v1.Image), nil
}

// index joins the images of the platforms.
func (s *source) index(k kind, images map[platform]v1.Image, platforms []platform) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: images[p], Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	return mutate.Annotations(index, s.labels(k)).(v1.ImageIndex)
}

// labels say what an image is. Its annotations say the same, for those who see only manifests.
func (s *source) labels(k kind) map[string]string {
	labels := map[string]string{}
	for key, value := range map[string]string{
		"title": k.name, "description": k.description, "version": s.version, "revision": s.commit, "licenses": "Apache-2.0",
		"source": projectURL, "url": projectURL, "documentation": projectURL + "/tree/main/docs", "created": s.time.Format(time.RFC3339),
	} {
		labels["org.opencontainers.image."+key] = value
	}
	return labels
}

// archive is an OCI layout with one image, as a tar file.
func (s *source) archive(reference string, index v1.ImageIndex) ([]byte, error) {
	dir, err := os.MkdirTemp("", "celvpa-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return nil, fmt.Errorf("writing image %s: %w", reference, err)
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": s.version,
		"io.containerd.image.name":          reference, // the name that containerd and Docker give what they load
	}))
	if err != nil {
		return nil, fmt.Errorf("writing image %s: %w", reference, err)
	}
	files, err := filesIn(dir, "", func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	return tarOf(files, s.time)
}

// pushIndex writes an image to a registry, to which it logs in as docker does.
func pushIndex(ctx context.Context, reference string, index v1.ImageIndex, insecure bool) error {
	options := []name.Option{name.StrictValidation}
	if insecure {
		options = append(options, name.Insecure)
	}
	to, err := name.ParseReference(reference, options...)
	if err != nil {
		return fmt.Errorf("%w; give the repository as registry.example/team", err)
	}
	err = remote.WriteIndex(to, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("celvpa-release"))
	var refused *transport.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden):
		return fmt.Errorf("pushing %s: %w; log in to %s with docker login", reference, err, to.Context().RegistryStr())
	default:
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
}
