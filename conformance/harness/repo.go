package harness

import (
	"errors"
	"os"
	"path/filepath"
)

// Root finds the repository: the nearest parent with a go.mod beside a rules folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, mod := os.Stat(filepath.Join(dir, "go.mod"))
		_, rules := os.Stat(filepath.Join(dir, "rules"))
		if mod == nil && rules == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run this inside the repository of celvpa")
		}
		dir = parent
	}
}
