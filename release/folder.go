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
	"slices"
	"strings"
)

// sumsFile has the checksums of all other files of a release.
const sumsFile = "SHA256SUMS"

// folder is where it writes.
func (r *release) folder() string { return cmp.Or(r.out, filepath.Join(r.root, "dist")) }

// clear makes room for files: dist/ is emptied. Another folder is the user's, and stays as it is.
func (r *release) clear() error {
	if r.out != "" {
		return nil
	}
	return os.RemoveAll(r.folder())
}

// requireEmpty is an error if the folder has files that the checksums would list.
func (r *release) requireEmpty() error {
	entries, err := os.ReadDir(r.folder())
	if len(entries) > 0 {
		return fmt.Errorf("%s has %s, which is not part of this release: give an empty folder by --out", r.folder(), entries[0].Name())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
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
