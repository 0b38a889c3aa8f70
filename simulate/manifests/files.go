package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/celvpa/celvpa/engine/faults"
)

// filesAt lists the files at a path: itself, or those below it, sorted. As with kubectl a path that leads to a folder through
// a symlink is read, and so are files behind symlinks, but folders behind symlinks below it are not entered. Hidden folders
// are left out: a mounted ConfigMap keeps its data twice.
func filesAt(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, cannotRead(path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, cannotRead(path, err)
	}
	var out []string
	var errs []error
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		below, _ := filepath.Rel(root, name)
		shown := filepath.Join(path, below)
		switch {
		case err != nil:
			errs = append(errs, cannotRead(shown, err))
			return nil
		case entry.IsDir():
			if name != root && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".yaml", ".yml", ".json":
		default:
			return nil
		}
		if target, err := os.Stat(name); err == nil && target.IsDir() { // a broken symlink is told when it is read
			return nil
		}
		out = append(out, shown)
		return nil
	})
	if err == nil && len(out) == 0 && len(errs) == 0 {
		err = fmt.Errorf("%s holds no manifests: files named *.yaml, *.yml or *.json", path)
	}
	return out, faults.Join(append(errs, err)...)
}

func (s *Set) readFile(name string) []error {
	file, err := os.Open(name)
	if err != nil {
		return []error{cannotRead(name, err)}
	}
	defer file.Close()
	return s.readFrom(file, name)
}

// cannotRead names the path once.
func cannotRead(path string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("cannot read %s: %w", path, err)
}
