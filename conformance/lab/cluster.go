package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kwokConfig holds the stages that play kubelet.
//
//go:embed kwok.yaml
var kwokConfig []byte

//go:embed audit.yaml
var auditPolicy []byte

// usageObjects are the metrics endpoint and the usage expressions.
//
//go:embed usage.yaml
var usageObjects []byte

// cluster is a named lab. It writes only to its own folder.
type cluster struct {
	name  string
	dir   string
	parts *parts
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

func newCluster(labDir, name string, p *parts) (*cluster, error) {
	if !nameForm.MatchString(name) {
		return nil, fmt.Errorf("name %q: use up to 32 lower-case letters, digits and dashes", name)
	}
	return &cluster{name: name, dir: filepath.Join(labDir, "clusters", name), parts: p}, nil
}

// partsFile records which prebuilt programs started the lab: the same ones must stop it.
func (c *cluster) partsFile() string { return filepath.Join(c.dir, "parts") }

func (c *cluster) rememberParts() error {
	if c.parts.prebuilt == "" {
		return nil
	}
	return os.WriteFile(c.partsFile(), []byte(c.parts.prebuilt+"\n"), 0o644)
}

// recallParts reuses the programs of a running lab, unless LAB_PARTS is set or they are gone.
func (c *cluster) recallParts() {
	text, err := os.ReadFile(c.partsFile())
	if err != nil || c.parts.prebuilt != "" {
		return
	}
	folder := strings.TrimSpace(string(text))
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		c.parts.prebuilt = folder
	}
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

func (c *cluster) up(ctx context.Context, nodes int, metrics bool) error {
	start := time.Now()
	if err := c.parts.ensure(ctx); err != nil {
		return err
	}
	if c.ready(ctx) {
		fmt.Printf("lab: %s is up already (checked in %s)\n", c.name, elapsed(start))
	} else if err := c.create(ctx); err != nil {
		return err
	}
	config, err := c.restConfig()
	if err != nil {
		return err
	}
	objects, err := newObjects(config)
	if err != nil {
		return err
	}
	if err := objects.applyUsage(ctx, usageObjects); err != nil {
		return err
	}
	if err := objects.applyNodes(ctx, nodes); err != nil {
		return err
	}
	if metrics {
		if err := c.ensureMetricsServer(ctx, objects); err != nil {
			return err
		}
	}
	fmt.Printf("lab: %s is ready in %s: Kubernetes %s, %d nodes\n", c.name, elapsed(start), kubernetesVersion, nodes)
	fmt.Printf("lab: export KUBECONFIG=%s\n", c.kubeconfig())
	return nil
}

// ready reports whether the lab's API server answers. A slow one gets half a minute; only a closed
// port means that the lab is gone.
func (c *cluster) ready(ctx context.Context) bool {
	config, err := c.restConfig()
	if err != nil {
		return false
	}
	config.Timeout = 5 * time.Second
	client, err := rest.UnversionedRESTClientFor(restDefaults(config))
	if err != nil {
		return false
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := client.Get().AbsPath("/readyz").Do(ctx).Error()
		if errors.Is(err, syscall.ECONNREFUSED) {
			return false, err
		}
		return err == nil, nil
	})
	return err == nil
}

func (c *cluster) restConfig() (*rest.Config, error) {
	if _, err := os.Stat(c.kubeconfig()); err != nil {
		return nil, err
	}
	return clientcmd.BuildConfigFromFlags("", c.kubeconfig())
}

func (c *cluster) create(ctx context.Context) error {
	if err := c.remove(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	if err := c.rememberParts(); err != nil {
		return err
	}
	config, policy := filepath.Join(c.dir, "kwok.yaml"), filepath.Join(c.dir, "audit.yaml")
	for file, text := range map[string][]byte{config: kwokConfig, policy: auditPolicy} {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	done := progress("starting the control plane of "+c.name, "about 5 s")
	err := c.kwokctl(ctx, "-c", config, "create", "cluster", "--runtime", "binary", "--wait", "120s",
		"--disable-qps-limits", "--enable-crds", "Metric,ClusterResourceUsage,ResourceUsage",
		"--etcd-binary", c.parts.path("etcd"),
		"--kube-apiserver-binary", c.parts.path("kube-apiserver"),
		"--kube-controller-manager-binary", c.parts.path("kube-controller-manager"),
		"--kube-scheduler-binary", c.parts.path("kube-scheduler"),
		"--kwok-controller-binary", c.parts.path("kwok"),
		"--extra-args", "kube-apiserver=audit-policy-file="+policy,
		"--extra-args", "kube-apiserver=audit-log-path="+filepath.Join(c.dir, "audit.log"),
		"--extra-args", "kube-apiserver=audit-log-maxsize=64", // MB, plus one rotated file
		"--extra-args", "kube-apiserver=audit-log-maxbackup=1",
		"--kubeconfig", c.kubeconfig())
	done(err)
	return err
}

// kwokctl runs the tool in this lab's folder and shows its output only on failure.
func (c *cluster) kwokctl(ctx context.Context, args ...string) error {
	program := c.parts.path("kwokctl")
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("the lab is started and stopped by kwokctl, which is not at %s: set LAB_PARTS to the folder that the lab was started with, or run lab build kwokctl", program)
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--name", c.name}, args...)...)
	cmd.Env = append(os.Environ(), "KWOK_WORKDIR="+filepath.Join(c.dir, "kwok"))
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kwokctl %s: %w\n%s", strings.Join(args[:min(2, len(args))], " "), err, strings.TrimSpace(output.String()))
	}
	return nil
}

func (c *cluster) down(ctx context.Context) error {
	if _, err := os.Stat(c.dir); errors.Is(err, os.ErrNotExist) {
		fmt.Printf("lab: %s is not up\n", c.name)
		return nil
	}
	if err := c.remove(ctx); err != nil {
		return err
	}
	fmt.Printf("lab: %s is gone\n", c.name)
	return nil
}

// remove stops the lab and deletes its folder.
func (c *cluster) remove(ctx context.Context) error {
	c.stopMetricsServer()
	if _, err := os.Stat(filepath.Join(c.dir, "kwok")); err == nil {
		if err := c.kwokctl(ctx, "delete", "cluster", "--kubeconfig", c.kubeconfig()); err != nil {
			return err
		}
	}
	return os.RemoveAll(c.dir)
}

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
		if err := objects.registerMetricsServer(ctx, port); err != nil {
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

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
