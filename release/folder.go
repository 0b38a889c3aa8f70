package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sumsFile has the checksums of all other files of a release.
const sumsFile = "SHA256SUMS"

// released are the names of files that this program writes, of any version.
var released = regexp.MustCompile(`^(` + sumsFile + `|celvpa-\d[^_]*\.tgz|celvpa_v[^_]+_[a-z0-9]+_[a-z0-9]+\.(tar\.gz|spdx\.json)|` +
	`(celvpa|vpa-[a-z-]+)_v[^_]+_image(\.tar|_[a-z0-9]+_[a-z0-9]+\.spdx\.json))$`)

// folder is where it writes.
func (r *release) folder() string { return cmp.Or(r.out, filepath.Join(r.root, "dist")) }

// removeEarlier removes the files of an earlier release. If the folder has anything else, it removes nothing and returns an error.
func (r *release) removeEarlier() error {
	entries, err := r.entries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !released.MatchString(e.Name()) {
			return fmt.Errorf("%s has %s, which is not part of a release: move it away, or give an empty folder by --out", r.folder(), e.Name())
		}
	}
	return r.remove(entries)
}

// removeImage removes what earlier runs wrote of an image, for whichever platforms, and the checksums if they list any of it.
func (r *release) removeImage(k kind) error {
	entries, err := r.entries()
	if err != nil {
		return err
	}
	prefix := fmt.Sprintf("%s_%s_image", k.name, r.version)
	others := func(e fs.DirEntry) bool {
		return !released.MatchString(e.Name()) || !strings.HasPrefix(e.Name(), prefix+".") && !strings.HasPrefix(e.Name(), prefix+"_")
	}
	sums, err := os.ReadFile(filepath.Join(r.folder(), sumsFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case strings.Contains(string(sums), "  "+prefix):
		r.say("removing %s, which is of a whole release: its images are replaced", sumsFile)
		if err := os.Remove(filepath.Join(r.folder(), sumsFile)); err != nil {
			return err
		}
	}
	return r.remove(slices.DeleteFunc(entries, others))
}

// entries are what the folder has; none if it does not exist.
func (r *release) entries() ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(r.folder())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

func (r *release) remove(entries []fs.DirEntry) error {
	for _, e := range entries {
		if err := os.Remove(filepath.Join(r.folder(), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file of the release.
func (r *release) write(name string, content []byte) error {
	if err := os.MkdirAll(r.folder(), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.folder(), name), content, 0o644); err != nil {
		return err
	}
	r.say("wrote %s/%s: %s", filepath.Base(r.folder()), name, size(len(content)))
	return nil
}

// sums writes the checksums of all files, in the form that sha256sum -c reads.
func (r *release) sums() error {
	files, err := filesIn(r.folder(), "", func(string) bool { return true })
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(f.content), f.name)
	}
	return r.write(sumsFile, out.Bytes())
}
