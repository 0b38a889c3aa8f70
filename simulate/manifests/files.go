package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/celvpa/celvpa/engine/faults"
)

// filesIn lists the files in a folder and below, sorted. Like kubectl it follows symlinks to files,
// but to folders only for the path itself. Hidden folders repeat the data of a mounted ConfigMap, and
// hidden files and folders configure tools.
func filesIn(path string, ignore []string) ([]string, error) {
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, cannotRead(path, err)
	}
	patterns, err := patternsOf(ignore)
	if err != nil {
		return nil, err
	}
	ignored := func(below string) bool {
		for _, p := range patterns {
			if p.MatchString(filepath.ToSlash(below)) {
				return true
			}
		}
		return false
	}
	var out []string
	var errs []error
	leftOut := false
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		below, _ := filepath.Rel(root, name)
		shown := filepath.Join(path, below)
		byPattern := name != root && ignored(below)
		leftOut = leftOut || byPattern
		hidden := name != root && (strings.HasPrefix(entry.Name(), ".") || byPattern)
		switch {
		case err != nil:
			errs = append(errs, cannotRead(shown, err))
			return nil
		case entry.IsDir() && hidden:
			return fs.SkipDir
		case entry.IsDir() || hidden:
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
		if leftOut {
			err = fmt.Errorf("%s holds no manifests beside what --ignore %s leaves out", path, strings.Join(ignore, ", "))
		}
	}
	return out, faults.Join(append(errs, err)...)
}

// CheckPattern returns an error for a pattern that cannot match. Patterns are those of .gitignore: * and
// ? stand for characters of a name, ** for folders, and one without a slash is for names at any depth.
func CheckPattern(pattern string) error {
	_, err := patternsOf([]string{pattern})
	return err
}

func patternsOf(list []string) (out []*regexp.Regexp, err error) {
	for _, written := range list {
		text := strings.Trim(strings.TrimPrefix(written, "./"), "/")
		if text == "" {
			return nil, fmt.Errorf("pattern %q matches nothing: write the name of a file or folder, such as charts or *-values.yaml", written)
		}
		if !strings.Contains(strings.TrimSuffix(written, "/"), "/") {
			text = "**/" + text
		}
		text = regexp.QuoteMeta(text)
		for _, part := range [][2]string{{`\*\*/`, `(?:.*/)?`}, {`\*\*`, `.*`}, {`\*`, `[^/]*`}, {`\?`, `[^/]`}} {
			text = strings.ReplaceAll(text, part[0], part[1])
		}
		compiled, err := regexp.Compile("^" + text + "$")
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", written, err)
		}
		out = append(out, compiled)
	}
	return out, nil
}

func (s *Set) readFile(name string) []error {
	file, err := os.Open(name)
	if err != nil {
		return []error{cannotRead(name, err)}
	}
	defer file.Close()
	return s.readFrom(file, name)
}

// shippedMemory is what objects may take, by estimate: 300 MB of YAML as kubectl writes it, or 40 MB of nothing but brackets.
const shippedMemory = 4 << 30

// bounded reads as much as a set has room for.
type bounded struct {
	in  io.Reader
	set *Set
}

// Read implements io.Reader.
func (b *bounded) Read(into []byte) (int, error) {
	if b.set.room <= 0 {
		return 0, errors.New("it takes too much memory, with what was read before: give fewer objects, such as those of one namespace")
	}
	n, err := b.in.Read(into)
	nodes := 0
	for _, c := range into[:n] {
		switch c {
		case '\n', ',', ':', '[', '{':
			nodes++
		}
	}
	b.set.room -= int64(5*n + 150*nodes)
	return n, err
}

// openRegular opens a file of a folder, nil if it is a pipe, a device or the like: nobody named it, and it may have no end, or never
// begin.
func openRegular(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe
	if err != nil {
		return nil, err
	}
	if info, err = file.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// cannotRead names the path exactly once.
func cannotRead(path string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("cannot read %s: %w", path, err)
}
