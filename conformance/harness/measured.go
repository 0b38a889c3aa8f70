package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Measured is a running program whose log goes straight into a file, so that copying it costs the
// measuring process nothing.
type Measured struct {
	LogFile string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error // once exited is closed
}

// StartMeasured runs a program with its output in a file. The environment is added to this
// process's own. Ctrl-C does not reach the program: stop it with Stop.
func StartMeasured(logFile string, environment []string, program string, args ...string) (*Measured, error) {
	if err := os.MkdirAll(filepath.Dir(logFile), 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	m := &Measured{LogFile: logFile, cmd: exec.Command(program, args...), exited: make(chan struct{})}
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.Env = append(os.Environ(), environment...)
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to pass on
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", filepath.Base(program), err)
	}
	go func() {
		m.err = m.cmd.Wait()
		close(m.exited)
	}()
	return m, nil
}

// Stop asks the process to end, and kills it after 10 seconds: how it ends is not measured.
func (m *Measured) Stop() {
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.exited:
	case <-time.After(10 * time.Second):
		_ = m.cmd.Process.Kill()
		<-m.exited
	}
}

// Alive is an error once the process has ended.
func (m *Measured) Alive() error {
	select {
	case <-m.exited:
		return errors.Join(fmt.Errorf("it stopped; see %s", m.LogFile), m.err)
	default:
		return nil
	}
}

// Footprint is the CPU time and the memory of a process, as the kernel counts them.
type Footprint struct {
	CPU       float64 // seconds since the process started
	RSS, Peak uint64  // bytes: now, and the highest ever
	Own       uint64  // bytes of RSS that no file backs: without the program's code
}

// Pid is the number of the process.
func (m *Measured) Pid() int { return m.cmd.Process.Pid }

// Footprint reads that of the process.
func (m *Measured) Footprint() (Footprint, error) { return FootprintOf(m.Pid()) }

// FootprintOf reads that of a process by its number.
func FootprintOf(pid int) (f Footprint, err error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return f, fmt.Errorf("reading /proc: %w", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return f, fmt.Errorf("reading the CPU time from /proc: %w", err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		return f, fmt.Errorf("reading the memory from /proc: %w", err)
	}
	return Footprint{CPU: stat.CPUTime(), RSS: status.VmRSS, Peak: status.VmHWM, Own: status.RssAnon}, nil
}
