package main

import (
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

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
