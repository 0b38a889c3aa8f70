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

// Process is a program that runs in a process group of its own: Ctrl-C does not reach it.
type Process struct {
	LogFile string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error // once exited is closed
}

func newProcess(logFile, program string, args []string) *Process {
	return &Process{LogFile: logFile, cmd: exec.Command(program, args...), exited: make(chan struct{})}
}

// StartMeasured runs a program that logs straight to a file, so that this process copies nothing.
func StartMeasured(logFile, program string, args ...string) (*Process, error) {
	p := newProcess(logFile, program, args)
	return p, p.begin(nil)
}

// begin starts the program. copyLog writes the log file until the program ends; nil = the program
// does.
func (p *Process) begin(copyLog func(log *os.File)) error {
	if err := os.MkdirAll(filepath.Dir(p.LogFile), 0o755); err != nil {
		return err
	}
	log, err := os.Create(p.LogFile)
	if err != nil {
		return err
	}
	if copyLog == nil {
		p.cmd.Stdout, p.cmd.Stderr = log, log
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", filepath.Base(p.cmd.Path), err)
	}
	go func() {
		defer close(p.exited)
		defer log.Close()
		if copyLog != nil {
			copyLog(log)
		}
		p.err = p.cmd.Wait()
	}()
	return nil
}

// Exited is closed when the process ends.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Alive returns an error once the process has ended.
func (p *Process) Alive() error {
	select {
	case <-p.exited:
		return errors.Join(fmt.Errorf("it stopped; see %s", p.LogFile), p.err)
	default:
		return nil
	}
}

// hung is how long this package waits for what programs and API servers do before it calls that a hang. On a busy machine all of
// it takes many times what it takes otherwise.
const hung = 5 * time.Minute

// Stop asks the process to end and waits; the error reports an unclean exit.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return p.err
	case <-time.After(hung):
		p.Kill()
		return fmt.Errorf("%s did not stop within %s and was killed", filepath.Base(p.cmd.Path), hung)
	}
}

// Kill kills the process and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Footprint is a process's CPU time and memory as counted by the kernel.
type Footprint struct {
	CPU       float64 // seconds since the process started
	RSS, Peak uint64  // bytes: now, and the highest ever
}

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
	return Footprint{CPU: stat.CPUTime(), RSS: status.VmRSS, Peak: status.VmHWM}, nil
}
