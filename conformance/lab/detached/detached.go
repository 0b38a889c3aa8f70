// Package detached starts processes that outlive the command that started them, and finds them again.
package detached

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Process is a process whose ID is kept in a file.
type Process struct {
	File string
	// Mark is a part of its command line, such as the folder it works in. Another process may have its ID once it has ended.
	Mark string
}

// Start starts the process and leaves it to itself: neither the end of this command nor its Ctrl-C ends it. What it prints goes to
// the log, a new file.
func (p Process) Start(cmd *exec.Cmd, log string) error {
	output, err := os.Create(log)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	if err := cmd.Process.Release(); err != nil {
		return err
	}
	return os.WriteFile(p.File, []byte(strconv.Itoa(pid)), 0o644)
}

// PID is the ID of the process; 0 if it does not run.
func (p Process) PID() int {
	text, err := os.ReadFile(p.File)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 || !Runs(pid) {
		return 0
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(command) > 0 && !bytes.Contains(command, []byte(p.Mark)) { // it is empty while the program is being loaded
		return 0
	}
	return pid
}

// Signal sends a signal to the process; nothing if it does not run.
func (p Process) Signal(s syscall.Signal) error {
	if pid := p.PID(); pid != 0 {
		return syscall.Kill(pid, s)
	}
	return nil
}

// Runs reports whether there is a process that has not ended. One that nobody has waited for yet has ended, once all of its
// threads have: the last one closes its ports.
func Runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // the name before may have blanks
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err == nil && (len(threads) > 1 || !bytes.HasPrefix(rest, []byte("Z")) && !bytes.HasPrefix(rest, []byte("X")))
}
