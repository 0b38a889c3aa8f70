package policy

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/celvpa/celvpa/engine/document"
)

// Write access to a folder of rules must not be enough to block its readers: reads are bounded, and
// only regular files inside the folder are opened.
const (
	maxFiles      = 1000     // rule files of a folder
	maxEntries    = 20_000   // files and folders
	maxTotalBytes = 32 << 20 // of all rule files of a folder
)

// LayerAt reads the rule files of the folder at a path, or a single file. If kubelet swaps a
// ConfigMap meanwhile, all files are of one version.
func LayerAt(path string) (document.Layer, error) {
	layer, _, err := layerAt(path)
	return layer, err
}

// layerAt is LayerAt, and reports whether the files are a mounted ConfigMap, which changes at once.
func layerAt(path string) (layer document.Layer, atOnce bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return document.Layer{}, false, cannotRead(path, err)
	}
	if info.IsDir() {
		return folderAt(path)
	}
	layer, err = fileAt(path)
	return layer, false, err
}

// fileAt reads a single file.
func fileAt(path string) (document.Layer, error) {
	dir, name := filepath.Split(filepath.Clean(path))
	if dir == "" {
		dir = "."
	}
	if !document.IsRuleFile(name) {
		return document.Layer{Dir: dir}, nil
	}
	// A file that is named may be a link to anywhere.
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return document.Layer{}, cannotRead(path, err)
	}
	root, err := os.OpenRoot(filepath.Dir(real))
	if err != nil {
		return document.Layer{}, cannotRead(path, err)
	}
	defer root.Close()
	r := &reader{root: root, left: maxTotalBytes}
	file := r.file(filepath.Base(real))
	file.Name = name
	return document.Layer{Dir: dir, Files: []document.File{file}}, nil
}

func cannotRead(path string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("cannot read %s: %w", path, err)
}

// folderAt reads a folder. The path is resolved once, so that a swapped link leads to either
// folder, but not to both.
func folderAt(path string) (layer document.Layer, atOnce bool, err error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return document.Layer{}, false, cannotRead(path, err)
	}
	defer root.Close()
	r := &reader{root: root, left: maxTotalBytes}
	if data, err := root.OpenRoot(dataLink); err == nil {
		defer data.Close()
		r.data = data
	}
	if err := r.folder("."); err != nil {
		return document.Layer{}, false, fmt.Errorf("rules at %s: %w", path, err)
	}
	slices.SortFunc(r.files, func(a, b document.File) int { return cmp.Compare(a.Name, b.Name) })
	return document.Layer{Dir: path, Files: r.files}, r.data != nil && !r.loose, nil
}

// dataLink is in a mounted ConfigMap. Its files are links to ..data/file, and ..data is one to the
// folder of a version, which kubelet swaps.
const dataLink = "..data"

// reader reads the rule files of a folder.
type reader struct {
	root    *os.Root
	data    *os.Root // the version of a ConfigMap; nil = not a ConfigMap
	files   []document.File
	entries int   // seen so far
	left    int64 // bytes left to read
	loose   bool  // some file is not of the ConfigMap
}

func (r *reader) folder(name string) error {
	dir, err := r.root.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		list, err := dir.ReadDir(256)
		for _, entry := range list {
			if err := r.entry(path.Join(name, entry.Name()), entry); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *reader) entry(name string, entry fs.DirEntry) error {
	if r.entries++; r.entries > maxEntries {
		return fmt.Errorf("there are more than %d files and folders; name a folder that holds rules and nothing else", maxEntries)
	}
	switch {
	case entry.IsDir() && document.IsHidden(entry.Name()):
		return nil
	case entry.IsDir():
		return r.folder(name)
	case !document.IsRuleFile(name):
		return nil
	case len(r.files) == maxFiles:
		return fmt.Errorf("there are more than %d rule files; put several documents into one file, with --- between them", maxFiles)
	}
	r.files = append(r.files, r.file(name))
	if r.left < 0 {
		return fmt.Errorf("the rule files exceed %d bytes at %s; remove files that hold no rules", maxTotalBytes, name)
	}
	return nil
}

// file reads a file. Links are followed below the root only.
func (r *reader) file(name string) document.File {
	out := document.File{Name: name}
	data, err := r.read(name)
	switch {
	case err == nil:
		out.Data = data
	case errors.Is(err, errNotRegular):
		out.Fault = err.Error()
	default:
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		out.Fault = fmt.Sprintf("the file cannot be read: %v; links may lead to files in the same folder, or below, by relative paths", err)
	}
	return out
}

var errNotRegular = errors.New("not a regular file, but a folder, a pipe, a socket or a device; put the text itself here")

// resolve is where to read a file: those of a ConfigMap are in the version that was found first.
func (r *reader) resolve(name string) (root *os.Root, path string, mounted bool) {
	if r.data != nil {
		if to, err := r.root.Readlink(name); err == nil {
			if below, ok := strings.CutPrefix(to, dataLink+"/"); ok {
				return r.data, below, true
			}
		}
	}
	return r.root, name, false
}

func (r *reader) read(name string) ([]byte, error) {
	root, name, mounted := r.resolve(name)
	r.loose = r.loose || !mounted
	info, err := root.Stat(name) // opening a device may have effects
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe in its place must not block
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	data, err := io.ReadAll(io.LimitReader(file, document.MaxFileSize+1))
	r.left -= int64(len(data))
	return data, err
}

// fingerprint digests the names and contents of rule files.
func fingerprint(layer document.Layer) [sha256.Size]byte {
	h := sha256.New()
	for _, file := range layer.Files {
		fmt.Fprintf(h, "%q %q %d\n", file.Name, file.Fault, len(file.Data))
		h.Write(file.Data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
