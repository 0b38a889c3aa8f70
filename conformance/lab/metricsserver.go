package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/celvpa/celvpa/conformance/lab/detached"
)

// ensureMetricsServer starts and registers metrics-server on a free loopback port, unless it runs.
func (c *cluster) ensureMetricsServer(ctx context.Context, objects *objects) error {
	if c.metricsServer().PID() == 0 {
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
	err := objects.waitForMetricsAPI(ctx, servedWithin, func() bool { return c.metricsServer().PID() != 0 })
	done(err)
	if err != nil {
		return fmt.Errorf("%w; see %s", err, filepath.Join(c.dir, "metrics-server.log"))
	}
	return nil
}

func (c *cluster) startMetricsServer(port int) error {
	cmd := exec.Command(c.parts.path("metrics-server"),
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port),
		"--cert-dir="+filepath.Join(c.dir, "metrics-server"),
		"--kubeconfig="+c.kubeconfig(), "--authentication-kubeconfig="+c.kubeconfig(), "--authorization-kubeconfig="+c.kubeconfig(),
		"--kubelet-insecure-tls", "--kubelet-use-node-status-port", "--kubelet-preferred-address-types=InternalIP",
		"--metric-resolution=10s", "--kubelet-request-timeout=5s")
	if machine, err := c.machine(); err != nil {
		return err
	} else if machine != nil {
		cmd.Env = append(os.Environ(), "HTTPS_PROXY="+machine.Proxy()) // to the kubelet; Go asks loopback addresses directly
	}
	if err := c.metricsServer().Start(cmd, filepath.Join(c.dir, "metrics-server.log")); err != nil {
		return fmt.Errorf("starting metrics-server: %w", err)
	}
	return nil
}

func (c *cluster) metricsServer() detached.Process {
	return detached.Process{File: filepath.Join(c.dir, "metrics-server.pid"), Mark: c.dir}
}

func (c *cluster) stopMetricsServer() {
	_ = c.metricsServer().Signal(syscall.SIGTERM)
	_ = os.Remove(c.metricsServer().File)
}
