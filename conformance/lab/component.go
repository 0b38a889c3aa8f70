package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/celvpa/celvpa/conformance/lab/detached"
)

// componentFile is a file that kwokctl keeps for a component, such as etcd or kube-apiserver.
func (c *cluster) componentFile(folder, component, extension string) string {
	return filepath.Join(c.dir, "kwok", "clusters", c.name, folder, component+extension)
}

// pid is the process ID of a component that runs.
func (c *cluster) pid(component string) (int, error) {
	text, err := os.ReadFile(c.componentFile("pids", component, ".pid"))
	if err != nil {
		return 0, fmt.Errorf("lab %s has no component %q that was started: %w", c.name, component, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 || !detached.Runs(pid) {
		return 0, fmt.Errorf("%s of lab %s does not run (process %q)", component, c.name, text)
	}
	return pid, nil
}

// servedWithin is how long a lab may take to start, to answer and to end a component, on a busy machine, before that is called a hang.
const servedWithin = 5 * time.Minute

// restart kills a component, starts it again with the same arguments and waits until the API server answers. kwokctl cannot: to
// it, a process that was killed and that nobody has waited for still runs.
func (c *cluster) restart(ctx context.Context, component string) error {
	pid, err := c.pid(component)
	if err != nil {
		return err
	}
	again, err := sameCommand(pid)
	if err != nil {
		return fmt.Errorf("finding out how %s was started: %w", component, err)
	}
	log, err := os.OpenFile(c.componentFile("logs", component, ".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	again.Stdout, again.Stderr = log, log
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing %s: %w", component, err)
	}
	if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, servedWithin, true, func(context.Context) (bool, error) { return !detached.Runs(pid), nil }); err != nil {
		return fmt.Errorf("killing %s, process %d: %w", component, pid, err)
	}
	if err := again.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", component, err)
	}
	if err := os.WriteFile(c.componentFile("pids", component, ".pid"), []byte(strconv.Itoa(again.Process.Pid)), 0o644); err != nil {
		return errors.Join(err, again.Process.Kill())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = again.Wait()
	}()
	served, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ended:
			cancel(fmt.Errorf("%s ended at once; see %s", component, log.Name()))
		case <-served.Done():
		}
	}()
	if err := c.waitServed(served); err != nil {
		return errors.Join(err, context.Cause(served))
	}
	return nil
}

// sameCommand is the command that a process was started with. It survives this process and its Ctrl-C.
func sameCommand(pid int) (*exec.Cmd, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, err
	}
	folder, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return nil, err
	}
	args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, nil
}

// errEnded is about a component that is not there any more.
var errEnded = errors.New("ended at once")

// waitControlled waits until the controller manager works: it makes the service account without which no pod can be created.
func (c *cluster) waitControlled(ctx context.Context) error {
	if err := c.waitServed(ctx); err != nil {
		return err
	}
	config, err := c.restConfig()
	if err != nil {
		return err
	}
	client, err := rest.UnversionedRESTClientFor(restDefaults(config))
	if err != nil {
		return err
	}
	const manager, account = "kube-controller-manager", "/api/v1/namespaces/default/serviceaccounts/default"
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, servedWithin, true, func(ctx context.Context) (bool, error) {
		if _, err := c.pid(manager); err != nil {
			return false, fmt.Errorf("%s of lab %s %w; see %s", manager, c.name, errEnded, c.componentFile("logs", manager, ".log"))
		}
		return client.Get().AbsPath(account).Do(ctx).Error() == nil, nil
	})
	if err != nil && !errors.Is(err, errEnded) {
		return fmt.Errorf("the controllers of lab %s make no service account: %w", c.name, err)
	}
	return err
}

// waitServed waits until the API server is ready.
func (c *cluster) waitServed(ctx context.Context) error {
	config, err := c.restConfig()
	if err != nil {
		return err
	}
	config.Timeout = 30 * time.Second
	client, err := rest.UnversionedRESTClientFor(restDefaults(config))
	if err != nil {
		return err
	}
	last := errors.New("no answer yet")
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, servedWithin, true, func(ctx context.Context) (bool, error) {
		last = client.Get().AbsPath("/readyz").Do(ctx).Error()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the API server of lab %s is not ready: %w (%w)", c.name, err, last)
	}
	return nil
}

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
