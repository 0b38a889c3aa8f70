package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// source is what a release is made from.
type source struct {
	root    string // of the clone
	program string // package of the program, relative to root
	version string // with v
	commit  string // hash; -dirty behind it says that the work tree has changes
	time    time.Time

	environment []string // of the go command, once it is known
}

// semantic are versions that serve as tags of images and as versions of charts, so without build metadata.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z][0-9A-Za-z.-]*)?$`)

// newSource reads version, commit and time. The time is that of the commit, or $SOURCE_DATE_EPOCH.
func newSource(ctx context.Context, root, version string) (*source, error) {
	if version == "" {
		text, err := os.ReadFile(filepath.Join(root, "cmd/celvpa/version.txt"))
		if err != nil {
			return nil, fmt.Errorf("reading the version: %w; give --version", err)
		}
		version = strings.TrimSpace(string(text))
	}
	if !semantic.MatchString(version) {
		return nil, fmt.Errorf("the version is %q; give one such as v0.1.0 or v0.1.0-rc.1", version)
	}
	s := &source{root: root, program: "./cmd/celvpa", version: version}
	head, err := s.git(ctx, "log", "-1", "--no-show-signature", "--format=%H %ct")
	if err != nil {
		return nil, err
	}
	hash, seconds, _ := strings.Cut(head, " ")
	changes, err := s.git(ctx, "status", "--porcelain", "--untracked-files=normal")
	if err != nil {
		return nil, err
	}
	if s.commit = hash; changes != "" {
		if !strings.Contains(version, "-") {
			return nil, fmt.Errorf("the work tree has changes, and %s must be what its commit says: commit them, or give a version such as %s-dev", version, version)
		}
		s.commit += "-dirty"
	}
	if given := os.Getenv("SOURCE_DATE_EPOCH"); given != "" {
		seconds = given
	}
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH is %q; it must be seconds since 1970", seconds)
	}
	s.time = time.Unix(epoch, 0).UTC()
	return s, nil
}

// git runs git in the clone. Its settings may change what it prints, so callers give the flags that they rely on.
func (s *source) git(ctx context.Context, args ...string) (string, error) {
	out, err := s.command(ctx, os.Environ(), "git", args...)
	if err != nil {
		return "", fmt.Errorf("%w; a release is built in a git clone of celvpa", err)
	}
	return out, nil
}

// command runs a command in the clone, with an environment, and returns what it prints.
func (s *source) command(ctx context.Context, environment []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = s.root, environment
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// chartVersion is the version without v, as charts have it.
func (s *source) chartVersion() string { return strings.TrimPrefix(s.version, "v") }

// places are the variables that say where Go, its caches and modules are. They do not enter the program, so the user's values hold, be
// they from the environment or from go env -w.
var places = []string{
	"GOROOT", "GOPATH", "GOCACHE", "GOCACHEPROG", "GOTMPDIR",
	"GOMODCACHE", "GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH",
}

// resources are the variables that limit what Go takes of this machine.
var resources = []string{"GOGC", "GOMAXPROCS", "GOMEMLIMIT"}

// pinned are variables that enter the program, or choose what builds it. None is empty: Go takes an empty variable for unset, and reads
// the file of go env -w, or go.env of its own folder, instead. Without that file, variables that are not here have Go's defaults.
var pinned = []string{
	"GOENV=off", "GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=-mod=readonly",
	"CGO_ENABLED=0", "GOFIPS140=off", "GOAMD64=v1", "GOARM64=v8.0",
}

// runGo runs the go command in the clone, as every release does, and returns what it prints.
func (s *source) runGo(ctx context.Context, args ...string) (string, error) {
	environment, err := s.goEnvironment(ctx)
	if err != nil {
		return "", err
	}
	return s.command(ctx, environment, "go", args...)
}

// goEnvironment is the environment of the go command: all that is not Go's, the places and resources, and what is pinned.
func (s *source) goEnvironment(ctx context.Context) ([]string, error) {
	if s.environment != nil {
		return s.environment, nil
	}
	kept := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return isGo(name) && !slices.Contains(places, name) && !slices.Contains(resources, name)
	})
	ask := append(slices.Clone(kept), "GOTOOLCHAIN=local", "GOENV="+os.Getenv("GOENV"))
	text, err := s.command(ctx, ask, "go", append([]string{"env", "-json"}, places...)...)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	if err := json.Unmarshal([]byte(text), &values); err != nil {
		return nil, fmt.Errorf("reading what go env prints: %w", err)
	}
	for _, name := range places {
		kept = append(kept, name+"="+values[name])
	}
	s.environment = append(kept, pinned...)
	return s.environment, nil
}

// isGo reports whether a variable is one of the go command, its compiler and linker, listed by go help environment or not.
func isGo(name string) bool {
	return strings.HasPrefix(name, "CGO_") || strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "GOOGLE_")
}
