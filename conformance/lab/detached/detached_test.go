package detached

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAProcessIsFoundAgainAndEnded(t *testing.T) {
	dir := t.TempDir()
	one := Process{File: filepath.Join(dir, "pid"), Mark: dir}
	log := filepath.Join(dir, "log")
	if err := one.Start(exec.Command("tail", "-f", log), log); err != nil {
		t.Fatal(err)
	}
	pid := Process{File: one.File, Mark: dir}.PID()
	if pid == 0 {
		t.Fatal("it is not found")
	}
	if err := one.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil { // its end, of which it stays a zombie
		t.Fatal(err)
	}
	if one.PID() != 0 {
		t.Fatal("it runs after it was killed")
	}
	if err := one.Signal(syscall.SIGKILL); err != nil {
		t.Errorf("ending what has ended: %v", err)
	}
}

func TestAProcessOfAnotherProgramIsNotTakenForOurs(t *testing.T) {
	dir := t.TempDir()
	p := Process{File: filepath.Join(dir, "pid"), Mark: dir}
	if pid := p.PID(); pid != 0 {
		t.Errorf("process %d is found without a file", pid)
	}
	for _, text := range []string{"", "nonsense", "1", "-5", "999999999", strconv.Itoa(os.Getpid())} {
		if err := os.WriteFile(p.File, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if pid := p.PID(); pid != 0 {
			t.Errorf("%q is taken for process %d", text, pid)
		}
	}
}

func TestAProcessThatCannotStartLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	p := Process{File: filepath.Join(dir, "pid"), Mark: dir}
	err := p.Start(exec.Command(filepath.Join(dir, "missing")), filepath.Join(dir, "log"))
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(p.File); err == nil {
		t.Error("a process ID is kept")
	}
}
