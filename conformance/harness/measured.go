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

// Measured is a process that logs straight to a file, so the measuring process copies nothing.
type Measured struct {
	LogFile string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error // once exited is closed
}

// StartMeasured runs a program with extra environment. Ctrl-C does not reach it: call Stop.
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
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not reach the child
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", filepath.Base(program), err)
	}
	go func() {
		m.err = m.cmd.Wait()
		close(m.exited)
	}()
	return m, nil
}

// Stop asks the process to end, and kills it after 10 seconds.
func (m *Measured) Stop() {
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.exited:
	case <-time.After(10 * time.Second):
		_ = m.cmd.Process.Kill()
		<-m.exited
	}
}

// Alive returns an error once the process has ended.
func (m *Measured) Alive() error {
	select {
	case <-m.exited:
		return errors.Join(fmt.Errorf("it stopped; see %s", m.LogFile), m.err)
	default:
		return nil
	}
}

// Footprint is a process's CPU time and memory as counted by the kernel.
type Footprint struct {
	CPU       float64 // seconds since the process started
	RSS, Peak uint64  // bytes: now, and the highest ever
	Own       uint64  // bytes of RSS not backed by files, so without code
}

// Pid returns the process ID.
func (m *Measured) Pid() int { return m.cmd.Process.Pid }

// Footprint reads the footprint of the process.
func (m *Measured) Footprint() (Footprint, error) { return FootprintOf(m.Pid()) }

// FootprintOf reads the footprint of a process ID.
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
