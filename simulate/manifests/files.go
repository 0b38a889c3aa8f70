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

// filesAt lists the files at or below a path, sorted. Like kubectl it follows symlinks to files,
// but to folders only for the path itself. Hidden folders repeat the data of a mounted ConfigMap.
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
		if target, err := os.Stat(name); err == nil && target.IsDir() { // reading reports broken symlinks
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

// cannotRead names the path exactly once.
func cannotRead(path string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("cannot read %s: %w", path, err)
}
