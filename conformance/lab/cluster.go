package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
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

// up starts the lab unless it runs: with simulated nodes, or with a real one in a virtual machine.
func (c *cluster) up(ctx context.Context, nodes int, virtual, metrics bool) (err error) {
	start := time.Now()
	if err := c.parts.ensure(ctx); err != nil {
		return err
	}
	if c.ready(ctx) {
		if machine, err := c.machine(); err != nil || virtual != (machine != nil) {
			return errors.Join(fmt.Errorf("lab %s is up with other nodes: lab down -name %s stops it", c.name, c.name), err)
		}
		fmt.Printf("lab: %s is up already (checked in %s)\n", c.name, elapsed(start))
	} else {
		defer func() {
			if err != nil && ctx.Err() != nil { // Ctrl-C leaves nothing behind
				err = errors.Join(err, c.remove(context.WithoutCancel(ctx)))
			}
		}()
		if err := c.start(ctx, virtual); err != nil {
			return err
		}
	}
	config, err := c.restConfig()
	if err != nil {
		return err
	}
	objects, err := newObjects(config)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d simulated nodes", nodes)
	if virtual {
		what = "a real node"
		err = c.startNode(ctx)
	} else {
		err = objects.simulate(ctx, nodes)
	}
	if err != nil {
		return err
	}
	if metrics {
		if err := c.ensureMetricsServer(ctx, objects); err != nil {
			return err
		}
	}
	fmt.Printf("lab: %s is ready in %s: Kubernetes %s, %s\n", c.name, elapsed(start), kubernetesVersion, what)
	fmt.Printf("lab: export KUBECONFIG=%s\n", c.kubeconfig())
	return nil
}

// ready reports whether the lab's API server answers. A slow one gets minutes; only a closed
// port means that the lab is gone.
func (c *cluster) ready(ctx context.Context) bool {
	config, err := c.restConfig()
	if err != nil {
		return false
	}
	config.Timeout = 30 * time.Second
	client, err := rest.UnversionedRESTClientFor(restDefaults(config))
	if err != nil {
		return false
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second, servedWithin, true, func(ctx context.Context) (bool, error) {
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

// startTries is how often a control plane is started of which a component ends at once: on a busy machine the API server may take
// longer to be healthy than the controller manager waits for it.
const startTries = 5

func (c *cluster) start(ctx context.Context, virtual bool) (err error) {
	for range startTries {
		err = alone(ctx, func() error {
			if err := c.create(ctx, virtual); err != nil {
				return err
			}
			return c.waitControlled(ctx)
		})
		if !errors.Is(err, errEnded) {
			break
		}
	}
	return err
}

func (c *cluster) create(ctx context.Context, virtual bool) error {
	if virtual {
		if _, err := c.nodeBase(ctx); err != nil { // before anything is started
			return err
		}
	}
	if err := c.remove(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	if err := c.rememberParts(); err != nil {
		return err
	}
	args, err := c.createArgs(virtual)
	if err != nil {
		return err
	}
	done := progress("starting the control plane of "+c.name, "about 5 s")
	err = c.kwokctl(ctx, args...)
	done(err)
	return err
}

// alone starts one control plane of this user at a time: kwokctl looks for ports that are free, and the controller manager listens on
// its own once the API server is ready.
func alone(ctx context.Context, start func() error) error {
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("celvpa-lab-%d.lock", os.Getuid())), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		switch err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return true, err
		}
	})
	if err != nil {
		return fmt.Errorf("waiting for other labs to start: %w", err)
	}
	return start()
}

// createArgs writes the files that the control plane starts from and returns kwokctl's arguments.
func (c *cluster) createArgs(virtual bool) ([]string, error) {
	config, policy := filepath.Join(c.dir, "kwok.yaml"), filepath.Join(c.dir, "audit.yaml")
	for file, text := range map[string][]byte{config: kwokConfig, policy: auditPolicy} {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, err
		}
	}
	args := []string{"-c", config, "create", "cluster", "--runtime", "binary", "--wait", servedWithin.String(),
		"--disable-qps-limits", "--enable-crds", "Metric,ClusterResourceUsage,ResourceUsage",
		"--etcd-binary", c.parts.path("etcd"),
		"--kube-apiserver-binary", c.parts.path("kube-apiserver"),
		"--kube-controller-manager-binary", c.parts.path("kube-controller-manager"),
		"--kube-scheduler-binary", c.parts.path("kube-scheduler"),
		"--kwok-controller-binary", c.parts.path("kwok"),
		"--kubeconfig", c.kubeconfig()}
	extra := []string{
		"audit-policy-file=" + policy,
		"audit-log-path=" + filepath.Join(c.dir, "audit.log"),
		"audit-log-maxsize=64", // MB, plus one rotated file
		"audit-log-maxbackup=1",
	}
	if virtual {
		if err := c.newMachine(); err != nil {
			return nil, err
		}
		// Nobody plays kube-proxy: the API server finds webhooks by the endpoints of their Services.
		extra = append(extra, "egress-selector-config-file="+c.egressFile(), "enable-aggregator-routing=true",
			"kubelet-preferred-address-types=InternalIP")
	}
	for _, arg := range extra {
		args = append(args, "--extra-args", "kube-apiserver="+arg)
	}
	// There is one of each. Where it elects itself, it ends when the API server is away for 10 seconds, and nobody starts it again.
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		args = append(args, "--extra-args", name+"=leader-elect=false")
	}
	return args, nil
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
	if machine, err := c.machine(); err != nil {
		return err
	} else if machine != nil {
		if err := machine.Kill(ctx); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(c.dir, "kwok")); err == nil {
		if err := c.kwokctl(ctx, "delete", "cluster", "--kubeconfig", c.kubeconfig()); err != nil {
			return err
		}
	}
	return os.RemoveAll(c.dir)
}

// freePort returns a loopback port that nobody listens on, below those that Linux gives to connections: it may be a while until it is
// used.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("finding a free port: %w", last)
}
