package vm

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// pauseImage is that of containerd's settings.
const pauseImage = "lab.local/pause:1"

// writePause writes the image archive of the pods' sandboxes.
func writePause(program, to string) error {
	var layer bytes.Buffer
	files := tar.NewWriter(&layer)
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := addFile(files, "guest", text, 0o755); err != nil {
		return err
	}
	if err := files.Close(); err != nil {
		return err
	}
	content, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return fmt.Errorf("making %s: %w", pauseImage, err)
	}
	image, err := mutate.AppendLayers(empty.Image, content)
	if err != nil {
		return fmt.Errorf("making %s: %w", pauseImage, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Config.Entrypoint = []string{"/guest", "pause"}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	tag, err := name.NewTag(pauseImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(to, tag, image)
}

func addFile(to *tar.Writer, name string, text []byte, mode int64) error {
	if err := to.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := to.Write(text)
	return err
}

// copyFile copies a file with its mode, and makes the folder it goes to.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
