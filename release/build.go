package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// platform is what a program is built for, as Go names it.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// What a release is built for. Images are for Linux only.
var (
	imagePlatforms   = []platform{{"linux", "amd64"}, {"linux", "arm64"}}
	archivePlatforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
)

// program is celvpa, built for a platform.
type program struct {
	platform platform
	content  []byte
	info     *buildinfo.BuildInfo
	modules  []module // that it is linked from
}

// build builds the program so that the same commit and the same Go make the same bytes, wherever the clone is and whatever the
// environment and go env -w say.
func (s *source) build(ctx context.Context, p platform) (*program, error) {
	dir, err := os.MkdirTemp("", "celvpa-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	environment, err := s.goEnvironment(ctx)
	if err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "celvpa")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w "+s.variables(), "-o", out, s.program)
	cmd.Dir = s.root
	cmd.Env = append(slices.Clone(environment), "GOOS="+p.os, "GOARCH="+p.arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building celvpa for %s: %w\n%s", p, err, bytes.TrimSpace(text))
	}
	return s.open(ctx, p, out)
}

// variables are flags of the linker that tell the program what it is.
func (s *source) variables() string {
	return fmt.Sprintf("-X main.version=%s -X main.commit=%s -X main.date=%s", s.version, s.commit, s.time.Format(time.RFC3339))
}

// open reads a program and what it was built from.
func (s *source) open(ctx context.Context, p platform, path string) (*program, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("reading what %s was built from: %w", path, err)
	}
	modules, err := s.modules(ctx, info)
	if err != nil {
		return nil, err
	}
	return &program{platform: p, content: content, info: info, modules: modules}, nil
}
