package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// building runs a command that builds a program, one at a time: suites side by side build the same ones, and none may replace what another
// has just built and runs.
func building(root, what string, cmd *exec.Cmd) error {
	folder := filepath.Join(root, "bin")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(folder, ".building-"+strings.ReplaceAll(what, " ", "-")), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("waiting for other builds: %w", err)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", what, err, text)
	}
	return nil
}
