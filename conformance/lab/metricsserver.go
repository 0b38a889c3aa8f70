package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ensureMetricsServer starts and registers metrics-server on a free loopback port, unless it runs.
func (c *cluster) ensureMetricsServer(ctx context.Context, objects *objects) error {
	if c.metricsServerPID() == 0 {
		port, err := freePort()
		if err != nil {
			return err
		}
		if err := c.startMetricsServer(port); err != nil {
			return err
		}
		if machine, err := c.machine(); err != nil {
			return err
		} else if err := objects.registerMetricsServer(ctx, port, machine != nil); err != nil {
			return err
		}
	}
	done := progress("waiting for metrics.k8s.io", "about 5 s")
	err := objects.waitForMetricsAPI(ctx, 60*time.Second, func() bool { return c.metricsServerPID() != 0 })
	done(err)
	if err != nil {
		return fmt.Errorf("%w; see %s", err, filepath.Join(c.dir, "metrics-server.log"))
	}
	return nil
}

func (c *cluster) startMetricsServer(port int) error {
	log, err := os.Create(filepath.Join(c.dir, "metrics-server.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(c.parts.path("metrics-server"),
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port),
		"--cert-dir="+filepath.Join(c.dir, "metrics-server"),
		"--kubeconfig="+c.kubeconfig(), "--authentication-kubeconfig="+c.kubeconfig(), "--authorization-kubeconfig="+c.kubeconfig(),
		"--kubelet-insecure-tls", "--kubelet-use-node-status-port", "--kubelet-preferred-address-types=InternalIP",
		"--metric-resolution=10s", "--kubelet-request-timeout=5s")
	cmd.Stdout, cmd.Stderr = log, log
	if machine, err := c.machine(); err != nil {
		return err
	} else if machine != nil {
		cmd.Env = append(os.Environ(), "HTTPS_PROXY="+machine.Proxy()) // to the kubelet; Go asks loopback addresses directly
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // survives this command and its Ctrl-C
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting metrics-server: %w", err)
	}
	pid := cmd.Process.Pid
	if err := cmd.Process.Release(); err != nil {
		return err
	}
	return os.WriteFile(c.pidFile(), []byte(strconv.Itoa(pid)), 0o644)
}

func (c *cluster) pidFile() string { return filepath.Join(c.dir, "metrics-server.pid") }

// metricsServerPID returns 0 unless the recorded process is a running metrics-server.
func (c *cluster) metricsServerPID() int {
	text, err := os.ReadFile(c.pidFile())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 || syscall.Kill(pid, 0) != nil {
		return 0
	}
	if command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && !strings.Contains(string(command), c.dir) {
		return 0 // the PID was reused
	}
	return pid
}

func (c *cluster) stopMetricsServer() {
	if pid := c.metricsServerPID(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	_ = os.Remove(c.pidFile())
}
