package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

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
