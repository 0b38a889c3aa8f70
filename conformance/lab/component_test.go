package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/celvpa/celvpa/conformance/lab/detached"
)

func TestAComponentThatWasKilledDoesNotRunAlthoughNobodyWaitedForIt(t *testing.T) {
	c, err := newCluster(t.TempDir(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.pid("etcd"); err == nil {
		t.Error("a component that was never started runs")
	}
	cmd := exec.Command("cat", "-")
	cmd.Dir = t.TempDir()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	// It has no command line while its program is loaded. Once it answers, that is over.
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	file := c.componentFile("pids", "etcd", ".pid")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	if pid, err := c.pid("etcd"); pid != cmd.Process.Pid || err != nil {
		t.Errorf("process %d is found as %d, %v", cmd.Process.Pid, pid, err)
	}
	again, err := sameCommand(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if again.Dir != cmd.Dir || len(again.Args) != 2 || again.Args[1] != "-" {
		t.Errorf("it was started with %v in %s, and would be again with %v in %s", cmd.Args, cmd.Dir, again.Args, again.Dir)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil { // its end, of which it stays a zombie
		t.Fatal(err)
	}
	if detached.Runs(cmd.Process.Pid) {
		t.Error("a killed process runs")
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(cmd.Process.Pid)); err != nil {
		t.Error("somebody waited for it, so this test shows nothing")
	}
	if _, err := c.pid("etcd"); err == nil {
		t.Error("a killed component runs")
	}
}
