package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive or an image. A name that ends in a slash is a folder.
type file struct {
	name    string
	mode    int64
	link    string // target, of a symbolic link
	content []byte
}

// tarOf packs files in the order of their names, all of one time and of root, so that the same files make the same bytes.
func tarOf(files []file, at time.Time) ([]byte, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at, Typeflag: tar.TypeReg}
		switch {
		case f.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		case strings.HasSuffix(f.name, "/"):
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("packing %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("packing %s: %w", f.name, err)
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// compress makes gzip of something, without a time.
func compress(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// tarGz packs and compresses files.
func tarGz(files []file, at time.Time) ([]byte, error) {
	packed, err := tarOf(files, at)
	if err != nil {
		return nil, err
	}
	return compress(packed)
}

// filesIn reads all files below a folder that keep accepts, by their path in it with slashes, as readable by all.
func filesIn(dir, prefix string, keep func(path string) bool) ([]file, error) {
	var out []file
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if relative = filepath.ToSlash(relative); !keep(relative) {
			return nil
		}
		content, err := os.ReadFile(path)
		out = append(out, file{name: prefix + relative, mode: 0o644, content: content})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	return out, nil
}

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
