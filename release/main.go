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
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

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
		return fmt.Errorf("%q is no command: use all, image or push", command)
	}
}
