package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/celvpa/celvpa/conformance/harness"
)

// program is a recommender that can be started.
type program struct {
	name string // for people
	ours bool
	path string
	args []string // before the flags
}

// build compiles one of the programs into bin/. Upstream's is kept from the last time.
func build(ctx context.Context, name string) (program, error) {
	switch name {
	case "celvpa":
		path, err := harness.Build(ctx)
		return program{name: name, ours: true, path: path, args: []string{"recommender"}}, err
	case "upstream":
		path, err := harness.BuildUpstreamRecommender(ctx, os.Stderr)
		return program{name: "upstream " + harness.UpstreamRelease, path: path}, err
	}
	return program{}, fmt.Errorf("-programs: no program %q; known: upstream, celvpa", name)
}

// process is a recommender that runs.
type process struct {
	program
	address string // of its metrics
	log     string
	cmd     *exec.Cmd
	exited  chan struct{}
	err     error // once exited is closed
}

// start runs a program with default flags, but for where to listen.
func (b *bench) start(p program) (*process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("finding a free port: %w", err)
	}
	one := &process{program: p, address: listener.Addr().String(), exited: make(chan struct{})}
	listener.Close()
	if err := os.MkdirAll(b.logs, 0o755); err != nil {
		return nil, err
	}
	one.log = filepath.Join(b.logs, filepath.Base(p.path)+".log")
	log, err := os.Create(one.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := append(p.args, "--kubeconfig="+b.kubeconfig, "--address="+one.address)
	if b.profile {
		args = append(args, "--profiling")
	}
	one.cmd = exec.Command(p.path, args...)
	one.cmd.Stdout, one.cmd.Stderr = log, log
	one.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to pass on
	if err := one.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting: %w", err)
	}
	go func() {
		one.err = one.cmd.Wait()
		close(one.exited)
	}()
	return one, nil
}

// stop asks the process to end. One that does not listen is killed: how it ends is not measured.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// alive is an error once the process has ended.
func (p *process) alive() error {
	select {
	case <-p.exited:
		return errors.Join(fmt.Errorf("it stopped; see %s", p.log), p.err)
	default:
		return nil
	}
}

// footprint is what the kernel says of a process. Seconds and bytes.
type footprint struct {
	cpu       float64
	rss, peak uint64
}

func (p *process) footprint() (f footprint, err error) {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
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
	return footprint{cpu: stat.CPUTime(), rss: status.VmRSS, peak: status.VmHWM}, nil
}
