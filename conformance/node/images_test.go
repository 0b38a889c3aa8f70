package node

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// workloadImage is the program of folder workload.
const workloadImage = "celvpa.test/workload:1"

// celvpa's image, and its versions: the one that is installed, and the one that an upgrade brings.
const (
	repository   = "ghcr.io/celvpa/celvpa"
	firstVersion = "v0.0.1-node"
	nextVersion  = "v0.0.2-node"
)

// images are archives of images.
type images struct{ workload, first, next string }

// imagesIn are those of a folder.
func imagesIn(folder string) images {
	of := func(version string) string { return filepath.Join(folder, "celvpa_"+version+"_image.tar") }
	return images{workload: filepath.Join(folder, "workload.tar"), first: of(firstVersion), next: of(nextVersion)}
}

// build builds the workload's image, and celvpa's with release/, as make image does.
func (i images) build(ctx context.Context, root, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := buildWorkload(ctx, root, i.workload); err != nil {
		return fmt.Errorf("building the workload's image: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(root, "release"), ".", "-version", firstVersion, "-out", folder, "image")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building celvpa's image: %w\n%s", err, text)
	}
	if err := successorOf(i.first, i.next); err != nil {
		return fmt.Errorf("making the image of an upgrade: %w", err)
	}
	return nil
}

// successorOf writes the image of an upgrade: another image, of another name, whose layers nodes have already.
func successorOf(first, next string) error {
	folder, err := os.MkdirTemp("", "celvpa-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if text, err := exec.Command("tar", "-C", folder, "-xf", first).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return err
	}
	found, err := partial.FindImages(index, func(v1.Descriptor) bool { return true })
	if err != nil {
		return err
	}
	if len(found) == 0 { // an index of platforms in the index of the archive
		inner, err := partial.FindIndexes(index, func(v1.Descriptor) bool { return true })
		if err != nil || len(inner) != 1 {
			return errors.Join(fmt.Errorf("%s has no image", first), err)
		}
		if found, err = partial.FindImages(inner[0], func(v1.Descriptor) bool { return true }); err != nil {
			return err
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("%s has %d images, not one", first, len(found))
	}
	config, err := found[0].ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.Config.Labels["org.opencontainers.image.version"] = nextVersion
	image, err := mutate.ConfigFile(found[0], config)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(repository + ":" + nextVersion)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(next, tag, image)
}

// buildWorkload writes an image of one file.
func buildWorkload(ctx context.Context, root, archive string) error {
	binary := strings.TrimSuffix(archive, ".tar")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "conformance", "node"), "-trimpath", "-ldflags", "-s -w", "-o", binary, "./workload")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	err = w.WriteHeader(&tar.Header{Name: "workload", Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg})
	if _, writeErr := w.Write(content); err == nil {
		err = writeErr
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{"/workload"}, User: "65532:65532", WorkingDir: "/"}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	tag, err := name.NewTag(workloadImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(archive, tag, image)
}

// load imports the images into the node.
func (i images) load(ctx context.Context) error {
	archives := []string{i.workload, i.first, i.next}
	if *beside {
		archives = archives[:1]
	}
	for _, archive := range archives {
		if lab != nil {
			if err := lab.Load(ctx, archive); err != nil {
				return err
			}
			continue
		}
		command := os.Getenv("LOAD_IMAGE")
		if command == "" {
			return errors.New("set LOAD_IMAGE to the command that imports an image archive into the node, such as LOAD_IMAGE='kind load image-archive'; the archive's path is its last argument")
		}
		words := append(strings.Fields(command), archive)
		if text, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("running %s: %w\n%s", strings.Join(words, " "), err, text)
		}
	}
	return nil
}
