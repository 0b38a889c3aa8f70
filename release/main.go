// Command release builds what a release of celvpa consists of, and writes it to dist/: programs in archives, container
// images, lists of what they contain, the chart, and checksums. It needs Go and git, but no container runtime. Two runs on the
// same commit with the same Go write the same bytes.
//
// It is a module of its own, so that the product does not depend on libraries for registries.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// defaultRepository is where the images belong, in the chart and in the docs.
const defaultRepository = "ghcr.io/celvpa"

// release writes what a release consists of.
type release struct {
	*source
	out        string // folder to write to; empty = dist
	repository string
	log        io.Writer

	programs map[platform]*program // that are built
}

// reference names an image in a registry.
func (r *release) reference(k kind) string { return r.repository + "/" + k.name + ":" + r.version }

// all writes everything, to a folder that has nothing else.
func (r *release) all(ctx context.Context, archives, images []platform) error {
	if err := errors.Join(r.clear(), r.requireEmpty()); err != nil {
		return err
	}
	for _, p := range archives {
		if err := r.program(ctx, p); err != nil {
			return err
		}
	}
	if err := r.images(ctx, images); err != nil {
		return err
	}
	name, packed, err := r.chartPackage(chartFolder)
	if err != nil {
		return err
	}
	if err := r.write(name, packed); err != nil {
		return err
	}
	return r.sums()
}

// program writes the archive of a platform.
func (r *release) program(ctx context.Context, p platform) error {
	built, err := r.built(ctx, p)
	if err != nil {
		return err
	}
	license, err := r.license()
	if err != nil {
		return err
	}
	packed, err := tarGz([]file{
		{name: "celvpa", mode: 0o755, content: built.content},
		{name: "kubectl-vpa", mode: 0o777, link: "celvpa"},
		{name: "kubectl_complete-vpa", mode: 0o777, link: "celvpa"},
		{name: "LICENSE", mode: 0o644, content: license},
		{name: "THIRD-PARTY.txt", mode: 0o644, content: thirdParty(built.modules)},
	}, r.time)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("celvpa_%s_%s_%s", r.version, p.os, p.arch)
	if err := r.write(name+".tar.gz", packed); err != nil {
		return err
	}
	list, err := r.programSBOM(built)
	if err != nil {
		return err
	}
	return r.writeSBOM(name, list)
}

// license is celvpa's.
func (s *source) license() ([]byte, error) { return os.ReadFile(filepath.Join(s.root, "LICENSE")) }

// built builds the program for a platform, once.
func (r *release) built(ctx context.Context, p platform) (*program, error) {
	if built := r.programs[p]; built != nil {
		return built, nil
	}
	begin := time.Now()
	r.say("building celvpa %s for %s (minutes the first time)", r.version, p)
	built, err := r.build(ctx, p)
	if err != nil {
		return nil, err
	}
	r.say("built celvpa for %s: %s in %s", p, size(len(built.content)), time.Since(begin).Round(time.Second))
	if r.programs == nil {
		r.programs = map[platform]*program{}
	}
	r.programs[p] = built
	return built, nil
}

// indexes makes the images of platforms, by kind, and calls use with each.
func (r *release) indexes(ctx context.Context, platforms []platform, use func(kind, v1.ImageIndex, map[platform]v1.Image) error) error {
	layers := map[platform][]v1.Layer{}
	for _, p := range platforms {
		built, err := r.built(ctx, p)
		if err != nil {
			return err
		}
		if layers[p], err = r.layers(built); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		images := map[platform]v1.Image{}
		for _, p := range platforms {
			var err error
			if images[p], err = r.image(k, p, layers[p]); err != nil {
				return err
			}
		}
		if err := use(k, r.index(k, images, platforms), images); err != nil {
			return err
		}
	}
	return nil
}

// images writes the images and the lists of what they consist of.
func (r *release) images(ctx context.Context, platforms []platform) error {
	return r.indexes(ctx, platforms, func(k kind, index v1.ImageIndex, images map[platform]v1.Image) error {
		packed, err := r.archive(r.reference(k), index)
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		r.say("%s@%s", r.reference(k), digest)
		if err := r.write(fmt.Sprintf("%s_%s_image.tar", k.name, r.version), packed); err != nil {
			return err
		}
		for _, p := range platforms {
			digest, err := images[p].Digest()
			if err != nil {
				return err
			}
			list, err := r.imageSBOM(ctx, k, r.programs[p], digest.String())
			if err != nil {
				return err
			}
			if err := r.writeSBOM(fmt.Sprintf("%s_%s_image_%s_%s", k.name, r.version, p.os, p.arch), list); err != nil {
				return err
			}
		}
		return nil
	})
}

// push writes the images to a registry.
func (r *release) push(ctx context.Context, platforms []platform, insecure bool) error {
	if r.repository == defaultRepository {
		return errors.New("give --repository, such as registry.example/team: the images are pushed to registry.example/team/celvpa and so on")
	}
	return r.indexes(ctx, platforms, func(k kind, index v1.ImageIndex, _ map[platform]v1.Image) error {
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		r.say("pushing %s", r.reference(k))
		if err := pushIndex(ctx, r.reference(k), index, insecure); err != nil {
			return err
		}
		r.say("pushed %s@%s", r.reference(k), digest)
		return nil
	})
}

func (r *release) writeSBOM(name string, list *sbom) error {
	text, err := list.text()
	if err != nil {
		return err
	}
	return r.write(name+".spdx.json", text)
}

func (r *release) say(format string, args ...any) {
	fmt.Fprintf(r.log, "release: "+format+"\n", args...)
}

// size is a number of bytes as people read it.
func size(bytes int) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%d KiB", (bytes+1023)/1024)
	}
	return fmt.Sprintf("%d MiB", (bytes+1<<19)>>20)
}

const usage = `Usage: release [flags] all|image|push

  all    write archives, images, SBOMs, the chart and SHA256SUMS to dist/, which is emptied first
  image  write the images for this machine's architecture to dist/, which is emptied first
  push   push the images to --repository

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "release:", err)
		}
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	root := flags.String("root", "..", "clone of celvpa")
	version := flags.String("version", "", "version, such as v0.1.0; empty = that of cmd/celvpa/version.txt")
	repository := flags.String("repository", defaultRepository, "where the images belong: the name of each is added")
	out := flags.String("out", "", "folder to write to instead of dist/ of the clone; nothing in it is removed, and for all it must be empty")
	insecure := flags.Bool("insecure", false, "push over HTTP")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	source, err := newSource(ctx, *root, *version)
	if err != nil {
		return err
	}
	r := &release{source: source, out: *out, repository: strings.TrimSuffix(*repository, "/"), log: os.Stderr}
	switch command := strings.Join(flags.Args(), " "); command {
	case "all":
		return r.all(ctx, archivePlatforms, imagePlatforms)
	case "image":
		if err := r.clear(); err != nil {
			return err
		}
		return r.images(ctx, []platform{{"linux", runtime.GOARCH}})
	case "push":
		return r.push(ctx, imagePlatforms, *insecure)
	default:
		flags.Usage()
		return fmt.Errorf("%q is not a command: use all, image or push", command)
	}
}
